"""RecordDataset's threads end, their errors are raised, and a fork's child has its own threads."""

from __future__ import annotations

import array
import contextlib
import fcntl
import multiprocessing
import os
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ffrfs.errors import ChecksumError, FormatError, TruncatedError
from ffrfs.tfrecord import FixedLenFeature, RecordDataset, from_dict, parse_single_example
from ffrfs.tfrecord.dataset.read_ahead import THREAD_NAME
from ffrfs.tfrecord.dataset.record_dataset import RecordDatasetIterator
from tests.tfrecord_file import framed, write_tfrecord

COUNT = 50
TIMEOUT_S = 60


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    return [
        write_tfrecord(tmp_path / f"{file}.tfrecord", [b"%d" % n * 1000 for n in range(COUNT)])
        for file in range(4)
    ]


def threads() -> int:
    return sum(thread.name == THREAD_NAME for thread in threading.enumerate())


def wait_for_threads(count: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while threads() != count:
        assert time.monotonic() < deadline, f"{threads()} threads are left"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    wait_for_threads(0)
    yield
    wait_for_threads(0)


def dataset(files: list[Path]) -> RecordDataset:
    return RecordDataset(files, num_parallel_reads=3).shuffle(5).map(len).batch(2).prefetch(2)


def test_threads_end_with_the_last_element(files: list[Path]) -> None:
    assert sum(map(len, list(dataset(files)))) == 4 * COUNT


def test_threads_end_at_close(files: list[Path]) -> None:
    iterator = iter(dataset(files).repeat().prefetch(1))
    next(iterator)
    assert threads() > 0
    iterator.close()
    assert threads() == 0
    with pytest.raises(ValueError, match="closed"):
        next(iterator)
    iterator.close()


def test_threads_end_when_the_iterator_is_dropped(files: list[Path]) -> None:
    iterator = iter(dataset(files).repeat().prefetch(1))
    next(iterator)
    assert threads() > 0
    del iterator
    wait_for_threads(0)


@pytest.mark.parametrize("end", [list, RecordDatasetIterator.close])
def test_the_end_does_not_wait_for_bytes_of_a_pipe(
    tmp_path: Path, end: Callable[[RecordDatasetIterator], object]
) -> None:
    os.mkfifo(tmp_path / "x")
    pipe = os.open(tmp_path / "x", os.O_RDWR)
    late = threading.Event()

    def free() -> None:
        late.set()
        os.write(pipe, b"x" * 20)

    emergency = threading.Timer(TIMEOUT_S, free)
    emergency.start()
    try:
        os.write(pipe, framed([b"a record"]))
        iterator = iter(RecordDataset(tmp_path / "x").take(1))
        assert next(iterator) == b"a record"
        os.write(pipe, b"a part")
        held = array.array("i", [1])
        while held[0]:  # until the thread reads ahead
            fcntl.ioctl(pipe, termios.FIONREAD, held)
        end(iterator)
        assert not late.is_set()
    finally:
        emergency.cancel()
        os.close(pipe)


def test_reading_ahead_has_a_limit(files: list[Path]) -> None:
    made: list[int] = []
    enough = threading.Event()

    def note(record: bytes) -> int:
        made.append(len(record))
        if len(made) == 4:
            enough.set()
        return len(record)

    with contextlib.closing(iter(RecordDataset(files).map(note).prefetch(3))) as iterator:
        next(iterator)
        assert enough.wait(TIMEOUT_S)  # one was given, three are ahead
        for given in range(1, 20):
            assert len(made) <= given + 3
            next(iterator)


def in_child(iterator: Any, data: RecordDataset, pipe: Any) -> None:
    try:
        next(iterator)
    except RuntimeError as error:
        pipe.send(str(error))
    iterator.close()
    del iterator
    pipe.send(len(list(data)))
    pipe.send(threads())


# Python 3.12 and later warn of a fork beside threads, which is the subject of this test.
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_must_begin_its_own_iterator(files: list[Path]) -> None:
    context = multiprocessing.get_context("fork")
    data = dataset(files)
    iterator = iter(data)
    next(iterator)
    ours, theirs = context.Pipe()
    child = context.Process(target=in_child, args=(iterator, data, theirs))
    child.start()
    try:
        answers = []
        for _ in range(3):
            assert ours.poll(TIMEOUT_S)
            answers.append(ours.recv())
        child.join(TIMEOUT_S)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()
    assert "another process" in answers[0]
    assert answers[1:] == [2 * COUNT, 0]
    assert len(list(iterator)) == 2 * COUNT - 1


@pytest.mark.parametrize("ahead", [False, True])
def test_a_damaged_record_is_named_and_ends_the_iterator(files: list[Path], ahead: bool) -> None:
    data = bytearray(files[1].read_bytes())
    data[data.index(b"7777")] ^= 1
    files[1].write_bytes(data)
    records = RecordDataset(files)
    iterator = iter(records.prefetch(100) if ahead else records)
    good = [next(iterator) for _ in range(COUNT + 7)]
    assert good[-1] == b"6" * 1000
    for _ in range(2):  # the iterator does not go on after an error
        with pytest.raises(ChecksumError, match=r"1\.tfrecord: record 7"):
            next(iterator)
    with pytest.raises(ChecksumError):
        iterator.state_dict()
    iterator.close()
    assert len(list(RecordDataset(files, on_error="skip"))) == 4 * COUNT - 1
    assert len(list(RecordDataset(files, check_data=False))) == 4 * COUNT


def test_a_file_that_is_cut_off_or_missing(files: list[Path]) -> None:
    files[2].write_bytes(files[2].read_bytes()[:-1])
    with pytest.raises(TruncatedError, match=r"2\.tfrecord: record 49"):
        list(RecordDataset(files))
    files[0].unlink()
    with pytest.raises(FileNotFoundError) as raised:
        list(RecordDataset(files, num_parallel_reads=2))
    assert raised.value.filename == str(files[0])


def test_an_error_of_map_names_file_and_record(tmp_path: Path) -> None:
    examples = [bytes(from_dict({"n": n}).SerializeToString()) for n in range(3)]
    path = write_tfrecord(tmp_path / "x.tfrecord", [*examples, b"\xff" * 9])
    features = {"n": FixedLenFeature((), "int64")}
    data = (
        RecordDataset([path])
        .shuffle(2, seed=1)
        .map(lambda record: parse_single_example(record, features))
    )
    with pytest.raises(FormatError, match=r"x\.tfrecord: record 3: ") as raised:
        list(data)
    assert raised.value.record == 3

    def refuse(number: Any) -> None:
        raise KeyError(number)

    with pytest.raises(KeyError) as other:
        list(RecordDataset([path]).skip(1).map(refuse))
    assert other.value.__notes__ == [f"{path}: record 1"]
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(RecordDataset([path]).map(lambda _: next(iter(()))))
    data = bytearray(path.read_bytes())
    data[12] ^= 1  # in record 0
    path.write_bytes(data)
    with pytest.raises(KeyError) as behind:
        list(RecordDataset([path], on_error="skip").skip(1).map(refuse))
    assert behind.value.__notes__ == [f"{path}: record 2"]


ENDS = """
import sys
from ffrfs.tfrecord import RecordDataset
iterators = [iter(RecordDataset(sys.argv[1:], num_parallel_reads=3)) for _ in range(20)]
print([next(each) for each in iterators] == [b"0" * 1000] * 20, flush=True)
"""


def test_a_program_may_end_while_threads_read_ahead(files: list[Path]) -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", ENDS, *files],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
