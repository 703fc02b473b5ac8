"""TFRecordWriter: the bytes that it writes, when they can be read, and how it ends."""

from __future__ import annotations

import array
import json
import os
import signal
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

from ffrfs.errors import TruncatedError
from ffrfs.tfrecord import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
from tests.tfrecord_file import framed
from tests.tfrecord_package import the_package_tfrecord
from tests.tiny_disk import run_on_tiny_disk

KINDS = ["", "GZIP", "ZLIB"]
SIZES = [0, 1, 15, 16, 4096, (1 << 18) + 1, (1 << 20) - 16, 1 << 20, (3 << 20) + 5]


def write(path: Path, records: list[bytes], options: object = None) -> Path:
    with TFRecordWriter(path, options) as writer:
        for record in records:
            writer.write(record)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_records_of_any_size(tmp_path: Path, kind: str) -> None:
    records = [np.random.default_rng(size).bytes(size) for size in SIZES]
    path = write(tmp_path / "x", records, kind)
    if not kind:
        assert path.read_bytes() == framed(records)
    assert list(tf_record_iterator(path, kind)) == records


def test_the_package_tfrecord_reads_it(tmp_path: Path) -> None:
    tfrecord_iterator = the_package_tfrecord().reader.tfrecord_iterator
    records = [np.random.default_rng(size).bytes(size) for size in SIZES[:6]]
    for kind, theirs in (("", None), ("GZIP", "gzip")):
        path = write(tmp_path / "x", records, kind)
        found = tfrecord_iterator(str(path), compression_type=theirs)
        assert [bytes(record) for record in found] == records


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        (None, b"\x03\0\0"),
        ("", b"\x03\0\0"),
        (TFRecordOptions(), b"\x03\0\0"),
        (TFRecordOptions("", compression_level=9), b"\x03\0\0"),
        (TFRecordCompressionType.NONE, b"\x03\0\0"),
        ("GZIP", b"\x1f\x8b\x08"),
        (TFRecordCompressionType.GZIP, b"\x1f\x8b\x08"),
        (TFRecordOptions("GZIP"), b"\x1f\x8b\x08"),
        ("ZLIB", b"\x78\x9c"),
        (TFRecordOptions(TFRecordCompressionType.ZLIB), b"\x78\x9c"),
        (TFRecordOptions("ZLIB", compression_level=9), b"\x78\xda"),
    ],
    ids=repr,
)
def test_options(tmp_path: Path, options: object, begins: bytes) -> None:
    path = write(tmp_path / "x", [b"abc"], options)
    assert path.read_bytes().startswith(begins)
    assert list(tf_record_iterator(path)) == [b"abc"]


def test_a_wrong_option_does_not_touch_the_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"before")
    with pytest.raises(ValueError, match="compression_type"):
        TFRecordWriter(tmp_path / "x", "BZIP2")
    assert (tmp_path / "x").read_bytes() == b"before"


def test_any_contiguous_buffer_is_a_record(tmp_path: Path) -> None:
    floats = np.arange(12, dtype=np.float32).reshape(3, 4)
    buffers = [
        bytearray(b"abc"),
        memoryview(b"abcdef")[2:4],
        array.array("H", [1, 2]),
        floats,
        np.zeros((0, 3)),
        memoryview(floats),
    ]
    for kind in KINDS:
        write(tmp_path / "x", buffers, kind)
        found = list(tf_record_iterator(tmp_path / "x"))
        assert found == [memoryview(buffer).tobytes() for buffer in buffers]


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_record_writes_nothing(tmp_path: Path, kind: str) -> None:
    with TFRecordWriter(tmp_path / "x", kind) as writer:
        writer.write(b"before")
        for wrong in (5, None, [b"x"], np.zeros(2, object), np.zeros(1 << 20, [("o", object)])):
            with pytest.raises(TypeError):
                writer.write(wrong)
        with pytest.raises(ValueError, match="contiguous"):
            writer.write(np.arange(10)[::2])
        writer.write(b"after")
    assert list(tf_record_iterator(tmp_path / "x")) == [b"before", b"after"]


@pytest.mark.parametrize("kind", KINDS)
def test_flushed_records_can_be_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    writer = TFRecordWriter(path, kind)
    assert path.read_bytes() == b""
    for number in range(1, 4):
        writer.write(b"record %d" % number)
        unflushed = list(tf_record_iterator(path, kind, on_error="stop"))
        assert len(unflushed) == number - 1
        writer.flush()
        assert list(tf_record_iterator(path, kind, on_error="stop"))[-1] == b"record %d" % number
    if kind:
        with pytest.raises(TruncatedError, match="still being written"):
            list(tf_record_iterator(path))
    writer.close()
    assert len(list(tf_record_iterator(path))) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_no_records(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / "x", [], kind)
    assert list(tf_record_iterator(path)) == []
    assert list(tf_record_iterator(path, kind)) == []
    if kind == "ZLIB":
        assert zlib.decompress(path.read_bytes()) == b""


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_writer_refuses_records(tmp_path: Path, kind: str) -> None:
    writer = TFRecordWriter(tmp_path / "x", kind)
    writer.write(b"abc")
    writer.close()
    writer.close()
    written = (tmp_path / "x").read_bytes()
    with pytest.raises(ValueError, match="x: the writer is closed"):
        writer.write(b"more")
    with pytest.raises(ValueError, match="x: the writer is closed"):
        writer.flush()
    del writer
    assert (tmp_path / "x").read_bytes() == written


@pytest.mark.parametrize("kind", KINDS)
def test_records_written_before_an_exception_are_kept(tmp_path: Path, kind: str) -> None:
    def fail() -> None:
        with TFRecordWriter(tmp_path / "x", kind) as writer:
            writer.write(b"abc")
            raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        fail()
    assert list(tf_record_iterator(tmp_path / "x", kind)) == [b"abc"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_that_is_dropped_is_closed(tmp_path: Path, kind: str) -> None:
    writer = TFRecordWriter(tmp_path / "x", kind)
    writer.write(b"abc")
    del writer
    assert list(tf_record_iterator(tmp_path / "x", kind)) == [b"abc"]


def test_an_existing_file_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "x", [bytes(1000)])
    write(tmp_path / "x", [b"abc"])
    assert (tmp_path / "x").read_bytes() == framed([b"abc"])


def test_an_impossible_target(tmp_path: Path) -> None:
    for path, error in ((tmp_path / "no" / "x", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(error) as caught:
            TFRecordWriter(path)
        assert caught.value.filename == str(path)


def test_threads_take_turns(tmp_path: Path) -> None:
    with TFRecordWriter(tmp_path / "x") as writer:

        def work(number: int) -> None:
            for size in range(200):
                writer.write(bytes([number]) * size * 300)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = sorted(tf_record_iterator(tmp_path / "x"))
    assert found == sorted(bytes([n]) * size * 300 for n in range(4) for size in range(200))


FULL_DISK = """
import json, os, sys
from ffrfs.tfrecord import TFRecordWriter, tf_record_iterator
path = sys.argv[1] + "/x"
error = None
try:
    with TFRecordWriter(path, sys.argv[2]) as writer:
        for number in range(40):
            writer.write(os.urandom(100_000))
except OSError as failure:
    error = [type(failure).__name__, failure.strerror, failure.filename]
print(json.dumps(error))
try:
    writer.write(b"more")
except ValueError as failure:
    print(json.dumps(str(failure)))
print(sum(1 for _ in tf_record_iterator(path, sys.argv[2], on_error="stop")))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk(tmp_path: Path, kind: str) -> None:
    disk = tmp_path / "disk"
    error, closed, count = map(json.loads, run_on_tiny_disk(disk, FULL_DISK, kind))
    path = os.path.join(disk, "x")
    assert error == ["OSError", "cannot write: No space left on device", path]
    assert closed == f"{path}: the writer is closed"
    assert count in (9, 10)  # records of 100,000 bytes in a MiB


CHILD = """
import os, sys
from ffrfs.tfrecord import TFRecordWriter
writer = TFRecordWriter(sys.argv[1], sys.argv[2])
writer.write(b"one")
if os.fork() == 0:
    sys.exit()
os.wait()
writer.write(b"two")
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_does_not_write_its_parents_buffer(tmp_path: Path, kind: str) -> None:
    subprocess.run([sys.executable, "-c", CHILD, str(tmp_path / "x"), kind], check=True)
    assert list(tf_record_iterator(tmp_path / "x", kind)) == [b"one", b"two"]


INTERRUPTED = """
import signal, sys
from ffrfs.tfrecord import TFRecordWriter
def stop(*_):
    global is_armed
    if is_armed:
        is_armed = False
        raise KeyboardInterrupt
is_armed = False
signal.signal(signal.SIGUSR1, stop)
writer = TFRecordWriter(sys.argv[1], sys.argv[2])
count = 0
while True:
    try:
        is_armed = True
        while count < 400:
            number, count = count, count + 1
            writer.write(number.to_bytes(4, "big") * (100_000 if number % 9 == 0 else 10_000))
        writer.close()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        break
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("kind", KINDS)
def test_signals_whose_handlers_raise_leave_no_part_of_a_record(tmp_path: Path, kind: str) -> None:
    """The file is a pipe, which takes only a part of most writes."""
    os.mkfifo(tmp_path / "x")
    program = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "x"), kind]
    with (
        subprocess.Popen(program, stdout=subprocess.PIPE) as process,
        open(tmp_path / "x", "rb", buffering=0) as pipe,
        open(tmp_path / "y", "wb") as copy,
    ):
        while data := pipe.read(2000 if kind else 20_000):
            copy.write(data)
            process.send_signal(signal.SIGUSR1)
        printed = process.communicate(timeout=60)[0]
    assert (process.returncode, printed[:11]) == (0, b"interrupted")
    found = list(tf_record_iterator(tmp_path / "y", kind))
    numbers = [int.from_bytes(record[:4], "big") for record in found]
    assert numbers == sorted(set(numbers))
    assert found == [n.to_bytes(4, "big") * (100_000 if n % 9 == 0 else 10_000) for n in numbers]


BUSY = """
import array, fcntl, os, signal, sys, termios, threading, time
from ffrfs.tfrecord import TFRecordWriter
os.mkfifo(sys.argv[1])
pipe = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
writer = TFRecordWriter(sys.argv[1])
record = b"x" * 400_000
def wait_for_a_full_pipe():
    held = array.array("i", [0])
    while held[0] < 65_536:
        fcntl.ioctl(pipe, termios.FIONREAD, held)
        time.sleep(0.01)
def run(work, *arguments):
    threading.Thread(target=work, args=arguments, daemon=True).start()
signal.alarm(60)
"""
CALLED_BY_A_HANDLER = """
signal.signal(signal.SIGTERM, lambda *_: writer.close())
def interrupt():
    wait_for_a_full_pipe()
    os.kill(os.getpid(), signal.SIGTERM)
run(interrupt)
try:
    writer.write(record)
except RuntimeError as error:
    print(error)
def drain():
    os.set_blocking(pipe, True)
    while os.read(pipe, 65_536):
        pass
run(drain)
writer.close()
"""
CALLED_BY_A_CHILD = """
run(writer.write, record)
wait_for_a_full_pipe()
child = os.fork()
if child == 0:
    signal.alarm(60)
    writer.close()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (CALLED_BY_A_HANDLER, "x: a signal's handler uses a writer that is in use\n"),
        (CALLED_BY_A_CHILD, "7\n"),
    ],
    ids=["handler", "child"],
)
def test_signal_handlers_and_children_do_not_wait_for_a_write(
    tmp_path: Path, program: str, printed: str
) -> None:
    command = [sys.executable, "-c", BUSY + program, str(tmp_path / "x")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.removeprefix(f"{tmp_path}/") == printed


AT_THE_END = """
run(writer.write, record)
wait_for_a_full_pipe()
main, code = threading.main_thread().ident, TFRecordWriter.write.__code__
def tell():
    while sys._current_frames()[main].f_code.co_filename != code.co_filename:
        time.sleep(0.01)
    print("closing", flush=True)
run(tell)
"""


def test_the_end_of_the_program_waits_for_a_thread_that_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUSY + AT_THE_END, str(tmp_path / "x")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"closing\n"
        written = (tmp_path / "x").read_bytes()
    assert (process.returncode, written == framed([b"x" * 400_000])) == (0, True)
