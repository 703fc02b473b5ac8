"""Types and helper functions for the fixtures of the mount tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import uring_switch
from tests.ffrecord_file import Tree
from tests.mount.command import ENGINES, WAYS, Mount
from tests.mount.disk import Disk
from tests.mount.notify_socket import Service

ORDINARY_USER_ID = 65534

# For tests that do not run with the engines of their directory.
by_all_ways = pytest.mark.parametrize("engine", WAYS, indirect=True)
by_both = pytest.mark.parametrize("engine", ENGINES, indirect=True)
by_native = pytest.mark.parametrize("engine", ["native"], indirect=True)

PackTree = Callable[[Tree], Path]
AskAsUser = Callable[..., dict[str, Any]]
MakeMount = Callable[..., Mount]
StartService = Callable[..., Service]
MakeDisk = Callable[[Path, dict[str, tuple[int, int]]], Disk]


def engine_of(request: pytest.FixtureRequest) -> str:
    """Return the value of a fixture `engine`, one of WAYS; switch io_uring on if it needs that."""
    if request.param == "uring":
        request.getfixturevalue("uring")
        uring_switch.keep_on()
    return str(request.param)


def ways_of(request: pytest.FixtureRequest) -> list[str]:
    """Return the value of a fixture `ways`: all the ways that work on this machine."""
    if uring_switch.why_not() is not None:
        return ENGINES
    request.getfixturevalue("uring")
    uring_switch.keep_on()
    return WAYS


@contextlib.contextmanager
def closing_mounts(places: Path, logs: Path) -> Iterator[MakeMount]:
    """Gives a function that makes a Mount of an engine and packs (paths or URLs), not mounted yet.

    At the end all mounts are closed, whatever happens, and then their logs are checked.
    """
    mounts: list[Mount] = []

    def new(engine: str, *packs: Any, mountpoint: Path | None = None) -> Mount:
        name = f"mount{len(mounts)}"
        mounts.append(Mount(engine, packs, mountpoint or places / name, logs / f"{name}.log"))
        return mounts[-1]

    try:
        yield new
    finally:
        for mount in mounts:
            mount.close()
    for mount in mounts:
        mount.check_log()
        mount.remove_kept()


def write_files(folder: Path, tree: Tree) -> None:
    folder.mkdir()
    for name, entry in tree.items():
        if isinstance(entry, dict):
            write_files(folder / name, entry)
        else:
            (folder / name).write_bytes(entry)
