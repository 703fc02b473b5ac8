"""Fixtures of the soak tests: two cores, packs whose files can be checked, mounts.

What they share with the mount tests (children, the command) is imported from there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.mount.kernel.mount_table import read_mount_table
from tests.mount.command import ENGINES, Mount
from tests.mount.makers import engine_of, ways_of
from tests.soak.readers import write_checkable_files


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, fuse: None) -> str:
    return engine_of(request)


@pytest.fixture
def ways(request: pytest.FixtureRequest, fuse: None) -> list[str]:
    """All that a mount can be served by here."""
    return ways_of(request)


@pytest.fixture
def two_cores() -> Iterator[None]:
    """For the test and all that it starts."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture(scope="session")
def pack_checkable(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Packs about so many MB of files that readers.py can check; once each."""
    made: dict[int, Path] = {}

    def pack(size_mb: int) -> Path:
        if size_mb not in made:
            folder = tmp_path_factory.mktemp("soak")
            write_checkable_files(folder / "source", size_mb << 20)
            pack_folder(folder / "source", folder / "pack.ffr")
            shutil.rmtree(folder / "source")
            made[size_mb] = folder / "pack.ffr"
        return made[size_mb]

    return pack


@pytest.fixture
def places() -> Iterator[Path]:
    """A folder for mount points; nothing is removed in it while something is mounted there."""
    path = Path(tempfile.mkdtemp(prefix="ffrfs-soak-"))
    yield path
    left = [e.mountpoint for e in read_mount_table() if e.mountpoint.startswith(f"{path}/")]
    assert not left
    shutil.rmtree(path)


@pytest.fixture
def new_mount(engine: str, places: Path, tmp_path: Path) -> Iterator[Callable[[Path], Mount]]:
    """Makes a Mount of a pack, not mounted yet; ended, and its log checked, after the test."""
    mounts: list[Mount] = []

    def make(pack: Path) -> Mount:
        mounts.append(Mount(engine, [pack], places / "mount", tmp_path / "log"))
        return mounts[-1]

    yield make
    for mount in mounts:
        mount.close()
    for mount in mounts:
        mount.check_log()
