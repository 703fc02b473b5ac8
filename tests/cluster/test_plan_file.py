"""The file of a plan: all files once and in order, in shards of about equal size; hostile files."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs import pack_folder
from ffrfs.cluster import piece as pieces_module
from ffrfs.cluster import plan_file as plan_file_module
from ffrfs.cluster.piece import Piece, decode, encode
from ffrfs.cluster.plan_file import PlanFile, PlanWriter
from ffrfs.cluster.planned_set import Plan, run
from ffrfs.errors import ChecksumError, FfrfsError, FormatError, PackError
from ffrfs.packing.sources.options import PackOptions
from tests.cluster.trees import make_tree, planned
from tests.interpreter import python
from tests.mount.process_status import descriptors
from tests.tfrecord_file import framed, tfrecord_extents, tfrecord_records, write_tfrecord

HEADER: dict[str, object] = {"kind": "folder"}


def piece(folder: str, sizes: Sequence[int], *, first: int = 0, links: int = 0) -> Piece:
    """Return a piece with files of these sizes, whose names are numbers."""
    names = [f"{first + number:06}" for number in range(len(sizes))]
    above = ((0o755, 1),) * (folder.count("/") + 2 if folder else 1)
    none = [0o644] * len(sizes)
    found = [(f"link{number}", "é", -number) for number in range(links)]
    return Piece(folder, above, names, list(sizes), none, [7] * len(sizes), found)


def written(path: Path, pieces: Sequence[Piece], **cut: Any) -> PlanFile:
    with PlanWriter(str(path), HEADER) as writer:
        for one in pieces:
            writer.add(one)
        writer.finish(PackOptions(**cut))
    return PlanFile(str(path))


class Content(NamedTuple):
    """The content of all shards: the files of each shard, all links, all empty directories."""

    files: list[list[str]]
    links: list[str]
    empty: list[str]


def content(plan: PlanFile) -> Content:
    found = Content([], [], [])
    for number, part in enumerate(plan.shards):
        shard = list(plan.pieces(number=number))
        paths = [one.path(file) for one in shard for file in range(one.file_count)]
        assert part.file_count == len(paths)
        assert part.byte_count == sum(sum(one.sizes) for one in shard)
        found.files.append(paths)
        for one in shard:
            found.links.extend(f"{one.folder}/{name}" for name, _, _ in one.links)
            if not one.names and not one.links:
                found.empty.append(one.folder)
    return found


def expected_of(pieces: Sequence[Piece]) -> Content:
    return Content(
        [[one.path(file) for one in pieces for file in range(one.file_count)]],
        [f"{one.folder}/{name}" for one in pieces for name, _, _ in one.links],
        [one.folder for one in pieces if not one.names and not one.links],
    )


sizes = st.lists(st.sampled_from([0, 1, 500, 5000, 200_000, 3 << 20]), max_size=12)
folders = st.lists(st.tuples(sizes, st.integers(0, 2)), max_size=12)


def pieces_of(listed: Sequence[tuple[list[int], int]]) -> list[Piece]:
    return [
        piece(f"d/é{number:03}", file_sizes, links=links)
        for number, (file_sizes, links) in enumerate(listed)
    ]


SHARDS = st.builds(dict, shards=st.integers(1, 9))
SIZES = st.builds(dict, shard_size=st.sampled_from([1, 20_000, 60_000, 300_000, 1 << 30]))


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(listed=folders, cut=SHARDS | SIZES, block_count=st.sampled_from([1, 2, 3, 5, 4096]))
def test_any_listing(
    tmp_path: Path, listed: list[tuple[list[int], int]], cut: dict[str, int], block_count: int
) -> None:
    pieces = pieces_of(listed)
    with (
        patch.object(pieces_module, "BLOCK_COUNT", block_count),
        patch.object(plan_file_module, "BLOCK_COUNT", block_count),
        written(tmp_path / "plan", pieces, **cut) as plan,
    ):
        found, (all_files, links, empty) = content(plan), expected_of(pieces)
    assert [path for files in found.files for path in files] == all_files[0]
    assert (found.links, found.empty) == (links, empty)
    assert plan.file_count == len(all_files[0])
    assert all(found.files) or not plan.file_count
    if "shards" in cut:
        assert len(found.files) == max(1, min(cut["shards"], plan.file_count))
        return
    size_max = cut["shard_size"]
    for part in plan.shards:
        assert part.byte_count <= size_max or part.file_count == 1
    for one, other in zip(plan.shards, plan.shards[1:], strict=False):
        # Two shards that follow each other would not fit into one.
        files = one.file_count + other.file_count
        assert one.byte_count + other.byte_count + 400 * files + (32 << 10) > size_max


def test_shards_are_about_equal(tmp_path: Path) -> None:
    chance = random.Random(3)
    pieces = [piece(f"{n}", [chance.randrange(20_000) for _ in range(500)]) for n in range(40)]
    for shards in (2, 7, 64):
        with written(tmp_path / "plan", pieces, shards=shards) as plan:
            counts = [part.byte_count + 100 * part.file_count for part in plan.shards]
        assert max(counts) - min(counts) <= 2 * 20_100


def test_one_large_file_among_small_ones(tmp_path: Path) -> None:
    """The large file has the size of a shard; the small ones share the other shards."""
    pieces = [piece("a", [1000] * 50 + [10_000_000] + [1000] * 50)]
    with written(tmp_path / "plan", pieces, shards=5) as plan:
        counts = [part.file_count for part in plan.shards]
    assert len(counts) == 5
    assert min(counts) >= 1


def test_a_directory_of_more_files_than_a_block(tmp_path: Path) -> None:
    pieces = [piece("many", [10] * 10_000, links=3), piece("next", [10] * 5)]
    with written(tmp_path / "plan", pieces, shards=7) as plan:
        found = content(plan)
    assert [path for files in found.files for path in files] == expected_of(pieces).files[0]
    assert len(found.links) == 3
    assert {len(files) for files in found.files} <= set(range(1420, 1440))


def test_a_directory_of_many_links(tmp_path: Path) -> None:
    """The blocks of links are written so small that they can be read back."""
    many = piece("many", [1], links=50_000)
    with (
        patch.object(pieces_module, "_BLOCK_SIZE_MAX", 1 << 20),
        written(tmp_path / "plan", [many], shards=1) as plan,
    ):
        assert sorted(content(plan).links) == sorted(expected_of([many]).links)


def test_names_count_by_their_bytes(tmp_path: Path) -> None:
    """A pack has each name twice, as UTF-8."""
    names = [f"{number:03}{'名' * 80}" for number in range(900)]
    none = [0] * len(names)
    one = Piece("", ((0o755, 1),), names, none, none, none)
    with written(tmp_path / "plan", [one], shard_size=100_000) as plan:
        for part in plan.shards:
            assert part.file_count * (2 * 243) <= 100_000


@settings(max_examples=60)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",))), max_size=9
    )
)
def test_pieces_are_decoded_as_they_were_encoded(names: list[str]) -> None:
    names = sorted({name for name in names if name not in ("", ".", "..")})
    numbers = [2**62 - number for number in range(len(names))]
    links = [("l\n", "\udcff/\n", -5)]
    modes = [number % 0o10000 for number in numbers]
    one = Piece("a/b", ((1, 2), (3, -4), (5, 6)), names, numbers, modes, numbers, links)
    (back,) = decode(encode([one.line()]), "here")
    assert back.line() == one.line()
    assert (list(back.names), list(back.links)) == (names, links)


def test_an_unfinished_plan_leaves_no_file(tmp_path: Path) -> None:
    with PlanWriter(str(tmp_path / "plan"), HEADER) as writer:
        writer.add(piece("a", [1]))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a plan of several blocks."""
    place = tmp_path_factory.mktemp("good")
    with patch.object(plan_file_module, "BLOCK_COUNT", 8):
        planned(make_tree(place / "tree"), place / "set", place / "plan").close()
    data = (place / "plan").read_bytes()
    assert len(tfrecord_extents(data)) > 5
    return data


def read_all(path: Path) -> None:
    with Plan(path) as plan:
        assert isinstance(plan.skipped, list)
        for number in range(len(plan)):
            plan.task(number)
            list(plan.pieces(number))


def assert_refused(path: Path) -> None:
    with pytest.raises((FormatError, ChecksumError)) as caught:
        read_all(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message


def test_a_plan_that_was_cut_off(good: bytes, tmp_path: Path) -> None:
    chance = random.Random(4)
    ends = [offset for offset, _ in tfrecord_extents(good)]
    for end in [*ends, len(good) - 1, *(chance.randrange(len(good)) for _ in range(60))]:
        (tmp_path / "plan").write_bytes(good[:end])
        assert_refused(tmp_path / "plan")


def test_every_flipped_byte_is_seen(good: bytes, tmp_path: Path) -> None:
    chance = random.Random(5)
    for _ in range(150):
        damaged = bytearray(good)
        damaged[chance.randrange(len(good))] ^= chance.randrange(1, 256)
        (tmp_path / "plan").write_bytes(damaged)
        assert_refused(tmp_path / "plan")


def test_flipped_bytes_with_valid_checksums(good: bytes, tmp_path: Path) -> None:
    """Whatever the records have, the plan can be read, or the error is one of ffrfs."""
    records = tfrecord_records(good)
    for seed in range(250):
        chance = random.Random(seed)
        changed = [bytearray(record) for record in records]
        for _ in range(chance.choice([1, 1, 5])):
            record = chance.choice(changed)
            record[chance.randrange(len(record))] = chance.randrange(256)
        write_tfrecord(tmp_path / "plan", changed)
        try:
            read_all(tmp_path / "plan")
        except FfrfsError as error:
            assert isinstance(error, FormatError | ChecksumError), seed
            assert "\n" not in str(error), seed


NONSENSE = [None, 5, -1, 1e999, "x", "\udcff", [], {}, [[]], True, 2**70, ["a"], [[0, 0]], "a/../b"]


def with_value(value: Any, chance: random.Random, new: object) -> Any:
    """Return `value` with a random part of it replaced."""
    if isinstance(value, list | dict) and value and chance.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = chance.choice(keys)
        copy: Any = value.copy()
        copy[key] = with_value(value[key], chance, new)
        return copy
    return new


def test_json_of_wrong_shapes(good: bytes, tmp_path: Path) -> None:
    records = tfrecord_records(good)
    for seed in range(400):
        chance = random.Random(seed)
        changed = list(records)
        number = chance.choice([0, 1, 2, len(records) - 1])
        new = chance.choice(NONSENSE)
        if number in (0, len(records) - 1):
            value = with_value(json.loads(records[number]), chance, new)
            changed[number] = json.dumps(value).encode()
        else:
            lines = zlib.decompress(records[number]).decode().split("\n")
            line = chance.randrange(len(lines))
            lines[line] = json.dumps(with_value(json.loads(lines[line]), chance, new))
            changed[number] = zlib.compress("\n".join(lines).encode())
        write_tfrecord(tmp_path / "plan", changed)
        try:
            read_all(tmp_path / "plan")
        except (FormatError, ChecksumError) as error:
            assert "\n" not in str(error), seed
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


FIRST, BLOCK, TABLE = 0, 1, -1  # records of a plan
GONE = object()
# The source, the record, the place in its JSON, and the value that is put there.
DAMAGED: list[tuple[str, int, tuple[str | int, ...], object]] = [
    ("tree", FIRST, ("request", "sources", 0), "a\0b"),
    ("tree", FIRST, ("request", "sources", 0), "\ud800"),
    ("tree", FIRST, ("request", "target"), "a\0b"),
    ("tree", FIRST, ("request", "target"), GONE),
    ("tree", FIRST, ("request", "time_ns"), 0.5),
    ("tree", FIRST, ("request", "include"), "x"),
    ("tree", FIRST, ("request", "exclude"), ["a\0b"]),
    ("pack", FIRST, ("request", "on_conflict"), "x"),
    ("pack", FIRST, ("request", "allow_missing"), None),
    ("pack", FIRST, ("request", "skip_special"), 1),
    ("tar", TABLE, ("records",), GONE),
    ("tar", TABLE, ("records",), [0]),
    ("tar", TABLE, ("records", 0), GONE),
    ("tar", TABLE, ("records", 0), 1),
    ("tar", TABLE, ("records", 0), -1),
    ("tar", TABLE, ("records", 1), 0),
    ("tar", TABLE, ("records", 1), 0.5),
    ("tar", TABLE, ("records", 1), 2**32),
    ("tar", TABLE, ("records", 1), 2**70),
    ("tree", BLOCK, (6,), [["x", "y" * 5000, 1]]),
    ("tree", BLOCK, (0,), "n" * 300),
    ("tree", BLOCK, (8,), "top"),
]


def with_damage(value: Any, where: Sequence[str | int], new: object) -> Any:
    copy: Any = value.copy()
    if isinstance(copy, list):
        copy += [[] for _ in range(int(where[0]) + 1 - len(copy))]
    if len(where) > 1:
        copy[where[0]] = with_damage(value[where[0]], where[1:], new)
    elif new is GONE:
        del copy[where[0]]
    else:
        copy[where[0]] = new
    return copy


def test_damage_with_valid_checksums(tmp_path: Path) -> None:
    """The error comes when the plan is opened, or when a task needs the damaged part."""
    tree = make_tree(tmp_path / "tree", folders=1)
    with tarfile.open(tmp_path / "tar", "w") as tar:
        tar.add(tree, "top")
    pack_folder(tree, tmp_path / "pack")
    plan = tmp_path / "plan"
    good = {}
    for source in ("tree", "tar", "pack"):
        planned(tmp_path / source, tmp_path / "set", plan, shards=2).close()
        good[source] = tfrecord_records(plan.read_bytes())
    for source, number, where, new in DAMAGED:
        records = list(good[source])
        is_block = number == BLOCK
        text = (zlib.decompress if is_block else bytes)(records[number])
        first, *lines = text.decode().split("\n")
        text = "\n".join([json.dumps(with_damage(json.loads(first), where, new)), *lines]).encode()
        records[number] = zlib.compress(text) if is_block else text
        write_tfrecord(plan, records)
        shutil.rmtree(tmp_path / "set", ignore_errors=True)
        with pytest.raises(FormatError) as caught, Plan(plan) as opened:
            for shard in range(len(opened)):
                run(opened, shard)
        error = str(caught.value)
        assert error.startswith(f"{plan}: bad plan: "), (where, new, error)
        assert error.endswith("; make the plan again"), (where, new, error)
        assert "\n" not in error


@pytest.mark.parametrize(
    "line",
    [
        '["../x",[[1,1],[1,1],[1,1]],"a",[1],1,[1],[]]',
        '["a",[[1,1],[1,1]],"..",[1],1,[1],[]]',
        '["a",[[1,1],[1,1]],"b\\u0000",[1],1,[1],[]]',
        '["a",[[1,1],[1,1]],"\\udcff",[1],1,[1],[]]',
        '["a",[[1,1],[1,1]],"b",[-1],1,[1],[]]',
        '["a",[[1,1],[1,1]],"b",[1],1,[18446744073709551616],[]]',
        '["a",[[1,1],[1,1]],"b",[1.5],1,[1],[]]',
        '["a",[[1,1],[1,1]],"b",[1],-1,[1],[]]',
        '["a",[[1,1],[1,1]],"b",[1],[4096],[1],[]]',
        '["a",[[1,1],[4294967296,1]],"b",[1],1,[1],[]]',
        '["a",[[1,1]],"b",[1],1,[1],[]]',
        '["a",[[1,1],[1,1]],"b/c",[1],1,[1],[]]',
        '["a",[[1,1],[1,1]],"b",[1],1,[1],[["../x","y",1]]]',
        '["a",[[1,1],[1,1]],"b",[1],1,[1],[["x","y",1e999]]]',
        '["a",[[1,1],[1,1]],"b",[1],1,[1],[["x","y",99999999999999999999]]]',
        '["a",[[1,1],[1,1]],"b",[1],1,[1],[["x\\ud800","y",1]]]',
        "[" * 100_000,
        "\n",
        "5",
        "{}",
    ],
)
def test_invalid_pieces(line: str) -> None:
    with pytest.raises(FormatError, match=r"^here: bad plan: [^\n]*make the plan again$"):
        decode(zlib.compress(line.encode()), "here")
    # A kept plan is used by each later command, so it has to be removed.
    with pytest.raises(FormatError, match=r"^set/.ffrfs-plan: bad plan: [^\n]*; remove it, and"):
        decode(zlib.compress(line.encode()), "set/.ffrfs-plan")


BOMB = """
import resource, sys, zlib
from ffrfs.cluster import piece
from ffrfs.errors import FormatError
packer = zlib.compressobj(1)
block = packer.compress(sys.argv[1].encode() * (1 << 20))
for _ in range(int(sys.argv[2]) - 1):
    block += packer.compress(sys.argv[1].encode() * (1 << 20))
block += packer.flush()
piece._BLOCK_SIZE_MAX = 40 << 20
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (200 << 20), now + (200 << 20)))
try:
    piece.decode(block, "here")
except FormatError as error:
    print(error)
"""


@pytest.mark.parametrize(("text", "mebibytes"), [("x", 200), ("\n", 39), ("[", 39)])
def test_a_decompression_bomb(text: str, mebibytes: int) -> None:
    done = python("-c", BOMB, text, str(mebibytes), check=True)
    assert done.stdout.startswith("here: bad plan: ")


@pytest.mark.parametrize("kind", ["empty", "text", "directory", "pack", "missing"])
def test_files_that_are_not_plans(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "plan"
    if kind == "missing":
        with pytest.raises(FileNotFoundError):
            Plan(path)
        return
    if kind == "directory":
        path.mkdir()
        with pytest.raises(OSError, match="directory"):
            Plan(path)
        return
    path.write_bytes({"empty": b"", "text": b"hello\n" * 99, "pack": os.urandom(999)}[kind])
    with pytest.raises(FormatError, match=f"^{path}: "):
        Plan(path)


def test_an_unknown_version(good: bytes, tmp_path: Path) -> None:
    first, *others = tfrecord_records(good)
    first = json.dumps({**json.loads(first), "version": 2}).encode()
    write_tfrecord(tmp_path / "plan", [first, *others])
    with pytest.raises(FormatError, match="it is of version 2"):
        Plan(tmp_path / "plan")


def test_a_plan_at_a_path_that_is_not_utf8(tmp_path: Path) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    make_tree(tmp_path / "tree", folders=1)
    with planned(tmp_path / "tree", tmp_path / "set", Path(place)) as plan:
        assert len(plan) == 3


@pytest.mark.promise("S70")
def test_only_a_plan_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    for count in (1, 2):
        assert written(path, [piece("", [1] * count)], shards=1).file_count == count
    for content in (b"mine\n", framed([b"a record"])):
        path.write_bytes(content)
        with pytest.raises(PackError, match=r"exists \(a .* file\), and is not a plan"):
            written(path, [piece("", [1])], shards=1)
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("name", "text"),
    [("__init__", "No space left on device: '{}/plan'$"), ("close", "^the first error$")],
)
def test_a_plan_that_cannot_be_written_leaves_no_descriptor(
    tmp_path: Path, name: str, text: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        patch.object(plan_file_module.TFRecordWriter, name, fail),
        pytest.raises(OSError, match=text.format(tmp_path)),
        PlanWriter(str(tmp_path / "plan"), HEADER),
    ):
        raise PackError("the first error")
    files = descriptors(os.getpid()).values()
    assert not [file for file in files if file.startswith(str(tmp_path))]


@pytest.mark.promise("S70")
def test_files_behind_a_link_or_made_meanwhile_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine\n")
    (tmp_path / "link").symlink_to("mine")
    with pytest.raises(PackError, match=r"mine: exists \(a text file\), and is not a plan"):
        written(tmp_path / "link", [piece("", [1])], shards=1)
    with PlanWriter(str(tmp_path / "plan"), HEADER) as writer:
        writer.add(piece("", [1]))
        (tmp_path / "plan").write_text("theirs\n")
        with pytest.raises(PackError, match=r"plan: exists \(a text file\), and is not a plan"):
            writer.finish(PackOptions(shards=1))
    assert (tmp_path / "mine").read_text() == "mine\n"
    assert (tmp_path / "plan").read_text() == "theirs\n"
