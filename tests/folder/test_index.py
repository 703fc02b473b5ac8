"""The last record of a pack begins with the pickle that CPython writes, opcode for opcode.

test_mapped_index.py tests the bytes behind the pickle.
"""

from __future__ import annotations

import os
import pickle
import random
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from ffrfs._native import EntryList, Writer
from tests.ffrecord_file import INDEX_MAGIC, Tree
from tests.folder.folder_model import packed_records, trees


def listed(tree: Tree) -> EntryList:
    entries = EntryList()
    waiting = [(0, tree)]
    while waiting:
        folder, content = waiting.pop()
        for name, child in content.items():
            if isinstance(child, dict):
                waiting.append((entries.add_folder(folder, name.encode(), 0o755, 0), child))
            else:
                entries.add_files(folder, [(name.encode(), 0, 0o644, 0)])
    entries.number()
    return entries


def index_record(tree: Tree) -> bytes:
    """Return the last record of a pack of the tree of empty files, up to its mapped index."""
    entries = listed(tree)
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder, "x.ffr")
        writer = Writer(os.fsencode(pack), entries.record_count + 1)
        for _ in range(entries.record_count):
            writer.append(b"")
        writer.append_index(entries)
        writer.finish()
        content = pack.read_bytes()
    begin = 12 + 12 * (entries.record_count + 1)
    (index_size,) = struct.unpack_from("<Q", content, len(content) - 256 + 0x10)
    return content[begin : len(content) - index_size]


def assert_pickled(tree: Tree) -> None:
    """Assert that the record is the pickle, and zeros up to the mapped index."""
    record, expected = index_record(tree), packed_records(tree)[-1]
    assert record[: len(expected)] == expected
    assert len(record) < len(expected) + 4096 and not any(record[len(expected) :])


def files(count: int, size: int = 5) -> Tree:
    return {f"{i:0{size}}": b"" for i in range(count)}


@settings(max_examples=40)  # each example writes and syncs a file
@given(tree=trees)
def test_pickle_of_any_tree(tree: Tree) -> None:
    assert_pickled(tree)


# Batches have 1000 items, memo and record numbers grow at 2^8 and 2^16, frames at 64 KiB.
@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 999, 1000, 1001, 2000, 2001, 66000])
def test_pickle_of_a_folder_with_many_files(count: int) -> None:
    assert_pickled(files(count))
    nested: Tree = {"d": files(count), "e": {"x": files(1)}, "z": b""}
    assert_pickled(nested)


@pytest.mark.parametrize("name_size", [1, 100, 127, 128, 255])
def test_names_that_fill_pickle_frames(name_size: int) -> None:
    tree: Tree = {
        f"{i:0{min(3, name_size)}}".ljust(name_size, "n"): files(i % 5, 250) for i in range(600)
    }
    assert_pickled(tree)


def test_short_names_repeated_after_many_others() -> None:
    late: Tree = {"a": b"", "é": b"", **files(70_000), "z": {"a": b"", "é": {"z": b""}, "Ā": b""}}
    assert_pickled(late)


@pytest.mark.long
def test_random_large_trees() -> None:
    source = random.Random(1)

    def tree(depth: int) -> Tree:
        count = 1001 if depth == 1 and source.random() < 0.1 else source.randrange(6)
        return {
            "n" * source.randrange(1, 200) + str(i): tree(depth + 1)
            if depth < 6 and source.random() < 0.4
            else b""
            for i in range(count)
        }

    for _ in range(10):
        forest = {str(i): tree(1) for i in range(30)}
        assert_pickled(forest)


def test_a_tree_deeper_than_pickle_can_write() -> None:
    tree: Tree = {"file": b""}
    for _ in range(1024):
        tree = {"d": tree}
    loaded = pickle.loads(index_record(tree)[len(INDEX_MAGIC) :])
    for _ in range(1024):
        loaded = loaded["d"]
    assert loaded == {"file": 0}
