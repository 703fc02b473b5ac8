"""FileReader and the page cache: what it reads, what it leaves there, and what it trusts."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ffrfs import FileReader
from ffrfs.errors import ChecksumError
from ffrfs.tfrecord import TFRecordReader
from tests.ffrecord_file import flip_byte, record_extents, write_records
from tests.page_cache import forget_pages
from tests.tfrecord_file import write_tfrecord

# The file systems of native/io/local_file.cc, under the names that stat(1) prints.
KNOWN_FILE_SYSTEMS = {"ext2/ext3", "xfs", "btrfs", "f2fs", "nfs"}
COUNT = 500
SIZE = 3000


def content(record: int) -> bytes:
    return random.Random(record).randbytes(SIZE)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_records(tmp_path / "records.ffr", [content(i) for i in range(COUNT)])


def cached_size(path: Path, offset: int, size: int) -> int:
    """Return how many bytes from `offset` on can be read without waiting."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.preadv(fd, [bytearray(size)], offset, os.RWF_NOWAIT)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return 0
        raise
    finally:
        os.close(fd)


def needs_a_known_file_system(path: Path) -> None:
    command = ["stat", "--file-system", "--format=%T", path]
    kind = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if kind not in KNOWN_FILE_SYSTEMS:
        pytest.skip(f"{kind}: read past the page cache")


@pytest.mark.parametrize("kind", [FileReader, TFRecordReader])
def test_records_that_were_read_are_cached(file: Path, kind: Any) -> None:
    needs_a_known_file_system(file)
    if kind is TFRecordReader:
        write_tfrecord(file, map(content, range(COUNT)))
    numbers = random.Random(1).sample(range(COUNT), 40)
    reader = kind(file)
    forget_pages(file)
    assert list(map(bytes, reader.read(numbers))) == list(map(content, numbers))
    offsets = reader._records.offsets(0).tolist()
    begin = 12 if kind is TFRecordReader else 0  # of the data in their frame
    assert all(cached_size(file, offsets[number] + begin, SIZE) == SIZE for number in numbers)


@pytest.mark.parametrize("is_cold", [False, True], ids=["cached", "cold"])
def test_adjacent_records_are_each_verified(file: Path, is_cold: bool) -> None:
    reader = FileReader(file)
    everything = range(COUNT)
    for _ in range(2):  # later reads skip the check whether pages are cached
        assert [r.tobytes() for r in reader.read(everything)] == list(map(content, everything))
    flip_byte(file, record_extents(file)[123][0] + 5)
    if is_cold:
        forget_pages(file)
    with pytest.raises(ChecksumError, match="record 123 "):
        reader.read(everything)
    rest = [number for number in everything if number != 123]
    assert [r.tobytes() for r in reader.read(rest)] == list(map(content, rest))


def test_a_file_that_has_shrunk_is_an_error(file: Path) -> None:
    reader = FileReader(file)
    for _ in range(2):
        reader.read(range(COUNT))
    os.truncate(file, record_extents(file)[400][0] + 10)
    with pytest.raises(OSError, match="shorter than when opened"):
        reader.read(range(COUNT))
    assert [r.tobytes() for r in reader.read(range(400))] == list(map(content, range(400)))


def test_a_batch_larger_than_one_request(tmp_path: Path) -> None:
    blobs = [random.Random(i).randbytes(1 << 20) for i in range(4)]
    order = [i % 4 for i in range(70)]  # more than 32 MiB
    path = write_records(tmp_path / "large.ffr", [blobs[i] for i in order])
    reader = FileReader(path)
    forget_pages(path)
    numbers = random.Random(2).sample(range(70), 70)
    for number, record in zip(numbers, reader.read(numbers), strict=True):
        assert record.tobytes() == blobs[order[number]]
