"""A name in a message stays on one line, whatever it holds, and no terminal obeys it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs import PackWriter, pack_folder
from ffrfs.errors import PackError
from ffrfs.packing.change import add_files
from ffrfs.packing.sources.path_list import PathList
from ffrfs.printable import printable, quoted
from tests.folder.folder_model import packed


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a\xff\xfeb", r"a\xff\xfeb"),  # not UTF-8
        ("ÿ \x80 \x1b \u202e \n".encode(), r"ÿ \u0080 \x1b \u202e \n"),
        ("\ud800".encode("utf-8", "surrogatepass"), r"\xed\xa0\x80"),
    ],
)
def test_bytes_and_control_characters_are_escaped(name: bytes, shown: str) -> None:
    assert printable(os.fsdecode(name)) == shown
    assert quoted(os.fsdecode(name)) == f"'{shown}'"


@given(st.binary())
def test_any_name_is_one_printable_line(name: bytes) -> None:
    text = os.fsdecode(name)
    assert printable(text).isprintable()
    assert (printable(text) == text) == text.isprintable()


def write_a_file(name: str, folder: Path) -> None:
    with PackWriter(folder.parent / "y.ffr") as pack:
        pack.add(name, b"1")


@pytest.mark.parametrize(
    "use",
    [
        lambda name, folder: pack_folder(folder, folder.parent / "y.ffr", include=[name]),
        lambda name, folder: pack_folder(folder, folder.parent / "y.ffr", files=[name]),
        lambda name, folder: pack_folder(folder, folder.parent / "y.ffr", order=folder / "list"),
        lambda name, folder: add_files(str(folder.parent / "x.ffr"), [name], folder=str(folder)),
        lambda name, folder: PathList([f"/{name}"]),
        write_a_file,
    ],
)
def test_errors_show_the_bytes_of_a_name(
    use: Callable[[str, Path], object], tmp_path: Path
) -> None:
    name = os.fsdecode(b"b\xff")
    (tmp_path / "x.ffr").write_bytes(packed({name: b"x"}))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "list").write_bytes(os.fsencode(name))
    with pytest.raises(PackError) as caught:
        use(name, tmp_path / "folder")
    assert r"b\xff'" in str(caught.value)
