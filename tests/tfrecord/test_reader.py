"""TFRecordReader: records by number, over any index, cached and cold.

tests/files/test_record_reader.py tests the behaviour that both readers share.
"""

from __future__ import annotations

import gzip
import os
import random
import zlib
from pathlib import Path

import pytest

from ffrfs.errors import FormatError, TruncatedError
from ffrfs.tfrecord import TFRecordReader, TFRecordWriter
from tests.interpreter import python
from tests.page_cache import forget_pages
from tests.tfrecord_file import framed, tfrecord_extents, write_tfrecord

SIZES = [0, 1, 4095, 4096, 4097, 131071, 131072, 131073, (1 << 20) + 1, 5 << 20]


def content(record: int, size: int) -> bytes:
    return random.Random(record).randbytes(size)


@pytest.fixture
def records() -> list[bytes]:
    return [content(i, size) for i, size in enumerate(SIZES)]


@pytest.fixture
def file(tmp_path: Path, records: list[bytes]) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", records)


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])
def test_iteration_gives_all_records_of_all_files(tmp_path: Path, cached: bool) -> None:
    shards = [[content(i, i * 37 % 5000) for i in range(first, first + 300)] for first in (0, 500)]
    for number, part in enumerate([shards[0], [], shards[1]]):
        path = write_tfrecord(tmp_path / f"x.tfrecord-{number}-of-3", part)
        if not cached:
            forget_pages(path)
    reader = TFRecordReader(tmp_path)
    assert list(reader) == [*shards[0], *shards[1]]
    assert list(reader) == reader[:]  # once more, and by number


def test_a_file_that_is_cut_off_is_not_opened(file: Path) -> None:
    size = file.stat().st_size
    os.truncate(file, size - 1)
    begin = tfrecord_extents(framed([bytes(n) for n in SIZES]))[-1][0]
    place = rf"{file}: record 9 \(offset {begin}\): the file ends"
    with pytest.raises(TruncatedError, match=place):
        TFRecordReader(file)


@pytest.mark.parametrize(("compress", "kind"), [(gzip.compress, "GZIP"), (zlib.compress, "ZLIB")])
def test_a_compressed_file_is_refused_with_advice_to_convert(
    file: Path, compress, kind: str
) -> None:
    file.write_bytes(compress(file.read_bytes()))
    advice = rf"{file}: is compressed \({kind}\).*ffrfs convert {file} "
    with pytest.raises(FormatError, match=advice):
        TFRecordReader(file)


def test_more_shards_than_allowed_descriptors(tmp_path: Path) -> None:
    for number in range(30):
        write_tfrecord(tmp_path / f"{number:02d}.tfrecord", [b"record"])
    program = (
        "import resource, sys\n"
        "from ffrfs.errors import describe\n"
        "from ffrfs.tfrecord import TFRecordReader\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))\n"
        "try:\n"
        "    TFRecordReader(sys.argv[1])\n"
        "except OSError as error:\n"
        "    print(error.strerror, describe(error), sep='\\n')\n"
    )
    raised, described = python("-c", program, tmp_path).stdout.splitlines()
    advice = "Too many open files; a process may have 24 here: raise that limit (ulimit -n"
    assert advice in raised
    assert advice in described
    assert described.count("ulimit") == 1


def test_files_of_a_directory_or_a_list(tmp_path: Path) -> None:
    names = ["b.tfrecord", "a.tfrecord-00001-of-00002", "a.tfrecord-00000-of-00002", "c.tfrecords"]
    for name in names:
        write_tfrecord(tmp_path / name, [name.encode()])
    for name in ("a.tfrecord.bak.idx", "a.tfrecord.tfindex", ".a.tfrecord", "a.txt"):
        (tmp_path / name).write_text("no shard")
    reader = TFRecordReader(tmp_path)
    assert reader.paths == [str(tmp_path / name) for name in sorted(names)]
    assert reader[:] == [name.encode() for name in sorted(names)]
    chosen = TFRecordReader([tmp_path / names[3], str(tmp_path / names[0])])
    assert chosen[:] == [names[3].encode(), names[0].encode()]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="holds no TFRecord files"):
        TFRecordReader(tmp_path / "empty")
    with pytest.raises(FormatError, match="no TFRecord file was named"):
        TFRecordReader([])
    with pytest.raises(FileNotFoundError):
        TFRecordReader(tmp_path / "nothing.tfrecord")


FAULTS = """
import resource, sys
from ffrfs.tfrecord import TFRecordReader, TFRecordWriter

reader = TFRecordReader(sys.argv[1], sidecar=False)
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for first in range(0, len(reader), 32):
        reader[first : first + 32]
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_memory_of_records_is_reused(tmp_path: Path) -> None:
    # It runs in another process: malloc's limits are per process, and have moved in ours.
    path = tmp_path / "x.tfrecord"
    with TFRecordWriter(path) as writer:
        for _ in range(128):
            writer.write(bytes(110_000))
    done = python("-c", FAULTS, path, check=True)
    assert int(done.stdout) < 128  # a fault for each page would be 27 a record
