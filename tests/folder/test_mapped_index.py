"""The index behind the pickle, and sidecars: byte for byte what docs/format.md says."""

from __future__ import annotations

import os
import random
import re
import stat
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs._native import EntryList, Writer, write_sidecar
from ffrfs.errors import PackError, RecordCountError
from tests.checkout import CHECKOUT
from tests.ffrecord_file import Tree
from tests.folder.folder_model import make_folder, packed, trees
from tests.index_format import (
    UNKNOWN_MTIME,
    DecodedIndex,
    IndexEntry,
    ShardNumber,
    check_pack,
    check_records,
    decode,
    pack_records,
)

few = settings(max_examples=25)  # each example writes and syncs some files

PAGE = CHECKOUT / "docs" / "format.md"


class Link(NamedTuple):
    target: bytes


class Listed(NamedTuple):
    entries: EntryList
    contents: list[bytes]  # of the files, by number
    expected: dict[bytes, IndexEntry]  # their record is the number of a file


# Files, folders and links, with modes and times that are all different.
node = st.recursive(
    st.one_of(
        st.binary(max_size=9),
        st.builds(Link, st.binary(min_size=1, max_size=40).filter(lambda t: b"\0" not in t)),
    ),
    lambda inner: st.dictionaries(
        st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), min_size=1)
        .map(str.encode)
        .filter(lambda name: len(name) <= 255 and name not in (b".", b"..")),
        inner,
        max_size=6,
    ),
    max_leaves=40,
)
forests = st.dictionaries(st.sampled_from([b"a", b"a.b", b"b", b"\xc3\xa9"]), node)


def listed(tree: dict[bytes, object]) -> Listed:
    entries = EntryList()
    contents: list[bytes] = []
    times = iter(range(-5, 1 << 30))
    entries.describe_folder(0, 0o751, 11)
    expected = {b"": IndexEntry(stat.S_IFDIR | 0o751, 11)}
    waiting: list[tuple[int, bytes, dict[bytes, object]]] = [(0, b"", tree)]
    while waiting:
        folder, prefix, content = waiting.pop()
        for name, child in content.items():
            time, mode = next(times), next(times) & 0o777
            if isinstance(child, dict):
                number = entries.add_folder(folder, name, mode, time)
                waiting.append((number, prefix + name + b"/", child))
                entry = IndexEntry(stat.S_IFDIR | mode, time)
            elif isinstance(child, Link):
                entries.add_link(folder, name, child.target, time)
                entry = IndexEntry(stat.S_IFLNK | 0o777, time, None, child.target)
            else:
                assert isinstance(child, bytes)
                number = entries.add_files(folder, [(name, len(child), mode, time)])
                assert number == len(contents)
                contents.append(child)
                entry = IndexEntry(stat.S_IFREG | mode, time, number)
            expected[prefix + name] = entry
    return Listed(entries, contents, expected)


def write_pack(
    pack: Path, tree: Listed, run: tuple[int, int] | None = None, shard: ShardNumber | None = None
) -> bytes:
    first, count = run or (0, tree.entries.record_count)
    writer = Writer(os.fsencode(pack), count + 1)
    for file in tree.entries.files(first, count):
        writer.append(tree.contents[file])
    writer.append_index(tree.entries, first, count, shard=shard)
    writer.finish()
    return pack.read_bytes()


def resolved(index: DecodedIndex, pack: bytes) -> dict[bytes, tuple[IndexEntry, bytes | None]]:
    """Return the entries with the records themselves in place of their numbers."""
    records = pack_records(pack)
    return {
        path: (entry._replace(record=None), None if entry.record is None else records[entry.record])
        for path, entry in index.paths.items()
    }


def expected_entries(tree: Listed) -> dict[bytes, tuple[IndexEntry, bytes | None]]:
    return {
        path: (
            entry._replace(record=None),
            None if entry.record is None else tree.contents[entry.record],
        )
        for path, entry in tree.expected.items()
    }


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@few
@given(tree=forests, order=st.sampled_from(["path", "size"]))
def test_any_tree(scratch: Path, tree: dict[bytes, object], order: str) -> None:
    listing = listed(tree)
    listing.entries.number("path" if order == "path" else "size")
    pack = write_pack(scratch / "x.ffr", listing)
    index = check_pack(pack)
    assert resolved(index, pack) == expected_entries(listing)
    assert index.shard is None


@few
@given(tree=forests, count=st.integers(1, 4))
def test_any_shards(scratch: Path, tree: dict[bytes, object], count: int) -> None:
    """All shards together show everything, each file once; each shard is a complete pack."""
    listing = listed(tree)
    listing.entries.number()
    total = listing.entries.record_count
    count = min(count, max(total, 1))  # a run is empty only if it is the only one
    ends = [total * number // count for number in range(count + 1)]
    runs = [(begin, end - begin) for begin, end in pairwise(ends)]
    together: dict[bytes, tuple[IndexEntry, bytes | None]] = {}
    for number, run in enumerate(runs):
        shard = ShardNumber(b"0123456789abcdef", number, len(runs))
        pack = write_pack(scratch / "x.ffr", listing, run, shard)
        index = check_pack(pack)
        assert index.shard == shard
        for path, (entry, content) in resolved(index, pack).items():
            if stat.S_ISDIR(entry.mode):
                assert together.setdefault(path, (entry, content)) == (entry, content)
            else:
                assert path not in together
                together[path] = entry, content
    assert together == expected_entries(listing)


def test_shared_records(tmp_path: Path) -> None:
    listing = listed({b"d": {b"z": b"same"}, b"a": b"same", b"b": b"else", b"c": b"same"})
    original, *copies = (file for file in range(4) if listing.contents[file] == b"same")
    for copy in copies:
        listing.entries.share(copy, original)
    with pytest.raises(ValueError, match="number"):
        _ = listing.entries.record_count
    listing.entries.number()
    pack = write_pack(tmp_path / "x.ffr", listing)
    assert pack_records(pack)[:-1] == [b"same", b"else"] or len(pack_records(pack)) == 3
    assert resolved(check_pack(pack), pack) == expected_entries(listing)


def test_large_records(tmp_path: Path) -> None:
    sizes = [1 << 20, (1 << 20) + 1, 5, 2 << 20, (3 << 20) + 77]
    source = tmp_path / "source"
    make_folder(source, {f"{i}": random.Random(i).randbytes(n) for i, n in enumerate(sizes)})
    entries = EntryList()
    for path in sorted(source.iterdir()):
        info = path.stat()
        entries.add_files(
            0, [(os.fsencode(path.name), info.st_size, info.st_mode, info.st_mtime_ns)]
        )
    entries.number()
    writer = Writer(os.fsencode(tmp_path / "x.ffr"), len(sizes) + 1)
    told: list[tuple[int, int]] = []
    writer.append_folder(
        entries, os.fsencode(source), 0, 3, 2, lambda files, size: told.append((files, size))
    )
    assert told[-1] == (3, sum(sizes[:3]))
    assert writer.append_pieces([b"", source.joinpath("3").read_bytes(), b""]) == 2 << 20
    writer.append_folder(entries, os.fsencode(source), 4, 1, 2)
    writer.append_index(entries)
    writer.finish()
    pack = tmp_path.joinpath("x.ffr").read_bytes()
    assert list(check_pack(pack).chunks) == [1, 3, 4]
    assert [len(record) for record in pack_records(pack)[:-1]] == sizes


def test_many_records(tmp_path: Path) -> None:
    """Every section takes more than one block."""
    names = [f"{i:05}" for i in range(20_000)]
    listing = listed({b"d%d" % i: {n.encode(): b"" for n in names[i::7]} for i in range(7)})
    listing.entries.number()
    pack = write_pack(tmp_path / "x.ffr", listing)
    assert resolved(check_pack(pack), pack) == expected_entries(listing)


def test_wrong_records_are_refused(tmp_path: Path) -> None:
    listing = listed({b"a": b"", b"b": b""})
    listing.entries.number()
    writer = Writer(os.fsencode(tmp_path / "x.ffr"), 3)
    writer.append(b"")
    with pytest.raises(RecordCountError, match="tells of 2 records, 1 were written"):
        writer.append_index(listing.entries)
    with pytest.raises(ValueError, match="has 2 records"):
        writer.append_index(listing.entries, 1, 2)
    writer.append(b"")
    with pytest.raises(ValueError, match="16 bytes"):
        writer.append_index(listing.entries, shard=(b"short", 0, 1))
    with pytest.raises(ValueError, match="below"):
        writer.append_index(listing.entries, shard=(bytes(16), 1, 1))
    writer.append_index(listing.entries)
    writer.finish()
    check_pack(tmp_path.joinpath("x.ffr").read_bytes())


def test_an_entry_list_refuses_invalid_entries() -> None:
    entries = EntryList()
    for bad in (b"", b".", b"..", b"a/b", b"a\0", b"x" * 256, b"\xff"):
        with pytest.raises(ValueError, match=r"name"):
            entries.add_files(0, [(bad, 0, 0, 0)])
    with pytest.raises(TypeError):
        entries.add_files(0, [("text", 0, 0, 0)])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        entries.add_files(0, [(b"short", 0)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="below 0"):
        entries.add_files(0, [(b"negative", -1, 0, 0)])
    with pytest.raises(ValueError, match="no folder 7"):
        entries.add_files(7, [(b"a", 0, 0, 0)])
    with pytest.raises(ValueError, match="no order"):
        entries.number("random")  # type: ignore[arg-type]
    assert entries.file_count == 0
    entries.add_files(0, [(b"a", 0, 0, 0)] * 2)
    with pytest.raises(PackError, match="a: the same name twice in one directory"):
        entries.number()


@few
@given(tree=trees)
def test_any_sidecar(scratch: Path, tree: Tree) -> None:
    pack = scratch / "x.ffr"
    pack.write_bytes(packed(tree))
    write_sidecar(os.fsencode(pack), os.fsencode(scratch / "x.idx"), False)
    index = decode(scratch.joinpath("x.idx").read_bytes())
    check_identity(index, pack)
    assert index.size == scratch.joinpath("x.idx").stat().st_size
    found = resolved(index, pack.read_bytes())
    assert all(entry.mtime_ns == UNKNOWN_MTIME for entry, _ in found.values())
    assert {stat.S_IMODE(entry.mode) for entry, _ in found.values()} == {0}
    expected: dict[bytes, bytes | None] = {b"": None}

    def walk(folder: Tree, prefix: str) -> None:
        for name, child in folder.items():
            is_folder = isinstance(child, dict)
            expected[(prefix + name).encode()] = None if is_folder else child
            if is_folder:
                walk(child, f"{prefix}{name}/")

    walk(tree, "")
    assert {path: content for path, (_, content) in found.items()} == expected


def check_identity(index: DecodedIndex, pack: Path, with_chunks: bool = False) -> None:
    content = pack.read_bytes()
    check_records(index, content, with_chunks)
    assert index.pack_size == len(content)
    assert index.pack_mtime_ns == pack.stat().st_mtime_ns
    assert index.pack_header_crc == int.from_bytes(content[:4], "little")


def test_sidecar_of_large_records(tmp_path: Path) -> None:
    pack = tmp_path / "x.ffr"
    pack.write_bytes(packed({"a": random.randbytes((2 << 20) + 9), "b": b"x" * (1 << 20)}))
    write_sidecar(os.fsencode(pack), os.fsencode(tmp_path / "i"), True)
    index = decode(tmp_path.joinpath("i").read_bytes())
    check_identity(index, pack, with_chunks=True)
    assert len(index.chunks[0]) == 3


def test_sidecar_of_the_original_programs_pack(golden: Path, tmp_path: Path) -> None:
    pack = golden / "packed.ffr"
    write_sidecar(os.fsencode(pack), os.fsencode(tmp_path / "i"), True)
    check_identity(decode(tmp_path.joinpath("i").read_bytes()), pack, with_chunks=True)


def example(title: str) -> bytes:
    """Return the bytes that the format page shows under `title`; "*": zeros up to the next line."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(f"{title}\n")
    block = re.search(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert block is not None
    data = b""
    for line in block[1].splitlines():
        found = re.match(r"0x([0-9a-f]+)  ((?:[0-9a-f]{2} )*[0-9a-f]{2}|\*)", line)
        assert found is not None, line
        if found[2] != "*":
            data = data.ljust(int(found[1], 16), b"\0")
            assert int(found[1], 16) == len(data), line
            data += bytes.fromhex(found[2])
    return data


def example_pack(folder: Path) -> bytes:
    entries = EntryList()
    entries.describe_folder(0, 0o755, 1_700_000_000_000_000_000)
    entries.add_files(0, [(b"a", 2, 0o644, 1_700_000_000_000_000_001)])
    entries.add_folder(0, b"d", 0o750, 1_700_000_000_000_000_002)
    entries.add_link(0, b"l", b"a", 1_700_000_000_000_000_003)
    entries.number()
    writer = Writer(os.fsencode(folder / "example.ffr"), 2)
    writer.append(b"hi")
    writer.append_index(entries)
    writer.finish()
    return folder.joinpath("example.ffr").read_bytes()


def test_worked_example_of_the_format_page(tmp_path: Path) -> None:
    pack = example_pack(tmp_path)
    check_pack(pack)
    assert example("## A worked example") == pack
