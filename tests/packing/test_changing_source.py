"""Directories and files that are replaced between their listing and their packing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.errors import PackError
from ffrfs.packing.sources.contents import Symlinks
from ffrfs.packing.sources.source import Source
from tests.folder.folder_model import shown_tree

TIMEOUT_S = 60
WITHOUT_CALL = Path(__file__).parents[1] / "mount" / "without_call.py"
MODES: list[Symlinks] = ["keep", "skip", "inside", "follow"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory to pack, beside one that must not be packed."""
    for path, text in {"folder/a/x": "x", "folder/z/key": "mine", "secret/key": "text"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        os.utime(tmp_path / path, (5, 5))  # of equal times, so that only inodes tell files apart
    return tmp_path / "folder"


@pytest.mark.parametrize("symlinks", MODES)
def test_a_directory_that_was_replaced_by_a_link(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, symlinks: Symlinks
) -> None:
    enter = Source._enter

    def replacing(self: Source, stack: list, found: tuple):
        if found[0].name == "z":
            (folder / "z").rename(folder.parent / "z")
            (folder / "z").symlink_to("../secret")
        return enter(self, stack, found)

    monkeypatch.setattr(Source, "_enter", replacing)
    with pytest.raises(PackError, match=f"^{folder}/z: changed while it was packed; pack again"):
        pack_folder(folder, out, symlinks=symlinks)
    assert not out.exists()


@pytest.mark.parametrize("symlinks", MODES)
@pytest.mark.parametrize("path", ["z/key", "z"])
def test_a_listed_path_that_was_replaced_by_a_link(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch, symlinks: Symlinks, path: str
) -> None:
    append = Source.append

    def replacing(self: Source, *args) -> None:
        (folder / path).rename(folder.parent / "moved")
        (folder / path).symlink_to(folder.parent / "secret" / path[2:])
        append(self, *args)

    monkeypatch.setattr(Source, "append", replacing)
    if symlinks == "follow":  # wherever links lead
        pack_folder(folder, out, symlinks=symlinks)
        assert shown_tree(out)["z"] == {"key": b"text"}
        return
    with pytest.raises(PackError, match=rf"^{folder}/z/key: changed while it was packed"):
        pack_folder(folder, out, symlinks=symlinks)
    assert not out.exists()


@pytest.mark.parametrize("call", ["openat2", "seccomp"])
def test_links_that_stay_inside_are_followed_on_any_kernel(
    folder: Path, out: Path, call: str
) -> None:
    """A kernel before 5.6 has no openat2()."""
    for name, target in {
        "file": "z/key",
        "absolute": folder / "a" / "x",
        "a/folder": "../z",
        "chain": "a/folder/key",
    }.items():
        (folder / name).symlink_to(target)
    (folder.parent / "link").symlink_to("folder")
    words = [sys.executable, "-m", "ffrfs", "pack", "-q", folder.parent / "link", out]
    subprocess.run([sys.executable, WITHOUT_CALL, call, *words], check=True, timeout=TIMEOUT_S)
    assert shown_tree(out) == {
        "a": {"x": b"x", "folder": {"key": b"mine"}},
        "absolute": b"x",
        "chain": b"mine",
        "file": b"mine",
        "z": {"key": b"mine"},
    }
