"""A directory and its pack, as a file system of fsspec."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import ffrfs


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories, an empty file, one of several MiB, strange names, links of all kinds."""
    root = tmp_path_factory.mktemp("fsspec") / "source"
    for folder in ("a/b", "c", "empty"):
        (root / folder).mkdir(parents=True)
    for name in ("a/b/one.txt", "a/two.txt", "a.txt", "c/[x].txt", "é.bin", "c/three"):
        (root / name).write_text(f"this is {name}")
    (root / "nothing").touch()
    (root / "large").write_bytes(os.urandom(10 << 20))
    (root / "to_a").symlink_to("a")
    (root / "a" / "up").symlink_to("..")
    (root / "c" / "to_file").symlink_to("../a.txt")
    (root / "broken").symlink_to("nowhere")
    return root


@pytest.fixture(scope="session")
def pack(source: Path) -> str:
    pack = source.parent / "x.ffr"
    ffrfs.pack_folder(source, pack, symlinks="keep")
    return str(pack)
