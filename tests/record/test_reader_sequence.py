"""FileReader as a sequence: numbers, negative ones, slices, iteration; and wrong arguments."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ffrfs import FileReader
from ffrfs.errors import ChecksumError
from ffrfs.record import reader as reader_module
from tests.ffrecord_file import flip_byte, record_extents, write_records
from tests.page_cache import forget_pages

RECORDS = [random.Random(i).randbytes(i * 37 % 5000) for i in range(600)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_records(tmp_path / "records.ffr", RECORDS)


def as_bytes(arrays: list[np.ndarray]) -> list[bytes]:
    return [array.tobytes() for array in arrays]


def test_it_is_a_sequence(file: Path) -> None:
    with FileReader(file) as reader:
        assert reader[2].tobytes() == RECORDS[2]
        assert reader[-1].tobytes() == RECORDS[-1]
        assert reader[np.int64(-len(RECORDS))].tobytes() == RECORDS[0]
        assert (reader[5].dtype, reader[5].ndim, reader[5].flags.owndata) == (np.uint8, 1, True)
        for part in (slice(None), slice(2, 5), slice(None, None, -2), slice(-3, 999), slice(5, 2)):
            assert as_bytes(reader[part]) == RECORDS[part]
        for index in (len(RECORDS), -len(RECORDS) - 1, 1 << 70):
            with pytest.raises(IndexError, match=f"^record {index} does not exist: there are 600$"):
                reader[index]
        for wrong in ("1", 1.0, None):
            with pytest.raises(TypeError):
                reader[wrong]  # type: ignore[call-overload]


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])
@pytest.mark.parametrize(("size", "count"), [(16 << 20, 4096), (9000, 4096), (1, 4096), (9999, 3)])
def test_iteration_gives_all_of_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool, size: int, count: int
) -> None:
    monkeypatch.setattr(reader_module, "_BATCH_SIZE", size)
    monkeypatch.setattr(reader_module, "_BATCH_COUNT", count)
    for number, part in enumerate([RECORDS[:250], [], RECORDS[250:]]):
        path = write_records(tmp_path / f"{number}.ffr", part)
        if not cached:
            forget_pages(path)
    with FileReader(tmp_path) as reader:
        assert as_bytes(list(reader)) == RECORDS
        assert as_bytes(list(reader)) == as_bytes(reader[:])


def test_an_empty_file(tmp_path: Path) -> None:
    with FileReader(write_records(tmp_path / "x.ffr", [])) as reader:
        assert list(reader) == reader[:] == []
        with pytest.raises(IndexError):
            reader[0]


def test_iteration_ends_at_a_damaged_record(file: Path) -> None:
    flip_byte(file, record_extents(file)[7][0])
    with FileReader(file) as reader:
        with pytest.raises(ChecksumError, match="record 7 "):
            list(reader)
        assert reader[8].tobytes() == RECORDS[8]
    with FileReader(file, check_data=False) as reader:
        assert sum(map(len, reader)) == sum(map(len, RECORDS))


def test_closed(file: Path) -> None:
    reader = FileReader(file)
    reader.close()
    for use in (list, lambda reader: reader[0], lambda reader: reader[:2]):
        with pytest.raises(ValueError, match="closed"):
            use(reader)


@pytest.mark.parametrize("indices", [5, None, "5", iter("5"), ["a"], [1.5], [None], np.int64(5)])
def test_read_says_what_it_takes(file: Path, indices: object) -> None:
    with FileReader(file) as reader, pytest.raises(TypeError) as caught:
        reader.read(indices)  # type: ignore[arg-type]
    text = "read() takes a list of record numbers; for one record there is read_one(5) or reader[5]"
    assert str(caught.value) == text


def raising() -> Iterator[int]:
    yield 1
    raise TypeError("of the caller")


def test_read_takes_any_iterable(file: Path) -> None:
    with FileReader(file) as reader:
        numbers = {7: "c", 0: "a", 3: "b"}
        generator = (number for number in numbers)
        for indices in (generator, numbers.keys(), map(int, "703"), deque(numbers)):
            assert as_bytes(reader.read(indices)) == [RECORDS[number] for number in numbers]
        assert as_bytes(reader.read({5})) == [RECORDS[5]]
        for indices in (range(300, 600), np.arange(300, 600)):
            assert as_bytes(reader.read(indices)) == RECORDS[300:]
        assert reader.read(iter([])) == []
        with pytest.raises(TypeError, match="of the caller"):
            reader.read(raising())


@pytest.mark.parametrize("index", ["1", 1.0, None, [1]])
def test_read_one_takes_one_number(file: Path, index: object) -> None:
    with FileReader(file) as reader, pytest.raises(TypeError) as caught:
        reader.read_one(index)  # type: ignore[arg-type]
    assert len(str(caught.value).splitlines()) == 1
