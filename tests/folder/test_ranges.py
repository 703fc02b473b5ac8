"""Ranges of records: together they hold each record once, and so do the rows read from them."""

from __future__ import annotations

import itertools
import os
import pickle
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ffrfs
from ffrfs import errors
from ffrfs.errors import (
    ChecksumError,
    FfrfsError,
    FormatError,
    PackWarning,
    UnverifiedHeaderWarning,
)
from ffrfs.folder import range_reader
from ffrfs.folder.range_reader import OnError, read_range
from ffrfs.folder.ranges import RangeCutter, RecordFile, RecordRange, cut_files
from tests.ffrecord_file import INDEX_MAGIC, Header, write_folder, write_records
from tests.folder.cut_samples import SMALL, Sample, damaged_pack, small_samples
from tests.tfrecord_file import write_tfrecord

Sizes = list[list[int]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached index of a TFRecord file is kept by its path, which another test may use, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    return small_samples(tmp_path_factory.mktemp("samples"))


def index_of(index: dict[str, int]) -> bytes:
    return INDEX_MAGIC + pickle.dumps(OrderedDict(index))


def files_of(all_sizes: Sizes) -> list[RecordFile]:
    return [
        RecordFile(str(number), "ffrecord", 0, len(sizes), sum(sizes), sum(sizes), True, 0)
        for number, sizes in enumerate(all_sizes)
    ]


def rows_of(part: RecordRange, on_error: OnError = "raise") -> list[tuple[str | int, bytes]]:
    rows = []
    last = part.first
    for batch in read_range(part, on_error):
        for name, content, record in zip(*batch, strict=True):
            assert last <= record < part.end  # in order; files may share a record
            last = record
            rows.append((name, bytes(content)))
    return rows


all_sizes = st.lists(st.lists(st.integers(0, 10) | st.integers(0, 1 << 30)), min_size=1)


@pytest.mark.promise("S69")
@given(all_sizes, st.integers(1, 100))
def test_ranges_hold_each_record_once_and_in_order(all_sizes: Sizes, count: int) -> None:
    found = cut_files(files_of(all_sizes), count)
    assert [
        (part.file.path, record) for part in found for record in range(part.first, part.end)
    ] == [
        (str(file), record) for file, sizes in enumerate(all_sizes) for record in range(len(sizes))
    ]
    assert all(part.first < part.end for part in found)
    for file, sizes in enumerate(all_sizes):
        told = sum(part.byte_count for part in found if part.file.path == str(file))
        assert told == sum(sizes)


@given(all_sizes, st.integers(1, 100))
def test_range_count_is_near_and_sizes_equal_within_a_file(all_sizes: Sizes, count: int) -> None:
    files = sum(1 for sizes in all_sizes if sizes)
    found = cut_files(files_of(all_sizes), count)
    assert files <= len(found) <= max(count + files, files)
    for _, parts in itertools.groupby(found, lambda part: part.file.path):
        counts = [part.end - part.first for part in parts]
        assert max(counts) - min(counts) <= 1


@given(st.integers(1, 60))
def test_equal_records_give_exactly_the_requested_ranges(count: int) -> None:
    found = cut_files(files_of([[100] * 600, [100] * 60]), max(2, count))
    assert len(found) == max(2, count)


def test_a_count_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="0, not positive"):
        cut_files(files_of([[1]]), 0)


@pytest.mark.promise("S69")
@pytest.mark.parametrize("count", [1, 2, 7, 1000])
@pytest.mark.parametrize("name", SMALL)
def test_any_number_of_ranges_gives_the_same_rows(
    samples: dict[str, Sample], name: str, count: int
) -> None:
    parts = RangeCutter(samples[name].packs).cut(count)
    assert sorted(itertools.chain.from_iterable(map(rows_of, parts))) == samples[name].rows
    if parts[0].file.is_plain:
        assert [part.row_count for part in parts] == [len(rows_of(part)) for part in parts]


@pytest.mark.parametrize("size", [1, 5000, 1 << 40])
def test_ranges_are_cut_by_size(samples: dict[str, Sample], size: int) -> None:
    cutter = RangeCutter(samples["set"].packs)
    parts = cutter.cut_by_size(size)
    assert sorted(itertools.chain.from_iterable(map(rows_of, parts))) == samples["set"].rows
    assert len(parts) == (3 if size > 5000 else len(parts))


def test_rows_are_in_the_order_of_the_records(samples: dict[str, Sample]) -> None:
    sizes = [
        [len(data) for _, data in rows_of(part)]
        for part in RangeCutter(samples["set"].packs).cut(1)
    ]
    assert all(row == sorted(row) for row in sizes)  # packed with order="size"


def test_batches_are_bounded(samples: dict[str, Sample], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "BATCH_SIZE", 4000)
    [part] = RangeCutter(samples["pack"].packs).cut(1)
    batches = [[len(content) for content in batch.contents] for batch in read_range(part)]
    assert len(batches) > 10
    assert all(sum(sizes) <= 4000 or len(sizes) == 1 for sizes in batches)


def test_relative_paths_and_path_likes(
    samples: dict[str, Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = Path(str(samples["pack"].packs))
    monkeypatch.chdir(pack.parent)
    [part] = RangeCutter(Path(pack.name)).cut(1)
    assert part.file.path == str(pack)


def test_a_pickled_range_is_small_and_equal(samples: dict[str, Sample]) -> None:
    parts = RangeCutter(samples["set"].packs).cut(100)
    sent = pickle.dumps(parts[0])
    assert pickle.loads(sent) == parts[0]
    assert len(sent) < 1000
    assert RangeCutter(samples["set"].packs).cut(100) == parts


@pytest.mark.parametrize("name", ["pack", "records", "tfrecords"])
def test_changed_content_gives_a_different_file(tmp_path: Path, name: str) -> None:
    """Also if the sizes and the name of the file are the same."""
    pack = tmp_path / "x"
    found = []
    for data in (b"old", b"new"):
        if name == "tfrecords":
            write_tfrecord(pack, [data])
            os.utime(pack, (1, len(found)))
        elif name == "records":
            write_records(pack, [data])
        else:
            write_folder(pack, {"file": data})
        found.append(RangeCutter(pack).files[0])
    assert found[0] != found[1]


@pytest.mark.filterwarnings("ignore:.*its header has no checksum")
@pytest.mark.parametrize("name", ["pack", "records", "no checksum"])
def test_a_replacement_file_of_equal_sizes_is_refused(tmp_path: Path, name: str) -> None:
    """But a copy of the file, as on other machines, is read."""
    file = tmp_path / "x"
    write = {
        "pack": lambda data: write_folder(file, {"file": data}),
        "records": lambda data: write_records(file, [data]),
        "no checksum": lambda data: write_records(
            file, [data], lambda h: setattr(h, "checksum", 0)
        ),
    }[name]
    write(b"old")
    shutil.copy(file, tmp_path / "copy")
    [part] = RangeCutter(file).cut(1)
    write(b"new")
    with pytest.raises(FormatError, match="is another file than the one that was cut"):
        rows_of(part)
    os.replace(tmp_path / "copy", file)
    assert [data for _, data in rows_of(part)] == [b"old"]


@pytest.mark.parametrize("name", ["pack", "records", "tfrecords"])
def test_a_replacement_file_is_refused(
    samples: dict[str, Sample], tmp_path: Path, name: str
) -> None:
    source = Path(str(samples[name].packs))
    if source.is_dir():
        source = min(source.iterdir())
    file = shutil.copy(source, tmp_path / source.name)
    [part] = RangeCutter(file).cut(1)
    if name == "tfrecords":
        write_tfrecord(file, [b"other"])
    else:
        shutil.copy(str(samples["indexless"].packs), file)
    with pytest.raises(FormatError, match="is another file than the one that was cut"):
        rows_of(part)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=str(file)):
        rows_of(part)


def test_damaged_records_are_raised_or_left_out(tmp_path: Path) -> None:
    sample = damaged_pack(tmp_path)
    [part] = RangeCutter(sample.packs).cut(1)
    with pytest.raises(ChecksumError, match="'3': record 3 ") as caught:
        rows_of(part)
    assert (caught.value.file, caught.value.record) == (sample.packs, 3)
    with pytest.warns(PackWarning, match="'3': record 3 .*; left out"):
        assert rows_of(part, "skip") == sample.rows
    told: list[tuple[type[Exception], Any]] = []
    assert rows_of(part, lambda error, name: told.append((type(error), name))) == sample.rows
    assert told == [(ChecksumError, "3")]
    replaced = sorted([*sample.rows, ("3", b"other")])
    assert sorted(rows_of(part, lambda *_: b"other")) == replaced
    with pytest.raises(TypeError, match="on_error returns bytes or None, not str, for 3"):
        rows_of(part, lambda *_: "other")


def test_an_unused_record_beside_a_shared_one_is_refused(tmp_path: Path) -> None:
    """The pack has as many files as records, as if each record belonged to a file."""
    index = {"a": 0, "b": 0}
    records = [b"first", b"nobody's"]
    pack = write_records(tmp_path / "x.ffr", [*records, index_of(index)])
    with pytest.raises(FormatError, match="record 1 is no file's") as caught:
        for part in RangeCutter(pack).cut(2):
            rows_of(part)
    assert caught.value.record == 1


def test_a_record_without_a_file_is_no_row(tmp_path: Path) -> None:
    pack = write_records(tmp_path / "x.ffr", [b"nobody's", b"first", index_of({"a": 1})])
    [part] = RangeCutter(pack).cut(1)
    assert rows_of(part) == [("a", b"first")]
    assert part.row_count is None


def test_a_missing_shard_is_an_error(samples: dict[str, Sample], tmp_path: Path) -> None:
    folder = shutil.copytree(str(samples["set"].packs), tmp_path / "set")
    (folder / "part_00001.ffr").unlink()
    with pytest.raises(FormatError, match="missing: number 1"):
        RangeCutter(folder)
    [part] = RangeCutter(folder / "part_00000.ffr").cut(1)  # each pack can be read alone
    assert {*rows_of(part)} < {*samples["set"].rows}


def test_incompatible_packs_are_refused(samples: dict[str, Sample]) -> None:
    with pytest.raises(FormatError, match="both have"):
        RangeCutter([str(samples["pack"].packs), str(samples["set"].packs)])
    for first, second in itertools.permutations(["pack", "records", "tfrecords"], 2):
        with pytest.raises(FormatError):
            RangeCutter([str(samples[first].packs), str(samples[second].packs)])


@pytest.mark.parametrize("name", ["x.jsonl", "x.bin"])
def test_other_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"{}\n" * 100)
    with pytest.raises(FormatError, match=name):
        RangeCutter(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        RangeCutter(tmp_path / "none.ffr")
    with pytest.raises(ValueError, match="at least one"):
        RangeCutter([])


ALL_ERRORS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, FfrfsError)
]


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_errors_survive_pickling(kind: type[FfrfsError]) -> None:
    error = pickle.loads(pickle.dumps(kind.at("x.ffr", "is bad", 3)))
    assert type(error) is kind
    assert (str(error), error.file, error.reason, error.record) == (
        str(kind.at("x.ffr", "is bad", 3)),
        "x.ffr",
        "is bad",
        3,
    )


@pytest.mark.parametrize("write", [write_records, write_folder])
def test_a_header_without_a_checksum_warns_once(tmp_path: Path, write) -> None:
    def spoil(header: Header) -> None:
        header.checksum = 0

    contents = [b"data"] if write is write_records else {"file": b"data"}
    with pytest.warns(UnverifiedHeaderWarning) as told:
        RangeCutter(write(tmp_path / "x.ffr", contents, spoil))
    assert len(told) == 1


def test_a_link_is_no_row(samples: dict[str, Sample]) -> None:
    with ffrfs.PackedFolder(str(samples["pack"].packs)) as folder:
        assert {*folder} - {path for path, _ in samples["pack"].rows} == {"link"}
