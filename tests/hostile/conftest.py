"""Fixtures of the tests that mount: places, mounts by every engine, a seed.

Fixtures shared with the mount tests (children, the command) are imported from there.
"""

# ruff: noqa: F401, F811 - fixtures of another folder

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.mount.kernel import state
from tests.mount.command import Mount
from tests.mount.conftest import engine, places
from tests.mount.makers import MakeMount, closing_mounts


@pytest.fixture
def seed() -> int:
    """Return the seed of all random choices of a test; FFRFS_SOAK_SEED repeats them."""
    drawn = int(os.environ.get("FFRFS_SOAK_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"FFRFS_SOAK_SEED={drawn}")
    return drawn


@pytest.fixture
def mount_as(fuse: None, places: Path, tmp_path: Path) -> Iterator[MakeMount]:
    """Yield a function that mounts packs: mount_as("native", pack, ..., "--cache-mb", "8").

    After the test the mounts are ended, and their logs are checked.
    """
    with closing_mounts(places, tmp_path) as new:

        def make(engine: str, *packs_and_arguments: Path | str) -> Mount:
            packs = [given for given in packs_and_arguments if isinstance(given, Path)]
            mount = new(engine, *packs)
            done = mount.mount(*(given for given in packs_and_arguments if isinstance(given, str)))
            assert (done.status, done.out) == (0, ""), done
            return mount

        yield make


def check_nothing_left(mount: Mount) -> None:
    """Check that nothing is left of a mount that was unmounted."""
    mount.wait_for_daemon()
    assert not mount.is_mounted
    assert not mount.path.exists()
    assert state.find(str(mount.path)) is None
    assert mount.processes() == []
