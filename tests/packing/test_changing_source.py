"""Directories and files that are replaced between their listing and their packing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.errors import PackError
from ffrfs.packing.sources.contents import Symlinks
from ffrfs.packing.sources.source import Source

MODES: list[Symlinks] = ["keep", "skip", "inside", "follow"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory to pack, beside one that shall not be packed."""
    for path, text in {"folder/a/x": "x", "folder/z/key": "mine", "secret/key": "text"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path / "folder"


@pytest.mark.parametrize("symlinks", MODES)
def test_a_directory_that_a_link_has_replaced(
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
