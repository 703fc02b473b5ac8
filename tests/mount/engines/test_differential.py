"""All engines and transports give the same answers, to the last errno and attribute.

The trees are random, and differ in every run; the seed that pytest prints first repeats a run
(-p randomly --randomly-seed=N).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ffrecord_file import (
    Tree,
    flip_byte,
    folder_records,
    record_extents,
    write_folder,
    write_records,
)
from tests.mount import probes, survey
from tests.mount.child import ask
from tests.mount.command import Mount
from tests.mount.example_tree import KINDS, Features, example
from tests.mount.makers import closing_mounts
from tests.tfrecord_file import tfrecord_extents, write_tfrecord

NOBODY = 65534
SIZES = [0, 0, 1, 100, 4095, 4096, 4097, 131071, 131072, 131073]
LARGE_SIZES = [(4 << 20) + 1, 4 << 20, (5 << 20) - 1]
SURVEY_TIMEOUT_S = 100


def random_name(order: random.Random) -> str:
    kind = order.randrange(6)
    if kind == 0:  # any bytes but the two that a name cannot contain
        data = bytes(order.choice(range(1, 256)) for _ in range(order.choice([1, 2, 20, 255])))
        name = os.fsdecode(data.replace(b"/", b"\n"))
    elif kind == 1:
        name = order.choice("an") * order.choice([1, 100, 254, 255])
    elif kind == 2:
        name = order.choice(["ü", "日本", "a b", " ", "~", "-o", "..a", "...", "\n", "\t\\", "%s"])
    else:
        name = f"{order.choice(['file', 'Folder', '.hidden', 'x'])}{order.randrange(1000)}"
    return name if name not in (".", "..") else "dots"


def random_tree(order: random.Random, depth: int) -> Tree:
    tree: Tree = {}
    for _ in range(order.choice([0, 1, 2, 5]) if depth else 6):
        name = random_name(order)
        if depth < 5 and order.random() < 0.4:
            tree[name] = random_tree(order, depth + 1)
        else:
            tree[name] = order.randbytes(order.choice(SIZES))
    return tree


def files_in(tree: Tree, folder: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file, in the order of folder_records()."""
    for name in sorted(tree):
        entry = tree[name]
        if isinstance(entry, dict):
            yield from files_in(entry, f"{folder}{name}/")
        else:
            yield f"{folder}{name}", entry


@pytest.fixture
def order() -> random.Random:
    return random.Random(random.getrandbits(64))


@pytest.fixture
def tree(order: random.Random) -> Tree:
    found = random_tree(order, 0)
    found["many"] = {f"{i:04d}": b"" for i in range(order.choice([30, 31, 32, 33, 100]))}
    found["large"] = order.randbytes(order.choice(LARGE_SIZES))
    found["damaged"] = order.randbytes(order.choice([10, 5000, 131074, LARGE_SIZES[0]]))
    return found


@pytest.fixture
def mounts(ways: list[str], places: Path, tmp_path: Path) -> Iterator[list[Mount]]:
    """A Mount over each engine and transport, not mounted yet."""
    pack = tmp_path / "tree.ffr"
    with closing_mounts(places, tmp_path) as new:
        yield [new(name, pack) for name in ways]


def compare(
    mounts: list[Mount], seed: int, user_id: int | None = None
) -> tuple[int, list[tuple[str, object, object]]]:
    roots = [str(mount.path) for mount in mounts]
    count, found = ask(
        *(survey.differences, roots, seed),
        timeout_s=SURVEY_TIMEOUT_S,
        user_id=user_id,
    )
    return count, found


def check_same(
    mounts: list[Mount], seed: int, user_id: int | None = None, count_min: int = 1000
) -> None:
    for _ in range(2):  # the second time the kernel answers much of it by itself
        count, found = compare(mounts, seed, user_id)
        assert found == []
        assert count >= count_min


# The value of -o, and the user who makes the survey.
SURVEYS = [
    ("", None),
    ("xattr,uid=1000,gid=1001,umask=027,noexec", None),
    ("allow_other,xattr", NOBODY),
    (f"allow_other,uid={NOBODY},umask=0277", NOBODY),
    ("allow_root", NOBODY),
]


@pytest.mark.promise("S24")
@pytest.mark.parametrize("way", SURVEYS, ids=[options or "none" for options, _ in SURVEYS])
@pytest.mark.usefixtures("root_user")
def test_engines_give_the_same_answers(
    mounts: list[Mount], tree: Tree, order: random.Random, way: tuple[str, int | None]
) -> None:
    options, user_id = way
    pack = write_folder(mounts[0].pack, tree)
    files = list(files_in(tree))
    assert [data for _, data in files] == folder_records(tree)[:-1]
    (damaged,) = [i for i, (path, _) in enumerate(files) if path == "damaged"]
    offset, size = record_extents(pack)[damaged]
    flip_byte(pack, offset + order.randrange(size))
    for mount in mounts:
        assert mount.mount("-o", options).status == 0
        if options != "allow_root":
            mount.expect_log("cannot read damaged: ")
    count_min = 100 if options == "allow_root" else 1000  # the user may not enter this tree
    check_same(mounts, order.getrandbits(64), user_id, count_min)
    for mount in mounts:  # the answers are alike, and right
        paths = [path for path, _ in files if path != "damaged"]
        contents = mount.ask(probes.read_all_in, "", paths)
        assert contents == [data for path, data in files if path != "damaged"]


@pytest.mark.long
@pytest.mark.promise("S24")
def test_engines_show_plain_files_the_same(mounts: list[Mount], order: random.Random) -> None:
    write_records(mounts[0].pack, [order.randbytes(size) for size in SIZES])
    for mount in mounts:
        assert mount.mount("-o", "xattr").status == 0
    check_same(mounts, order.getrandbits(64))


def random_features(order: random.Random) -> Features:
    def values(kind: str) -> list[object]:
        count = order.choice([0, 1, 1, 2, 30])
        if kind == "float_list":
            return [order.uniform(-1, 1) for _ in range(count)]
        if kind == "int64_list":
            return [order.randrange(-(2**63), 2**63) for _ in range(count)]
        return [order.randbytes(order.choice(SIZES[:-3])) for _ in range(count)]

    names = [random_name(order) + order.choice(["", "", "/x", "/x/y"]) for _ in range(4)]
    return {name: order.choice([None, *[(k, values(k)) for k in KINDS]]) for name in names}


@pytest.mark.promise("S24")
def test_engines_show_examples_the_same(mounts: list[Mount], order: random.Random) -> None:
    records = [example(random_features(order)) for _ in range(3)]
    records += [order.randbytes(1000), example(random_features(order)) + b"\0" * 10, b""]
    large = order.randbytes(order.choice(LARGE_SIZES))
    records += [example({"large": ("bytes_list", [large])}), b"damaged" * 100]
    pack = write_tfrecord(mounts[0].pack, records)
    offset, size = tfrecord_extents(pack.read_bytes())[-1]
    flip_byte(pack, offset + 12 + order.randrange(size - 16))
    for mount in mounts:
        assert mount.mount("-o", "xattr,uid=1000,gid=1001,umask=027").status == 0
        mount.expect_log("cannot read 000000007: ")
    check_same(mounts, order.getrandbits(64))


@pytest.mark.long
def test_comparison_detects_differences(
    mounts: list[Mount], tree: Tree, order: random.Random
) -> None:
    write_folder(mounts[0].pack, tree)
    different = mounts[:2]
    for mount, options in zip(different, ("xattr,umask=0", "umask=1"), strict=True):
        assert mount.mount("-o", options).status == 0
    _, found = compare(different, order.getrandbits(64))
    questions = {question.split()[0] for question, *_ in found}
    assert questions >= {"stat", "getxattr", "listxattr"}
