"""FileReader as a sequence: iteration, and any iterable of numbers."""

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


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])
@pytest.mark.parametrize(("size", "count"), [(16 << 20, 4096), (9000, 4096), (1, 4096), (9999, 3)])
def test_iteration_gives_all_records_of_all_files(
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


def test_iteration_ends_at_a_damaged_record(file: Path) -> None:
    flip_byte(file, record_extents(file)[7][0])
    with FileReader(file) as reader:
        with pytest.raises(ChecksumError, match="record 7 "):
            list(reader)
        assert reader[8].tobytes() == RECORDS[8]
    with FileReader(file, check_data=False) as reader:
        assert sum(map(len, reader)) == sum(map(len, RECORDS))


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
        with pytest.raises(TypeError, match=r"^read\(\) takes a list of record numbers; for one"):
            reader.read(iter("5"))  # type: ignore[arg-type]
