"""FileReader: the reference's API over the native core.

tests/files/test_record_reader.py tests what both readers have in common.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import zlib
from pathlib import Path

import numpy as np
import pytest

from ffrfs import FileReader
from ffrfs.errors import ChecksumError, FormatError, UnverifiedHeaderWarning
from tests.ffrecord_file import flip_byte, record_extents, write_records
from tests.interpreter import python
from tests.page_cache import forget_pages
from tests.tfrecord_file import write_tfrecord

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


def test_arrays_are_one_dimensional_and_own_their_memory(file: Path, records: list[bytes]) -> None:
    reader = FileReader(file)
    first, second, empty = reader.read([5, 5, 0])
    for array in (first, second, empty, reader[5]):
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
    """NumPy must be able to give the memory back to our pool after any change of the array."""
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


def test_offsets_and_checksums_outlive_the_reader(file: Path, records: list[bytes]) -> None:
    reader = FileReader(file)
    offsets, checksums = reader.get_offsets(0), reader.get_checksums(0)
    reader.close()
    assert offsets.tolist() == [o for o, _ in record_extents(file)] + [file.stat().st_size]
    assert checksums.tolist() == [zlib.crc32(record) for record in records]
    with pytest.raises(ValueError, match="closed"):
        reader.read([0])
    reader.close()  # a second time: harmless


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


@pytest.mark.parametrize("name", ["x.tfrecord", "x"])
def test_a_tfrecord_among_the_files(tmp_path: Path, file: Path, name: str) -> None:
    path = write_tfrecord(tmp_path / name, [b"a"])
    with pytest.raises(FormatError, match=f"^{path}: is a TFRecord file; read it with ") as caught:
        FileReader([file, path])
    assert caught.value.file == str(path)


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


def test_a_hundred_readers_at_once(file: Path, records: list[bytes]) -> None:
    """The reference fails at the seventeenth, since each of its readers reserves AIO events."""
    readers = [FileReader(file) for _ in range(100)]
    forget_pages(file)
    for reader in readers:
        assert reader.read_one(8).tobytes() == records[8]
        forget_pages(file)


def test_file_in_memory(records: list[bytes]) -> None:
    if not os.path.ismount("/dev/shm"):
        pytest.skip("/dev/shm is no file system of its own here")
    path = Path(f"/dev/shm/ffrfs-test-{os.getpid()}.ffr")
    try:
        assert as_bytes(FileReader(write_records(path, records)).read(range(9))) == records
    finally:
        path.unlink(missing_ok=True)


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
        arrays = reader.read(range(reader.n - 1))  # the last record is the index
        assert sorted(hashlib.sha256(array).hexdigest() for array in arrays) == expected


FORKS = """
import os, signal, sys, threading, time
from ffrfs import FileReader
reader = FileReader(sys.argv[1])
thread = threading.Thread(target=reader.read, args=([0],))
thread.start()
while "numpy" not in sys.modules:
    time.sleep(0.001)
child = os.fork()
if child == 0:
    signal.alarm(30)
    reader.read([1])
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_forked_during_the_first_read_of_a_thread_reads(file: Path) -> None:
    assert python("-c", FORKS, file).returncode == 0
