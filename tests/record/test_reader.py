"""FileReader: the reference's API over the native core."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs import FileReader
from ffrfs.errors import ChecksumError, FormatError, UnverifiedHeaderWarning
from tests.ffrecord_file import flip_byte, record_extents, write_records
from tests.page_cache import forget_pages

SIZES = [0, 1, 4095, 4096, 4097, 131071, 131072, 131073, (1 << 20) + 1]


def content(record: int, size: int) -> bytes:
    return random.Random(record).randbytes(size)


@pytest.fixture
def records() -> list[bytes]:
    return [content(i, size) for i, size in enumerate(SIZES)]


@pytest.fixture
def file(tmp_path: Path, records: list[bytes]) -> Path:
    return write_records(tmp_path / "records.ffr", records)


def as_bytes(arrays: list[np.ndarray]) -> list[bytes]:
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])
def test_reads_in_order_with_duplicates(file: Path, records: list[bytes], cached: bool) -> None:
    wanted = [8, 0, 3, 3, 1, 8, 5]
    if not cached:
        forget_pages(file)
    with FileReader(file) as reader:
        assert reader.n == len(reader) == len(records)
        assert as_bytes(reader.read(wanted)) == [records[i] for i in wanted]


def test_arrays_are_one_dimensional_and_own_their_memory(file: Path, records: list[bytes]) -> None:
    reader = FileReader(file)
    first, second, empty = reader.read([5, 5, 0])
    for array in (first, second, empty):
        assert array.dtype == np.uint8
        assert array.ndim == 1
        assert array.flags.owndata
        assert array.flags.writeable
    assert not np.shares_memory(first, second)
    reader.close()
    del reader
    second[:] = 0
    assert first.tobytes() == records[5]


def test_memory_that_is_freed_and_used_again_is_not_shared(file: Path) -> None:
    reader = FileReader(file)
    kept = []
    for round_number in range(50):
        batch = reader.read([4, 5, 6, 7, 8])
        if round_number % 5 == 0:
            kept.append(batch)
        del batch
    for batch in kept:
        assert as_bytes(batch) == [content(i, SIZES[i]) for i in (4, 5, 6, 7, 8)]


def test_arrays_can_be_resized_and_reshaped(file: Path, records: list[bytes]) -> None:
    """The memory comes from a pool of ours: NumPy must be able to give it back whatever."""
    array = FileReader(file).read_one(3)
    array.resize(200_000, refcheck=False)
    assert array[: SIZES[3]].tobytes() == records[3]
    array.resize(10, refcheck=False)
    assert array.tobytes() == records[3][:10]
    array = array.view(np.uint16)
    del array


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 3000])
def test_any_batch_size(tmp_path: Path, count: int) -> None:
    path = write_records(tmp_path / "many.ffr", [content(i, i % 977) for i in range(1000)])
    forget_pages(path)
    wanted = [random.Random(count + i).randrange(1000) for i in range(count)]
    assert as_bytes(FileReader(path).read(wanted)) == [content(i, i % 977) for i in wanted]


@pytest.mark.parametrize("index", [-1, -9, len(SIZES), 1 << 40, 1 << 70, -(1 << 70)])
def test_a_record_that_is_not_there_is_an_index_error(file: Path, index: int) -> None:
    reader = FileReader(file)
    with pytest.raises(IndexError):
        reader.read_one(index)
    with pytest.raises(IndexError):
        reader.read([0, index])


def test_indices_may_be_any_integers_and_nothing_else(file: Path, records: list[bytes]) -> None:
    reader = FileReader(file)
    assert as_bytes(reader.read(np.array([2, 1]))) == [records[2], records[1]]
    assert as_bytes(reader.read(range(3))) == records[:3]
    with pytest.raises(TypeError):
        reader.read([1.0])
    with pytest.raises(TypeError):
        reader.read_one("1")


@pytest.mark.parametrize("record", [1, 4, 8])
@pytest.mark.parametrize("cached", [True, False], ids=["cached", "cold"])
def test_a_damaged_record_is_named_and_the_others_are_read(
    file: Path, records: list[bytes], record: int, cached: bool
) -> None:
    offset, size = record_extents(file)[record]
    flip_byte(file, offset + size // 2)
    if not cached:
        forget_pages(file)
    reader = FileReader(file)
    with pytest.raises(ChecksumError, match=rf"{file}: record {record} \(offset {offset}, "):
        reader.read([0, record, 2])
    assert reader.read_one(3).tobytes() == records[3]
    with pytest.raises(ChecksumError, match=f"record {record} "):
        reader.validate()
    assert len(FileReader(file, check_data=False).read_one(record)) == size


def test_validate_counts_what_else_is_bad(file: Path) -> None:
    reader = FileReader(file, check_data=False)
    reader.validate()
    for record in (2, 5, 7):
        flip_byte(file, record_extents(file)[record][0])
    with pytest.raises(ChecksumError, match=r"record 2 .*\(and 2 more bad records\)"):
        reader.validate()


def test_offsets_and_checksums_outlive_the_reader(file: Path, records: list[bytes]) -> None:
    reader = FileReader(file)
    offsets, checksums = reader.get_offsets(0), reader.get_checksums(0)
    reader.close()
    assert offsets.tolist() == [o for o, _ in record_extents(file)] + [file.stat().st_size]
    assert checksums.tolist() == [zlib.crc32(record) for record in records]
    with pytest.raises(ValueError, match="closed"):
        reader.read([0])
    reader.close()  # once more: harmless


def test_several_files_are_one_index_space(tmp_path: Path) -> None:
    for part in range(3):
        write_records(tmp_path / f"PART_{part:05d}.ffr", [b"%d%d" % (part, i) for i in range(4)])
    by_folder = FileReader(tmp_path)
    by_list = FileReader(sorted(tmp_path.iterdir()))
    for reader in (by_folder, by_list):
        assert reader.n == 12
        assert as_bytes(reader.read(range(12))) == [b"%d%d" % divmod(i, 4) for i in range(12)]
        assert len(reader.get_offsets(2)) == 5
        for bad in (-1, 3):
            with pytest.raises(IndexError):
                reader.get_checksums(bad)
    with pytest.raises(FormatError, match=r"holds no \*\.ffr files"):
        FileReader(tmp_path.joinpath("empty").mkdir() or tmp_path / "empty")


def test_an_old_header_warns_once_and_records_are_still_verified(
    file: Path, records: list[bytes]
) -> None:
    with file.open("r+b") as raw:
        raw.write(bytes(4))
    with pytest.warns(UnverifiedHeaderWarning, match=str(file)) as warned:
        reader = FileReader(file)
    assert len(warned) == 1
    assert reader.read_one(4).tobytes() == records[4]
    flip_byte(file, record_extents(file)[4][0])
    with pytest.raises(ChecksumError):
        reader.read_one(4)


def test_a_reader_is_pickled_by_name(file: Path, records: list[bytes]) -> None:
    reader = pickle.loads(pickle.dumps(FileReader(file, check_data=False)))
    assert reader.check_data is False
    assert reader.read_one(5).tobytes() == records[5]


def test_threads_share_a_reader(file: Path, records: list[bytes]) -> None:
    reader = FileReader(file)

    def read(seed: int) -> bool:
        if seed % 3 == 0:
            forget_pages(file)
        wanted = random.Random(seed).choices(range(len(records)), k=20)
        return as_bytes(reader.read(wanted)) == [records[i] for i in wanted]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(200)))


# Python 3.12 and later warn of what this test is about.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_reads_with_its_parents_reader(file: Path, records: list[bytes]) -> None:
    reader = FileReader(file)
    reader.read(range(reader.n))  # threads and queues are there now
    forget_pages(file)
    reader.read(range(reader.n))
    stop = threading.Event()

    def keep_reading() -> None:  # so that locks may be held at the moment of the fork
        while not stop.is_set():
            reader.read([7, 8])

    thread = threading.Thread(target=keep_reading)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                forget_pages(file)
                os._exit(0 if as_bytes(reader.read(range(reader.n))) == records else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


def test_a_hundred_readers_at_once(file: Path, records: list[bytes]) -> None:
    """The reference fails at the seventeenth: each takes AIO events for itself."""
    readers = [FileReader(file) for _ in range(100)]
    forget_pages(file)
    for reader in readers:
        assert reader.read_one(8).tobytes() == records[8]
        forget_pages(file)


def test_on_a_file_system_in_memory(records: list[bytes]) -> None:
    if not os.path.ismount("/dev/shm"):
        pytest.skip("/dev/shm is no file system of its own here")
    path = Path(f"/dev/shm/ffrfs-test-{os.getpid()}.ffr")
    try:
        assert as_bytes(FileReader(write_records(path, records)).read(range(9))) == records
    finally:
        path.unlink(missing_ok=True)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_records_any_batch(tmp_path: Path, data: st.DataObject) -> None:
    size = st.one_of(st.sampled_from(SIZES), st.integers(0, 20_000))
    sizes = data.draw(st.lists(size, min_size=1, max_size=30))
    model = [content(i, size) for i, size in enumerate(sizes)]
    path = write_records(tmp_path / "any.ffr", model)
    wanted = data.draw(st.lists(st.integers(0, len(model) - 1), max_size=80))
    if data.draw(st.booleans()):
        forget_pages(path)
    with FileReader(path) as reader:
        assert as_bytes(reader.read(wanted)) == [model[i] for i in wanted]


class TestGolden:
    def test_plain_and_sharded(self, golden: Path) -> None:
        expected = [pickle.dumps({"i": i, "x": list(range(i % 7))}) for i in range(100)]
        for name in ("plain.ffr", "sharded"):
            reader = FileReader(golden / name)
            assert as_bytes(reader.read(range(100))) == expected
            assert reader.n == 100
            reader.validate()

    def test_packed(self, golden: Path) -> None:
        manifest = json.loads((golden / "packed.manifest.json").read_text())
        expected = sorted(digest for digest in manifest.values() if digest)
        reader = FileReader(golden / "packed.ffr")
        arrays = reader.read(range(reader.n - 1))  # the last one is the index
        assert sorted(hashlib.sha256(array).hexdigest() for array in arrays) == expected
