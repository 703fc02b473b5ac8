"""What FileReader and TFRecordReader have in common: a row of KINDS for each.

tests/record and tests/tfrecord test what only one of them has.
"""

from __future__ import annotations

import os
import pickle
import random
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs import FileReader
from ffrfs.errors import ChecksumError
from ffrfs.tfrecord import TFRecordReader
from tests.ffrecord_file import flip_byte, record_extents, write_records
from tests.page_cache import forget_pages
from tests.tfrecord_file import tfrecord_extents, write_tfrecord

SIZES = [0, 1, 4095, 4096, 4097, 131071, 131072, 131073, (1 << 20) + 1, 5 << 20]


class Kind(NamedTuple):
    open: Callable[..., Any]
    write: Callable[[Path, list[bytes]], Path]
    extents: Callable[[Path], list[tuple[int, int]]]  # (offset, size) of each frame
    data_begin: int  # where a record begins in its frame
    record_type: type
    alone: dict[str, bool]  # keywords to read nothing but the file itself


KINDS = {
    "ffrecord": Kind(FileReader, write_records, record_extents, 0, np.ndarray, {}),
    "tfrecord": Kind(
        TFRecordReader,
        write_tfrecord,
        lambda path: tfrecord_extents(path.read_bytes()),
        12,
        bytes,
        {"sidecar": False},
    ),
}
pytestmark = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
cached_or_cold = pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])


def content(record: int, size: int) -> bytes:
    return random.Random(record).randbytes(size)


def as_bytes(records: Iterable[Any]) -> list[bytes]:
    return [bytes(record) for record in records]


@pytest.fixture
def records() -> list[bytes]:
    return [content(i, size) for i, size in enumerate(SIZES)]


@pytest.fixture
def file(kind: Kind, tmp_path: Path, records: list[bytes]) -> Path:
    return kind.write(tmp_path / "x", records)


@cached_or_cold
def test_reads_in_order_with_duplicates(
    kind: Kind, file: Path, records: list[bytes], cached: bool
) -> None:
    wanted = [9, 0, 3, 3, 1, 8, 9, 5]
    with kind.open(file) as reader:
        assert reader.n == len(reader) == len(records)
        if not cached:
            forget_pages(file)
        assert as_bytes(reader.read(wanted)) == [records[i] for i in wanted]
        assert as_bytes(reader.read(np.array(wanted))) == [records[i] for i in wanted]
        assert as_bytes(reader.read(range(3))) == records[:3]
        assert bytes(reader.read_one(7)) == records[7]
        assert reader.read([]) == []
        assert type(reader.read_one(0)) is kind.record_type


def test_a_reader_is_a_sequence(kind: Kind, file: Path, records: list[bytes]) -> None:
    reader = kind.open(file)
    assert bytes(reader[2]) == records[2]
    assert bytes(reader[-1]) == records[-1]
    assert bytes(reader[np.int64(-len(records))]) == records[0]
    for part in (slice(None), slice(2, 5), slice(None, None, -2), slice(-3, 999), slice(5, 2)):
        assert as_bytes(reader[part]) == records[part]
    for index in (len(records), -len(records) - 1, 1 << 70):
        with pytest.raises(IndexError, match=f"^record {index} does not exist: there are 10$"):
            reader[index]


@pytest.mark.parametrize("index", [-1, -9, len(SIZES), 1 << 40, 1 << 70, -(1 << 70)])
def test_a_record_that_does_not_exist_is_an_index_error(kind: Kind, file: Path, index: int) -> None:
    reader = kind.open(file)
    with pytest.raises(IndexError):
        reader.read_one(index)
    with pytest.raises(IndexError):
        reader.read([0, index])


@pytest.mark.parametrize("wrong", ["1", 1.0, None, [1]])
def test_indices_may_be_integers_and_nothing_else(kind: Kind, file: Path, wrong: object) -> None:
    reader = kind.open(file)
    with pytest.raises(TypeError):
        reader[wrong]
    with pytest.raises(TypeError) as caught:
        reader.read_one(wrong)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("indices", [5, None, "5", ["a"], [1.5], [None], np.int64(5)])
def test_read_names_the_types_it_accepts(kind: Kind, file: Path, indices: object) -> None:
    with kind.open(file) as reader, pytest.raises(TypeError) as caught:
        reader.read(indices)
    text = "read() takes a list of record numbers; for one record there is read_one(5) or reader[5]"
    assert str(caught.value) == text


def test_an_empty_file(kind: Kind, tmp_path: Path) -> None:
    reader = kind.open(kind.write(tmp_path / "x", []))
    assert reader.n == 0
    assert list(reader) == reader[:] == []
    reader.validate()
    for read in (reader.read_one, reader.__getitem__):
        with pytest.raises(IndexError):
            read(0)


@pytest.mark.parametrize("record", [1, 4, 8, 9])
@cached_or_cold
def test_a_damaged_record_is_named_and_the_others_are_read(
    kind: Kind, file: Path, records: list[bytes], record: int, cached: bool
) -> None:
    begin, size = kind.extents(file)[record]
    middle = kind.data_begin + len(records[record]) // 2
    for place in (kind.data_begin, middle, size - 1):
        flip_byte(file, begin + place)
        if not cached:
            forget_pages(file)
        reader = kind.open(file, **kind.alone)
        with pytest.raises(ChecksumError, match=rf"{file}: record {record} \(offset {begin}, "):
            reader.read([0, record, 2])
        assert as_bytes(reader.read([0, 3])) == [records[0], records[3]]
        assert bytes(reader.read_one(3)) == records[3]
        with pytest.raises(ChecksumError, match=f"record {record} "):
            reader.validate()
        with pytest.raises(ChecksumError, match=f"record {record} "):
            list(reader)
        unchecked = kind.open(file, check_data=False)
        assert len(unchecked.read_one(record)) == len(records[record])
        flip_byte(file, begin + place)


def test_validate_counts_the_other_bad_records(kind: Kind, file: Path) -> None:
    reader = kind.open(file, check_data=False)
    reader.validate()
    for record in (2, 5, 7):
        flip_byte(file, kind.extents(file)[record][0] + kind.data_begin)
    with pytest.raises(ChecksumError, match=r"record 2 .*\(and 2 more bad records\)"):
        reader.validate()


def test_a_closed_reader(kind: Kind, file: Path) -> None:
    reader = kind.open(file)
    reader.close()
    for use in (
        list,
        lambda reader: reader[0],
        lambda reader: reader[:2],
        lambda reader: reader.read([0]),
    ):
        with pytest.raises(ValueError, match="closed"):
            use(reader)
    reader.close()  # a second time: harmless


def test_a_pickled_reader_of_a_relative_path_survives_chdir(
    kind: Kind, file: Path, records: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    reader = kind.open(Path(file.name))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pickle.loads(pickle.dumps(reader)) as copy:
        assert bytes(copy[0]) == records[0]
    reader.close()


def test_a_reader_is_pickled_by_name(kind: Kind, file: Path, records: list[bytes]) -> None:
    reader = pickle.loads(pickle.dumps(kind.open(file, check_data=False, **kind.alone)))
    assert reader.check_data is False
    assert {name: getattr(reader, name) for name in kind.alone} == kind.alone
    assert bytes(reader.read_one(5)) == records[5]
    assert os.listdir(file.parent) == [file.name]


def test_threads_share_a_reader(kind: Kind, file: Path, records: list[bytes]) -> None:
    reader = kind.open(file)

    def read(seed: int) -> bool:
        if seed % 3 == 0:
            forget_pages(file)
        wanted = random.Random(seed).choices(range(len(records)), k=20)
        return as_bytes(reader.read(wanted)) == [records[i] for i in wanted]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(100)))


# Python 3.12 and later warn of a fork beside threads, which this test is about.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_reads_with_its_parents_reader(
    kind: Kind, file: Path, records: list[bytes]
) -> None:
    reader = kind.open(file)
    reader.read(range(reader.n))  # starts threads and queues
    forget_pages(file)
    reader.read(range(reader.n))
    iterator = iter(reader)
    begin = next(iterator)
    stop = threading.Event()

    def keep_reading() -> None:  # so that it may hold locks during the fork
        while not stop.is_set():
            reader.read([7, 8])

    thread = threading.Thread(target=keep_reading)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                forget_pages(file)
                same = as_bytes(reader[:]) == records == as_bytes([begin, *iterator])
                os._exit(0 if same else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_batch_of_any_records(kind: Kind, tmp_path: Path, data: st.DataObject) -> None:
    size = st.one_of(st.sampled_from(SIZES[:-1]), st.integers(0, 20_000))
    sizes = data.draw(st.lists(size, min_size=1, max_size=30))
    model = [content(i, size) for i, size in enumerate(sizes)]
    path = kind.write(tmp_path / "any", model)
    wanted = data.draw(st.lists(st.integers(0, len(model) - 1), max_size=80))
    cut = slice(*(data.draw(st.none() | st.integers(-35, 35)) for _ in range(2)))
    if data.draw(st.booleans()):
        forget_pages(path)
    # The second time, a TFRecordReader uses the index that the first one kept.
    for _ in range(2):
        with kind.open(path) as reader:
            assert as_bytes(reader.read(wanted)) == [model[i] for i in wanted]
            assert as_bytes(reader[cut]) == model[cut]
            assert as_bytes(reader) == model
