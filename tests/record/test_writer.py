"""FileWriter: the files that it makes of records, and what it leaves after a failure."""

from __future__ import annotations

import array
import gc
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs import FileReader, FileWriter, dump
from ffrfs.errors import RecordCountError
from tests.ffrecord_file import write_records
from tests.tiny_disk import error_on_tiny_disk

SIZES = [0, 1, 4095, 4096, 4097, 131071, 131072, 131073, (1 << 20) + 1]
TIMEOUT_S = 60


def write(path: Path, records: list[bytes]) -> None:
    with FileWriter(path, len(records)) as writer:
        for record in records:
            writer.write_one(record)


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    path = tmp_path / "x.ffr"
    path.write_bytes(b"what was there before")
    return path


def assert_untouched(old_file: Path) -> None:
    assert old_file.read_bytes() == b"what was there before"
    assert os.listdir(old_file.parent) == [old_file.name]


def test_the_bytes_follow_the_format(tmp_path: Path) -> None:
    records = [random.Random(i).randbytes(size) for i, size in enumerate(SIZES)]
    write(tmp_path / "ours.ffr", records)
    expected = write_records(tmp_path / "expected.ffr", records)
    assert (tmp_path / "ours.ffr").read_bytes() == expected.read_bytes()


def test_the_golden_file_is_reproduced(golden: Path, tmp_path: Path) -> None:
    with FileReader(golden / "plain.ffr") as reader:
        write(tmp_path / "x.ffr", [record.tobytes() for record in reader.read(range(reader.n))])
    assert (tmp_path / "x.ffr").read_bytes() == (golden / "plain.ffr").read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(st.binary(max_size=5000), max_size=40), data=st.data())
def test_written_records_are_read_back(
    tmp_path: Path, records: list[bytes], data: st.DataObject
) -> None:
    write(tmp_path / "x.ffr", records)
    with FileReader(tmp_path / "x.ffr") as reader:
        assert reader.n == len(records)
        indices = data.draw(st.lists(st.sampled_from(range(len(records))))) if records else []
        assert [r.tobytes() for r in reader.read(indices)] == [records[i] for i in indices]


@pytest.mark.parametrize(
    "data",
    [
        b"abcd",
        bytearray(b"abcd"),
        memoryview(b"xabcdx")[1:5],
        array.array("H", [0x6261, 0x6463]),
        np.frombuffer(b"abcd", np.uint8),
        np.array([[0x61, 0x62], [0x63, 0x64]], np.uint8),
    ],
    ids=lambda data: type(data).__name__,
)
def test_any_bytes_like_object_is_a_record(tmp_path: Path, data: object) -> None:
    write(tmp_path / "x.ffr", [data])  # type: ignore[list-item]
    with FileReader(tmp_path / "x.ffr") as reader:
        assert reader.read_one(0).tobytes() == b"abcd"


@pytest.mark.parametrize(
    "data", ["text", None, 5, [1, 2], np.zeros((4, 4), np.uint8)[:, ::2]], ids=str
)
def test_objects_without_a_contiguous_buffer_are_refused(old_file: Path, data: Any) -> None:
    error = (BufferError, ValueError) if isinstance(data, np.ndarray) else TypeError
    with pytest.raises(error), FileWriter(old_file, 1) as writer:
        writer.write_one(data)
    assert_untouched(old_file)


@pytest.mark.parametrize(
    "kind", [object, [("O", np.uint8), ("name", object)], [("when", "M8[s]"), ("name", object)]]
)
def test_arrays_of_objects_are_refused(old_file: Path, kind: Any) -> None:
    """Their memory holds pointers."""
    records = np.zeros(2, kind), memoryview(np.zeros(2, object))
    for record in records:
        with pytest.raises(TypeError, match="an array of Python objects"):
            dump([record], old_file, 1)
    assert_untouched(old_file)


@pytest.mark.parametrize("kind", ["M8[s]", [("O", np.uint8)]])
def test_arrays_that_look_like_object_arrays_are_written(tmp_path: Path, kind: Any) -> None:
    """Times have no buffer format, and "O" as the name of a field is no type."""
    record = np.ones(2, kind)
    write(tmp_path / "x.ffr", [record])  # type: ignore[list-item]
    with FileReader(tmp_path / "x.ffr") as reader:
        assert reader.read_one(0).tobytes() == record.tobytes()


def test_count_and_n(tmp_path: Path) -> None:
    with FileWriter(str(tmp_path / "x.ffr"), 2) as writer:
        assert (writer.n, writer.count) == (2, 0)
        writer.write_one(b"a")
        assert (writer.n, writer.count) == (2, 1)
        writer.write_one(b"b")
    assert (writer.n, writer.count) == (2, 2)


def test_one_record_too_many_is_refused_at_once(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "x.ffr", 1)
    writer.write_one(b"a")
    with pytest.raises(RecordCountError, match="more records than the 1"):
        writer.write_one(b"b")
    writer.close()
    with FileReader(tmp_path / "x.ffr") as reader:
        assert reader.n == 1


def test_one_record_too_few_leaves_no_file(old_file: Path) -> None:
    writer = FileWriter(old_file, 2)
    writer.write_one(b"a")
    with pytest.raises(RecordCountError, match="1 of the 2"):
        writer.close()
    writer.close()  # harmless
    assert_untouched(old_file)


@pytest.mark.parametrize("n", [-1, -(1 << 70), 1 << 63, 1 << 64, 1 << 70])
def test_an_impossible_number_of_records_is_refused(old_file: Path, n: int) -> None:
    with pytest.raises(RecordCountError, match=str(n)):
        FileWriter(old_file, n)
    assert_untouched(old_file)


def test_n_is_an_integer_and_fname_a_path(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        FileWriter(tmp_path / "x.ffr", 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        FileWriter(17, 1)  # type: ignore[arg-type]
    FileWriter(tmp_path / "x.ffr", np.int64(0)).close()


def test_an_exception_in_the_block_aborts(old_file: Path) -> None:
    with pytest.raises(KeyError), FileWriter(old_file, 1) as writer:
        writer.write_one(b"a")
        raise KeyError
    writer.close()  # harmless, and makes no file
    assert_untouched(old_file)


@pytest.mark.parametrize("count", [0, 1])
def test_a_writer_that_is_dropped_leaves_nothing(old_file: Path, count: int) -> None:
    writer = FileWriter(old_file, 1)
    for _ in range(count):
        writer.write_one(b"a")
    del writer
    gc.collect()
    assert_untouched(old_file)


def test_a_closed_writer_refuses_records(tmp_path: Path) -> None:
    with FileWriter(tmp_path / "x.ffr", 1) as writer:
        writer.write_one(b"a")
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write_one(b"b")


def test_a_relative_target_survives_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with FileWriter("x.ffr", 0):
        monkeypatch.chdir("elsewhere")
    assert (tmp_path / "x.ffr").exists()


@pytest.mark.parametrize(
    ("name", "error"),
    [("no/x.ffr", FileNotFoundError), (".", IsADirectoryError), ("fifo", FileExistsError)],
)
def test_an_unusable_target_is_refused(tmp_path: Path, name: str, error: type[OSError]) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(error) as caught:
        FileWriter(tmp_path / name, 1)
    assert caught.value.filename == str(tmp_path / name)
    assert os.listdir(tmp_path) == ["fifo"]


KILLED = """
import sys, time
from ffrfs import FileWriter
writer = FileWriter(sys.argv[1], 1000)
for i in range(900):
    writer.write_one(bytes(10_000))
print("written", flush=True)
time.sleep(600)
"""


def test_a_kill_leaves_the_previous_file(old_file: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(old_file)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "written\n"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(TIMEOUT_S)
    assert_untouched(old_file)


FULL_DISK = """
from ffrfs import FileWriter
with FileWriter(disk + "/x.ffr", 3) as writer:
    for i in range(3):
        writer.write_one(bytes(600_000))
"""


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    error, names = error_on_tiny_disk(disk, FULL_DISK)
    assert error == ["OSError", "cannot write: No space left on device", str(disk / "x.ffr")]
    assert names == []
