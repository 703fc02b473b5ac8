"""TFRecordReader: records by number, over any index, cached and cold."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import re
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs.errors import ChecksumError, FormatError, TruncatedError
from ffrfs.tfrecord import TFRecordReader, TFRecordWriter
from tests.interpreter import python
from tests.page_cache import forget_pages
from tests.tfrecord_file import framed, tfrecord_extents, tfrecord_records, write_tfrecord

SIZES = [0, 1, 4095, 4096, 4097, 131071, 131072, 131073, (1 << 20) + 1, 5 << 20]


def content(record: int, size: int) -> bytes:
    return random.Random(record).randbytes(size)


@pytest.fixture
def records() -> list[bytes]:
    return [content(i, size) for i, size in enumerate(SIZES)]


@pytest.fixture
def file(tmp_path: Path, records: list[bytes]) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", records)


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])
def test_reads_in_order_with_duplicates(file: Path, records: list[bytes], cached: bool) -> None:
    wanted = [9, 0, 3, 3, 1, 8, 5]
    with TFRecordReader(file) as reader:
        assert reader.n == len(reader) == len(records)
        if not cached:
            forget_pages(file)
        assert reader.read(wanted) == [records[i] for i in wanted]
        assert reader.read(np.array(wanted)) == [records[i] for i in wanted]
        assert reader.read_one(7) == records[7]
        assert reader.read([]) == []
        assert type(reader.read_one(0)) is bytes


def test_it_is_a_sequence(file: Path, records: list[bytes]) -> None:
    reader = TFRecordReader(file)
    assert reader[2] == records[2]
    assert reader[-1] == records[-1]
    assert reader[np.int64(-len(records))] == records[0]
    for part in (slice(None), slice(2, 5), slice(None, None, -2), slice(-3, 100), slice(5, 2)):
        assert reader[part] == records[part]
    for index in (len(records), -len(records) - 1, 1 << 70):
        with pytest.raises(IndexError):
            reader[index]
    with pytest.raises(TypeError):
        reader["1"]
    with pytest.raises(TypeError, match=r"read_one\(5\)"):
        reader.read(5)  # type: ignore[arg-type]
    for index in (-1, len(records), 1 << 70):
        with pytest.raises(IndexError):
            reader.read([0, index])


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])
def test_iteration_gives_all_of_all_files(tmp_path: Path, cached: bool) -> None:
    shards = [[content(i, i * 37 % 5000) for i in range(first, first + 300)] for first in (0, 500)]
    for number, part in enumerate([shards[0], [], shards[1]]):
        path = write_tfrecord(tmp_path / f"x.tfrecord-{number}-of-3", part)
        if not cached:
            forget_pages(path)
    reader = TFRecordReader(tmp_path)
    assert list(reader) == [*shards[0], *shards[1]]
    assert list(reader) == reader[:]  # once more, and by number


def test_an_empty_file(tmp_path: Path) -> None:
    reader = TFRecordReader(write_tfrecord(tmp_path / "x.tfrecord", []))
    assert reader.n == 0
    assert list(reader) == reader[:] == []
    reader.validate()
    with pytest.raises(IndexError):
        reader.read_one(0)


@pytest.mark.parametrize("record", [1, 4, 9])
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])
def test_a_damaged_record_is_named_and_the_others_are_read(
    file: Path, records: list[bytes], record: int, cached: bool
) -> None:
    begin, size = tfrecord_extents(file.read_bytes())[record]
    for offset in (begin + 12, begin + size - 1):
        flip(file, offset)
        if not cached:
            forget_pages(file)
        reader = TFRecordReader(file, sidecar=False)
        with pytest.raises(ChecksumError, match=f"{file}: record {record} "):
            reader.read([0, record, 2])
        assert reader.read([0, 3]) == [records[0], records[3]]
        with pytest.raises(ChecksumError, match=f"record {record} "):
            reader.validate()
        with pytest.raises(ChecksumError, match=f"record {record} "):
            list(reader)
        assert len(TFRecordReader(file, check_data=False).read_one(record)) == size - 16
        flip(file, offset)


def test_validate_counts_what_else_is_bad(file: Path) -> None:
    reader = TFRecordReader(file, check_data=False)
    reader.validate()
    for record in (2, 5, 7):
        flip(file, tfrecord_extents(file.read_bytes())[record][0] + 12)
    with pytest.raises(ChecksumError, match=r"record 2 .*\(and 2 more bad records\)"):
        reader.validate()


def test_a_file_that_is_cut_off_is_not_opened(file: Path) -> None:
    size = file.stat().st_size
    os.truncate(file, size - 1)
    begin = tfrecord_extents(framed([bytes(n) for n in SIZES]))[-1][0]
    place = rf"{file}: record 9 \(offset {begin}\): the file ends"
    with pytest.raises(TruncatedError, match=place):
        TFRecordReader(file)


@pytest.mark.parametrize(("compress", "kind"), [(gzip.compress, "GZIP"), (zlib.compress, "ZLIB")])
def test_a_compressed_file_is_to_be_converted(file: Path, compress, kind: str) -> None:
    file.write_bytes(compress(file.read_bytes()))
    advice = rf"{file}: is compressed \({kind}\).*ffrfs convert {file} "
    with pytest.raises(FormatError, match=advice):
        TFRecordReader(file)


def test_which_files(tmp_path: Path) -> None:
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


def test_a_closed_reader(file: Path) -> None:
    reader = TFRecordReader(file)
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.read([0])
    with pytest.raises(ValueError, match="closed"):
        list(reader)
    reader.close()  # once more: harmless


def test_a_reader_is_pickled_by_name(file: Path, records: list[bytes]) -> None:
    reader = pickle.loads(pickle.dumps(TFRecordReader(file, check_data=False, sidecar=False)))
    assert not reader.check_data
    assert not reader.sidecar
    assert reader.read_one(5) == records[5]
    assert os.listdir(file.parent) == [file.name]


def test_threads_share_a_reader(file: Path, records: list[bytes]) -> None:
    reader = TFRecordReader(file)

    def read(seed: int) -> bool:
        if seed % 3 == 0:
            forget_pages(file)
        wanted = random.Random(seed).choices(range(len(records)), k=20)
        return reader.read(wanted) == [records[i] for i in wanted]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(40)))


# Python 3.12 and later warn of what this test is about.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_reads_with_its_parents_reader(file: Path, records: list[bytes]) -> None:
    reader = TFRecordReader(file)
    reader.read(range(reader.n))  # threads and queues are there now
    forget_pages(file)
    iterator = iter(reader)
    begin = next(iterator)
    stop = threading.Event()

    def keep_reading() -> None:  # so that locks may be held at the moment of the fork
        while not stop.is_set():
            reader.read([7, 8])

    thread = threading.Thread(target=keep_reading)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                forget_pages(file)
                same = reader[:] == records == [begin, *iterator]
                os._exit(0 if same else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_records_any_batch(tmp_path: Path, data: st.DataObject) -> None:
    size = st.one_of(st.sampled_from(SIZES[:-1]), st.integers(0, 20_000))
    sizes = data.draw(st.lists(size, min_size=1, max_size=30))
    model = [content(i, size) for i, size in enumerate(sizes)]
    path = write_tfrecord(tmp_path / "any.tfrecord", model)
    wanted = data.draw(st.lists(st.integers(0, len(model) - 1), max_size=80))
    cut = slice(*(data.draw(st.none() | st.integers(-35, 35)) for _ in range(2)))
    if data.draw(st.booleans()):
        forget_pages(path)
    # With a sidecar the second time: the first one has written it.
    for _ in range(2):
        with TFRecordReader(path) as reader:
            assert reader.read(wanted) == [model[i] for i in wanted]
            assert reader[cut] == model[cut]
            assert list(reader) == model


@pytest.mark.parametrize("name", ["examples", "sequences", "raw"])
def test_golden_files(golden: Path, name: str) -> None:
    path = golden / "tf" / f"{name}.tfrecord"
    reader = TFRecordReader(path, sidecar=False)
    assert reader[:] == list(reader) == tfrecord_records(path.read_bytes())
    reader.validate()
    if name == "examples":
        assert reader.n == len(json.loads((golden / "tf" / "examples.json").read_text()))
    for kind in ("gzip", "zlib"):
        compressed = golden / "tf" / f"examples.{kind}.tfrecord"
        with pytest.raises(FormatError, match=re.escape(f"is compressed ({kind.upper()})")):
            TFRecordReader(compressed, sidecar=False)


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


def test_memory_of_records_is_used_again(tmp_path: Path) -> None:
    # In a process of its own: malloc's limits are the process's, and have moved in ours.
    path = tmp_path / "x.tfrecord"
    with TFRecordWriter(path) as writer:
        for _ in range(128):
            writer.write(bytes(110_000))
    done = python("-c", FAULTS, path, check=True)
    assert int(done.stdout) < 128  # a fault for each page would be 27 a record
