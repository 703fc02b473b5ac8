"""The index record, opcode for opcode what CPython's pickle writes."""

from __future__ import annotations

import collections
import os
import pickle
import random
import re
from pathlib import Path

import pytest
from folder_model import trees
from hypothesis import given

from ffrfs import pack_folder
from ffrfs.folder.index import MAGIC, index_record
from ffrfs.folder.source import SourceTree


def pickled(tree: SourceTree) -> bytes:
    """The same through pickle; recursive, so not for deep trees."""
    count = 0

    def ordered(folder: SourceTree) -> collections.OrderedDict[str, object]:
        nonlocal count
        result: collections.OrderedDict[str, object] = collections.OrderedDict()
        for name, child in folder.items():
            own_name = os.fsdecode(os.fsencode(name))
            if isinstance(child, dict):
                result[own_name] = ordered(child)
            else:
                result[own_name] = count
                count += 1
        return result

    return b"piouhjgbr" + pickle.dumps(ordered(tree), protocol=4)


def files(count: int, size: int = 5) -> SourceTree:
    return {f"{i:0{size}}": i for i in range(count)}


@given(tree=trees)
def test_any_tree(tree: SourceTree) -> None:
    assert index_record(tree) == pickled(tree)


# Batches have 1000 items, memo and record numbers grow at 2^8 and 2^16, frames at 64 KiB.
@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 999, 1000, 1001, 2000, 2001, 66000])
def test_folder_of(count: int) -> None:
    assert index_record(files(count)) == pickled(files(count))
    nested: SourceTree = {"d": files(count), "e": {"x": files(1)}, "z": 1}
    assert index_record(nested) == pickled(nested)


@pytest.mark.parametrize("name_size", [1, 100, 127, 128, 255])
def test_names_that_fill_frames(name_size: int) -> None:
    tree: SourceTree = {
        f"{i:0{min(3, name_size)}}".ljust(name_size, "n"): files(i % 5, 250) for i in range(600)
    }
    assert index_record(tree) == pickled(tree)


def test_short_names_met_again_late() -> None:
    late: SourceTree = {"a": 0, "é": 0, **files(70_000), "z": {"a": 0, "é": {"z": 0}, "Ā": 0}}
    assert index_record(late) == pickled(late)


def test_random_large_trees() -> None:
    source = random.Random(1)

    def tree(depth: int) -> SourceTree:
        count = 1001 if depth == 1 and source.random() < 0.1 else source.randrange(6)
        return {
            "n" * source.randrange(1, 200) + str(i): tree(depth + 1)
            if depth < 6 and source.random() < 0.4
            else 0
            for i in range(count)
        }

    for _ in range(20):
        forest = {str(i): tree(1) for i in range(30)}
        assert index_record(forest) == pickled(forest)


def test_deeper_than_pickle_can() -> None:
    tree: SourceTree = {"file": 0}
    for _ in range(5000):
        tree = {"d": tree}
    record = index_record(tree)
    loaded = pickle.loads(record[len(MAGIC) :])
    for _ in range(5000):
        loaded = loaded["d"]
    assert loaded == {"file": 0}


def test_worked_example_of_the_format_page(tmp_path: Path) -> None:
    page = Path(__file__).parents[2].joinpath("docs", "format.md").read_text(encoding="utf-8")
    lines = re.findall(r"^0x([0-9a-f]{2})  ((?:[0-9a-f]{2} )+)", page, re.MULTILINE)
    example = b""
    for offset, data in lines:
        assert int(offset, 16) == len(example)
        example += bytes.fromhex(data)
    source = tmp_path / "source"
    source.joinpath("d").mkdir(parents=True)
    source.joinpath("a").write_bytes(b"hi")
    pack_folder(source, tmp_path / "example.ffr")
    assert tmp_path.joinpath("example.ffr").read_bytes() == example
