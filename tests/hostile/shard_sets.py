"""Sets of shards that lie about themselves, and the commands that a child runs on them.

Each shard's index has its set, its number and the number of shards; CASES change these, or
the trees of the shards, in one set of three. All checksums are right.
"""

from __future__ import annotations

import contextlib
import io
import random
import resource
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ffrfs.cli.main import main
from tests.index_file import Index, Link, Tree, indexed_pack

TREES: list[Tree] = [
    {b"a": b"alpha", b"d": {b"1": b"one", b"link": Link(b"1")}, b"empty": {}},
    {b"d": {b"2": b"two" * 2000}, b"m": b"middle"},
    {b"d": {b"3": b"three", b"e": {b"deep": b"deep"}}, b"z": b"omega"},
]
_U32 = (1 << 32) - 1
_A, _B, _C = (bytes([letter]) * 16 for letter in b"ABC")
# An interpreter with NumPy maps a gigabyte; the claims of a shard must not take memory.
_ADDRESS_SPACE_MAX = 3 << 30


def entry(set_id: bytes, number: int, count: int, last: int = 0) -> bytes:
    return set_id + struct.pack("<IIQ", number, count, last)


class Case(NamedTuple):
    entries: list[bytes]  # of the three shards
    trees: list[Tree] = TREES


def of_a_set(numbers: list[int], counts: list[int]) -> Case:
    return Case([entry(_A, n, c) for n, c in zip(numbers, counts, strict=True)])


def with_path(number: int, name: bytes, content: bytes | Tree) -> Case:
    """Return a case in which one shard also has a path that another shard has."""
    trees = [dict(tree) for tree in TREES]
    trees[number][name] = content
    return Case(SOUND.entries, list(trees))


SOUND = of_a_set([0, 1, 2], [3, 3, 3])
CASES: dict[str, Case] = {
    "sound": SOUND,
    "written one after the other": of_a_set([0, 1, 2], [1, 2, 3]),
    "another set's": Case([entry(_A, 0, 3), entry(_B, 1, 3), entry(_A, 2, 3)]),
    "three sets": Case([entry(_A, 0, 3), entry(_B, 1, 3), entry(_C, 2, 3)]),
    "three sets of one": Case([entry(_A, 0, 1), entry(_B, 0, 1), entry(_C, 0, 1)]),
    "the first twice": of_a_set([0, 0, 2], [3, 3, 3]),
    "the first twice, of two": of_a_set([0, 0, 1], [2, 2, 2]),
    "all the first": of_a_set([0, 0, 0], [1, 1, 1]),
    "in another order": of_a_set([2, 0, 1], [3, 3, 3]),
    "a gap": of_a_set([0, 1, 3], [4, 4, 4]),
    "beyond the count": of_a_set([0, 1, 7], [3, 3, 3]),
    "the last number": of_a_set([0, 1, _U32], [3, 3, 3]),
    "the last but one": of_a_set([0, 1, _U32 - 1], [3, 3, 3]),
    "of none": of_a_set([0, 1, 2], [0, 0, 0]),
    "of fewer": of_a_set([0, 1, 2], [1, 1, 1]),
    "of more": of_a_set([0, 1, 2], [3, 3, 100]),
    "of very many": of_a_set([0, 1, 2], [3, 3, _U32]),
    "of no set": Case([b"", b"", b""]),
    "one of no set": Case([entry(_A, 0, 2), b"", entry(_A, 1, 2)]),
    "cut off": Case([entry(_A, 0, 3), entry(_A, 1, 3)[:31], entry(_A, 2, 3)]),
    "two entries": Case([entry(_A, 0, 3), entry(_A, 1, 3) * 2, entry(_A, 2, 3)]),
    "no zero at the end": Case([entry(_A, 0, 3), entry(_A, 1, 3, last=1), entry(_A, 2, 3)]),
    "a file twice": with_path(1, b"a", b"another"),
    "a file that is a folder": with_path(1, b"a", {b"inner": b"another"}),
    "a folder that is a file": with_path(1, b"empty", b"a file"),
    "a link that is a file": with_path(1, b"d", {b"link": b"a file"}),
    "a folder that is a link": with_path(2, b"d", Link(b"empty")),
    "a file twice, of another set": Case(
        [entry(_A, 0, 2), entry(_B, 0, 1), entry(_A, 1, 2)],
        with_path(1, b"a", b"another").trees,
    ),
}


def random_case(order: random.Random) -> Case:
    numbers = [0, 1, 2, 3, 7, _U32 - 1, _U32]
    entries = [
        entry(order.choice([_A, _A, _A, _B]), order.choice(numbers[:5]), order.choice(numbers))
        for _ in TREES
    ]
    return Case(entries, [order.choice([tree, tree, order.choice(TREES)]) for tree in TREES])


def write_set(folder: Path, case: Case) -> Path:
    folder.mkdir()
    for number, (tree, described) in enumerate(zip(case.trees, case.entries, strict=True)):

        def spoil(index: Index, described: bytes = described) -> None:
            index.set = described

        (folder / f"part_{number:05}.ffr").write_bytes(indexed_pack(tree, spoil))
    return folder


Contents = dict[str, set[bytes]]


def contents_of(case: Case) -> Contents:
    """Return the contents that the shards have at each path; only the kind of folders and links."""
    found: Contents = {}

    def add(tree: Tree, prefix: str) -> None:
        for name, inner in sorted(tree.items()):
            path = prefix + name.decode()
            is_file = isinstance(inner, bytes) and not isinstance(inner, Link)
            kind = b"link" if isinstance(inner, Link) else b"folder"
            found.setdefault(path, set()).add(bytes(inner) if is_file else kind)
            if not isinstance(inner, bytes):
                add(inner, f"{path}/")

    for tree in case.trees:
        add(tree, "")
    return found


class Ran(NamedTuple):
    status: int
    out: bytes
    err: str


def run_commands(commands: list[list[str]]) -> Iterator[Any]:
    """Run the commands in turn in this process, whose address space is limited; yield each Ran."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_MAX, _ADDRESS_SPACE_MAX))
    warnings.simplefilter("default")
    for command in commands:
        out, err = io.TextIOWrapper(io.BytesIO(), write_through=True), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main(command)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
        assert isinstance(out.buffer, io.BytesIO)
        yield Ran(status, out.buffer.getvalue(), err.getvalue())
