"""Listings: complete, in any piece size, from any position."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ffrecord_file import write_folder
from tests.mount import probes
from tests.mount.command import Mount
from tests.mount.makers import MakeMount

ENTRY_COUNT = 5_000
NAMES = {f"file number {i}" for i in range(ENTRY_COUNT - 2)} | {"folder", "\udcff no UTF-8"}


@pytest.fixture
def tree(mount: MakeMount, tmp_path: Path) -> Mount:
    big = {name: {} if name == "folder" else b"" for name in NAMES}
    made: Mount = mount(
        write_folder(tmp_path / "big.ffr", {"big": big, "empty": {}, "one": {"file": b"1"}})
    )
    return made


@pytest.mark.promise("S5")
def test_big_folder_lists_every_name_once_and_again_after_rewind(tree: Mount) -> None:
    first, again = tree.ask(probes.list_twice, "big")
    assert first == [".", "..", *sorted(NAMES, key=os.fsencode)]
    assert again == first


@pytest.mark.long
@pytest.mark.promise("S5")
def test_listing_resumes_from_any_position(tree: Mount) -> None:
    counts = [0, 1, 2, 3, 31, 32, 33, 34, 35, 1000, ENTRY_COUNT, ENTRY_COUNT + 1, ENTRY_COUNT + 2]
    for straight, sought in tree.ask(probes.seek_in_listing, "big", counts):
        assert sought == straight


def test_listing_agrees_with_stat(tree: Mount) -> None:
    entries = tree.ask(probes.scan, "big")
    assert {name for name, *_ in entries} == NAMES
    assert [name for name, is_folder, *_ in entries if is_folder] == ["folder"]
    assert all(listed == found for _, _, listed, found in entries)
    assert len({ino for *_, ino in entries}) == ENTRY_COUNT


@pytest.mark.promise("S5")
def test_small_folders_and_inodes_of_their_dot_entries(tree: Mount) -> None:
    assert sorted(tree.ask(probes.list_twice, "empty")[0]) == [".", ".."]
    assert sorted(tree.ask(probes.list_twice, "one")[0]) == [".", "..", "file"]
    assert sorted(tree.ask(probes.list_twice, "")[0]) == [".", "..", "big", "empty", "one"]
    inodes = tree.ask(probes.inodes_of_listing, "one")
    assert inodes["."] == tree.ask(probes.stat, "one").st_ino
    assert inodes[".."] == tree.ask(probes.stat, "").st_ino
