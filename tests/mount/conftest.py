"""Fixtures of the mount tests: packs, and mounts over every engine.

The files to be mounted are in places that other users may enter, and nothing is removed
there before it is certain that nothing is mounted there.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import ENGINES, Mount
from ffrecord_file import Tree

from ffrfs import pack_folder
from ffrfs.mount.mount_table import read_mount_table


@pytest.fixture
def root_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user or remount")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, fuse: None) -> str:
    return str(request.param)


@pytest.fixture
def places() -> Iterator[Path]:
    """A folder for mount points that other users may enter, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="ffrfs-test-"))
    path.chmod(0o755)
    yield path
    left = [e.mountpoint for e in read_mount_table() if e.mountpoint.startswith(f"{path}/")]
    assert not left  # before anything is removed in there
    shutil.rmtree(path)


PackTree = Callable[[Tree], Path]


@pytest.fixture
def pack_tree(tmp_path: Path) -> PackTree:
    """Packs {name: bytes | {...}} and gives back the file."""

    def pack(tree: Tree) -> Path:
        source, file = tmp_path / "source", tmp_path / "tree.ffr"
        write_files(source, tree)
        pack_folder(source, file)
        shutil.rmtree(source)
        return file

    return pack


def write_files(folder: Path, tree: Tree) -> None:
    folder.mkdir()
    for name, entry in tree.items():
        if isinstance(entry, dict):
            write_files(folder / name, entry)
        else:
            (folder / name).write_bytes(entry)


MakeMount = Callable[..., Mount]


@pytest.fixture
def new_mount(engine: str, places: Path, tmp_path: Path) -> Iterator[MakeMount]:
    """Makes a Mount of a pack, not mounted yet; ended and checked after the test."""
    mounts: list[Mount] = []

    def make(pack: Path, mountpoint: Path | None = None) -> Mount:
        name = f"mount{len(mounts)}"
        mount = Mount(engine, pack, mountpoint or places / name, tmp_path / f"{name}.log")
        mounts.append(mount)
        return mount

    yield make
    for mount in mounts:
        mount.close()
    for mount in mounts:
        mount.check_log()


@pytest.fixture
def mount(new_mount: MakeMount) -> MakeMount:
    """Mounts a pack: mount(pack, "-o", "xattr", ...)."""

    def make(pack: Path, *arguments: str, mountpoint: Path | None = None) -> Mount:
        made = new_mount(pack, mountpoint)
        done = made.mount(*arguments)
        assert (done.status, done.out, done.err) == (0, "", "")
        assert made.is_mounted
        return made

    return make
