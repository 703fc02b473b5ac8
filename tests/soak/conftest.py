"""Fixtures of the soak tests: two cores, packs whose files can be checked, mounts.

Fixtures shared with the mount tests (children, the command) are imported from there.
"""

# ruff: noqa: F401 - fixtures of another folder

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.mount.conftest import engine, new_mount, places
from tests.mount.engines.conftest import ways
from tests.soak.readers import write_checkable_files


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run one test at a time, because the readers of one take all cores."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("soak"))


@pytest.fixture
def two_cores() -> Iterator[None]:
    """Limit the test, and all that it starts, to two cores."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture(scope="session")
def pack_checkable(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Return a function that packs about `size_mb` of files that readers.py can check, once."""
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
