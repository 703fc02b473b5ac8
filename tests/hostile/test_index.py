"""A mapped index that lies gives errors, or a bounded tree, and no byte from elsewhere."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.ffrecord_file import flip_byte
from tests.hostile import index_walk
from tests.hostile.index_cases import CASES, CHUNK_CASES, LARGE_TREE, SLOTS, TREE, Spoil
from tests.hostile.index_walk import Look
from tests.index_file import (
    BLOCK_SIZE,
    TRAILER_SIZE,
    Link,
    Tree,
    chained_pack,
    indexed_pack,
    plain_pack,
    write_sidecar,
)
from tests.mount.child import ask, child

# The values of `place`, which says where the index is.
PLACES = ["pack", "sidecar"]
MANY = 2100
_U32 = (1 << 32) - 1
# To unite with TREE: it has folders and files of both (the first file is shown), and its own.
UNITED: Tree = {
    b"a": b"another",
    b"b": {b"c": {b"own": b"1"}, b"link": Link(b"elsewhere"), b"y": {}},
    b"d": {b"x": b"2"},
    b"z": {b"inner": b"3"},
}


def write(path: Path, tree: Tree, place: str, spoil: Spoil | None = None) -> Path:
    if place == "pack":
        path.write_bytes(indexed_pack(tree, spoil))
    else:
        path.write_bytes(plain_pack(tree))
        write_sidecar(path, tree, spoil)
    return path


def looks(packs: dict[str, Path], slot_count: int = SLOTS, beside: str = "") -> dict[str, Look]:
    """Return a child's look at each pack; if the child dies or hangs, the error has the name.

    `beside`: a pack with which each of them is united.
    """
    found: dict[str, Look] = {}
    unions = [[str(path), *filter(None, [beside])] for path in packs.values()]
    with child(index_walk.looks, unions, slot_count) as process:
        for name in packs:
            try:
                found[name] = Look(*process.next(timeout_s=20))
            except Exception as error:
                raise AssertionError(f"{name}: {error!r}") from error
    return found


@pytest.fixture
def write_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write_cases(tree: Tree, place: str, cases: dict[str, Spoil | None]) -> dict[str, Path]:
        return {
            name: write(tmp_path / f"{number}.ffr", tree, place, spoil)
            for number, (name, spoil) in enumerate(cases.items())
        }

    return write_cases


def is_noticed(look: Look, sound: Look) -> bool:
    return bool(look.refused or look.warnings or look.errors) or look.entries != sound.entries


@pytest.mark.parametrize("place", PLACES)
def test_sound_index(write_all: Any, place: str) -> None:
    look = looks(write_all(TREE, place, {"sound": None}))["sound"]
    assert (look.refused, look.warnings, look.errors, look.faults) == ("", [], [], [])
    assert len(look.entries) == SLOTS - 1
    contents = {path: content for path, _, _, content in look.entries}
    assert contents[b"b/c/deep"] == b"d" * 1000
    assert contents[b"b/link"] == b"c/deep"


# Lies that change nothing here: about the root alone, about permissions that are not shown, how
# many links and subfolders there are, where an empty folder would begin, a name that is the same
# elsewhere, which file a message names, and the set of a pack that was named alone.
UNNOTICED = {
    "folders": r"folder \d+: (first_subdirectory|subdirectory_count|zero) .*"
    r"|folder 2: first_child .*|one folder too many",
    "inodes": r"slot 0: (name_offset|name_size|mtime_ns|parent) .*|slot \d+: mode .*",
    "names": r"slot 0: .*|slot 2: named b'b'|slot 5: named b'link'",
    "records": r"record \d+ is slot \d+",
    "set": r"shard \d+ of \d+|no zero at the end",
    "trailer": r"link_count \d+",
}
# The tree of an index is read in the same way from both places.
SAME_IN_BOTH = {"inodes", "folders", "loops", "names", "targets", "records"}
FAMILIES = [
    (family, place)
    for family in CASES
    for place in (["pack"] if family in SAME_IN_BOTH else PLACES)
]


@pytest.mark.parametrize(("family", "place"), FAMILIES)
def test_hostile_index(write_all: Any, family: str, place: str) -> None:
    lies = {name: spoil for name, spoil in CASES[family].items() if is_lie(spoil)}
    found = looks(write_all(TREE, place, {"sound": None, **lies}))
    sound = found.pop("sound")
    assert {name: look.faults for name, look in found.items() if look.faults} == {}
    harmless = re.compile(UNNOTICED.get(family, "(?!)"))
    believed = [name for name, look in found.items() if not is_noticed(look, sound)]
    assert [name for name in believed if not harmless.fullmatch(name)] == []


@pytest.mark.parametrize("family", ["folders", "loops", "names"])
def test_hostile_index_in_a_union(tmp_path: Path, write_all: Any, family: str) -> None:
    sound = write(tmp_path / "sound", UNITED, "pack")
    found = looks(write_all(TREE, "pack", CASES[family]), SLOTS + 8, beside=str(sound))
    assert {name: look.faults for name, look in found.items() if look.faults} == {}
    assert sum(len(look.entries) > 3 for look in found.values()) > len(found) // 4


def is_lie(spoil: Spoil) -> bool:
    """Return whether the case changes a value."""
    return indexed_pack(TREE, spoil) != indexed_pack(TREE)


@pytest.mark.parametrize("place", PLACES)
def test_hostile_chunks(write_all: Any, place: str) -> None:
    found = looks(write_all(LARGE_TREE, place, {"sound": None, **CHUNK_CASES}), slot_count=3)
    sound = found.pop("sound")
    assert len(sound.entries) == 2
    assert {name: look.faults for name, look in found.items() if look.faults} == {}
    for look in found.values():
        # A whole record is checked by its own checksum, whatever the chunks' checksums are.
        assert look.refused or look.errors or look.entries == sound.entries


def test_chain_of_folders(tmp_path: Path) -> None:
    """An inode that is too deep for a path is named by its number."""
    depth = 1500
    pack = tmp_path / "deep"
    pack.write_bytes(chained_pack(depth))
    sizes = ask(index_walk.path_sizes, str(pack), [2, 1025, 1027, depth + 1])
    assert sizes[:2] == [255, 1024 * 256 - 1]
    assert sizes[2:] == [len("inode 1027"), len(f"inode {depth + 1}")]


@pytest.fixture
def many_files(tmp_path: Path, write_all: Any) -> Path:
    """Return a pack whose index has two blocks."""
    return write(tmp_path / "many.ffr", flat_tree(MANY), "pack")


def flat_tree(count: int) -> Tree:
    return {b"%04d" % i: b"%d" % i for i in range(count)}


def index_offset(pack: Path) -> int:
    data = pack.read_bytes()
    (index_size,) = struct.unpack_from("<Q", data, len(data) - TRAILER_SIZE + 0x10)
    return len(data) - index_size


def test_damaged_block_of_many(tmp_path: Path, write_all: Any) -> None:
    count = 4100  # so that the damaged block has only inodes
    pack = write(tmp_path / "many.ffr", flat_tree(count), "pack")
    flip_byte(pack, index_offset(pack) + BLOCK_SIZE + 100)
    look = looks({"damaged": pack}, count + 1)["damaged"]
    assert (look.refused, look.warnings, look.faults) == ("", [], [])
    assert any("checksum" in error for error in look.errors)
    # The entries of the first block are shown.
    assert 1000 < len(look.entries) < 2048


@pytest.mark.parametrize(
    ("keep", "was_read"),
    [
        ("nothing", False),
        ("nothing", True),
        ("header", True),
        ("half the index", False),
        ("all but a page", True),
    ],
)
def test_truncated_while_open(many_files: Path, keep: str, was_read: bool) -> None:
    sound = many_files.read_bytes()
    at = index_offset(many_files)
    size = {
        "nothing": 0,
        "header": 12 + 12 * (MANY + 1),
        "half the index": at + (len(sound) - at) // 2,
        "all but a page": len(sound) - 4096,
    }[keep]
    with child(index_walk.looks_at_one, str(many_files), MANY + 1) as process:
        process.next()
        if was_read:
            assert len(process.next().entries) == MANY
        os.truncate(many_files, size)
        look = process.next()
        assert look.faults == []
        assert look.errors
        many_files.write_bytes(sound)
        look = process.next()
        assert look.faults == []


@pytest.mark.parametrize("was_read", [False, True], ids=["unread", "read"])
def test_overwritten_while_open(many_files: Path, was_read: bool) -> None:
    with child(index_walk.looks_at_one, str(many_files), MANY + 1) as process:
        process.next()
        if was_read:
            assert len(process.next().entries) == MANY
        flip_byte(many_files, index_offset(many_files) + 100)
        look = process.next()
        assert look.faults == []
        assert any("checksum" in error for error in look.errors)
