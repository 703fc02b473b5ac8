"""tf_record_iterator: the files that it takes, and bad records."""

from __future__ import annotations

import _weakrefset
import gc
import gzip
import itertools
import os
import select
import sys
import threading
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs._native import TFRecordScan
from ffrfs.errors import ChecksumError, FormatError, TruncatedError
from ffrfs.tfrecord import (
    RecordDataset,
    TFRecordOptions,
    TFRecordWriter,
    iterator,
    stream_scan,
    tf_record_iterator,
)
from ffrfs.tfrecord.options import OptionsLike
from ffrfs.tfrecord.stream_scan import StreamScan
from tests.interruption import Interruption
from tests.tfrecord_file import flip_record, frame, framed, tfrecord_extents, write_tfrecord

SMALL = [b"abc", b"", b"the third record", b"z"]
# How a file holds its framed records.
WRAP = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "small.tfrecord", SMALL)


@given(
    records=st.lists(st.binary(max_size=300), max_size=20),
    kind=st.sampled_from(["", "GZIP", "ZLIB"]),
    given_as=st.sampled_from([None, str, TFRecordOptions]),
    check_data=st.booleans(),
)
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[bytes],
    kind: str,
    given_as: Callable[[str], OptionsLike] | None,
    check_data: bool,
) -> None:
    path = tmp_path_factory.mktemp("iterator") / "x"
    with TFRecordWriter(path, kind) as writer:
        for record in records:
            writer.write(record)
    options = None if given_as is None else given_as(kind)
    assert list(tf_record_iterator(path, options, check_data=check_data)) == records


def test_wrong_arguments(small: Path) -> None:
    with pytest.raises(ValueError, match="not a valid compression_type"):
        tf_record_iterator(small, "BZIP2")
    with pytest.raises(ValueError, match="on_error"):
        tf_record_iterator(small, on_error="ignore")


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    for path, error in ((tmp_path / "none", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(error) as caught:
            tf_record_iterator(path)
        assert caught.value.filename == str(path)


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_every_flipped_byte(tmp_path: Path, kind: str) -> None:
    """The byte is in a record; the compression around it is sound."""
    path, data = tmp_path / "x", framed(SMALL)
    for number, (begin, size) in enumerate(tfrecord_extents(data)):
        before, after = SMALL[:number], SMALL[number + 1 :]
        for offset in range(begin, begin + size):
            spoilt = bytearray(data)
            spoilt[offset] ^= 0xFF
            path.write_bytes(WRAP[kind](spoilt))
            is_length = offset < begin + 12

            stopping = tf_record_iterator(path, kind, on_error="stop")
            assert list(stopping) == before
            assert stopping.skipped == 0

            raising = tf_record_iterator(path, kind)
            assert [next(raising) for _ in before] == before
            for _ in range(2 if is_length else 1):
                with pytest.raises(FormatError if is_length else ChecksumError):
                    next(raising)
            if not is_length:
                assert list(raising) == after

            skipping = tf_record_iterator(path, kind, on_error="skip")
            if is_length:
                assert [next(skipping) for _ in before] == before
                with pytest.raises(FormatError, match=f"record {number} "):
                    next(skipping)
                assert skipping.skipped == 0
            else:
                assert list(skipping) == before + after
                assert skipping.skipped == 1


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_every_length_of_a_truncated_file(tmp_path: Path, kind: str) -> None:
    path, data = tmp_path / "x", framed(SMALL)
    ends = [begin + size for begin, size in tfrecord_extents(data)]
    for end in range(1, len(data)):
        path.write_bytes(WRAP[kind](data[:end]))
        whole = SMALL[: sum(full <= end for full in ends)]
        is_cut = end not in ends

        raising = tf_record_iterator(path, kind)
        assert [next(raising) for _ in whole] == whole
        with pytest.raises(TruncatedError if is_cut else StopIteration):
            next(raising)
        assert list(tf_record_iterator(path, kind, on_error="stop")) == whole
        skipping = tf_record_iterator(path, kind, on_error="skip")
        assert list(skipping) == whole
        assert skipping.skipped == is_cut


def test_a_truncated_compressed_file(tmp_path: Path) -> None:
    data = gzip.compress(framed(SMALL))
    (tmp_path / "x").write_bytes(data[:-1])
    skipping = tf_record_iterator(tmp_path / "x", on_error="skip")
    assert list(skipping) == SMALL
    assert skipping.skipped == 1
    assert list(tf_record_iterator(tmp_path / "x", on_error="stop")) == SMALL
    with pytest.raises(TruncatedError, match=r"record 4 \(offset 84 of the uncompressed data\): "):
        list(tf_record_iterator(tmp_path / "x"))


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_a_function_replaces_bad_records(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    write_tfrecord(path, [b"a", b"b", b"c", b"d"])
    flip_record(path, 1)
    content = path.read_bytes()[:-1]
    path.write_bytes(gzip.compress(content) if kind else content)
    told: list[tuple[type[Exception], int]] = []

    def named(error: Exception, number: int) -> bytes:
        told.append((type(error), number))
        return b"%d" % number

    records = tf_record_iterator(path, kind, on_error=named)
    assert list(records) == [b"a", b"1", b"c", b"3"]
    assert told == [(ChecksumError, 1), (TruncatedError, 3)]
    assert records.skipped == 2
    assert list(tf_record_iterator(path, kind, on_error=lambda *_: None)) == [b"a", b"c"]


def test_a_function_that_raises_stop_iteration_does_not_end_the_file(tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x", SMALL)
    flip_record(tmp_path / "x", 1)
    replacements = iter(())
    for records in (tf_record_iterator, RecordDataset):
        with pytest.raises(RuntimeError, match="on_error raised StopIteration"):
            list(records(tmp_path / "x", on_error=lambda *_: next(replacements)))


def test_corrupt_compressed_data_cannot_be_skipped(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(framed(SMALL)))
    data[-5] ^= 1  # gzip's own checksum
    (tmp_path / "x").write_bytes(data)
    skipping = tf_record_iterator(tmp_path / "x", on_error="skip")
    assert [next(skipping) for _ in SMALL] == SMALL
    with pytest.raises(FormatError, match="the GZIP stream is corrupt: incorrect data check"):
        next(skipping)
    assert list(tf_record_iterator(tmp_path / "x", on_error="stop")) == SMALL


def test_many_bad_records_are_counted(tmp_path: Path) -> None:
    bad = bytearray(frame(b"bad"))
    bad[-1] ^= 1
    (tmp_path / "x").write_bytes((bytes(bad) + frame(b"good")) * 1000 + bytes(bad))
    records = tf_record_iterator(tmp_path / "x", on_error="skip")
    assert list(records) == [b"good"] * 1000
    assert records.skipped == 1001


def test_reading_without_verification(tmp_path: Path) -> None:
    data = bytearray(framed(SMALL))
    data[-1] ^= 1
    (tmp_path / "x").write_bytes(data)
    assert list(tf_record_iterator(tmp_path / "x", "", check_data=False)) == SMALL
    (tmp_path / "x").write_bytes(zlib.compress(data))
    assert list(tf_record_iterator(tmp_path / "x", check_data=False)) == SMALL


def test_the_native_scan_reads_plain_files(small: Path, tmp_path: Path) -> None:
    assert type(tf_record_iterator(small)._scan) is TFRecordScan
    (tmp_path / "x").write_bytes(gzip.compress(framed(SMALL)))
    assert type(tf_record_iterator(tmp_path / "x")._scan) is StreamScan


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
def test_a_pipe(tmp_path: Path, kind: str, told: bool) -> None:
    """Each record comes out as soon as it goes in; the first bytes show the compression."""
    os.mkfifo(tmp_path / "pipe")
    was_read = threading.Semaphore(0)

    def write() -> None:
        with TFRecordWriter(tmp_path / "pipe", kind) as writer:
            for record in SMALL:
                writer.write(record)
                writer.flush()
                assert was_read.acquire(timeout=30)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        found = []
        for record in tf_record_iterator(tmp_path / "pipe", kind if told else None):
            found.append(record)
            was_read.release()
    finally:
        was_read.release(len(SMALL))
        thread.join()
    assert found == SMALL


def test_a_pipe_whose_first_bytes_come_one_by_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        with open(tmp_path / "pipe", "wb", buffering=0) as pipe:
            for byte in framed(SMALL):
                pipe.write(bytes([byte]))

    thread = threading.Thread(target=write)
    thread.start()
    assert list(tf_record_iterator(tmp_path / "pipe")) == SMALL
    thread.join()


def test_closed_at_the_end_and_by_with(small: Path) -> None:
    records = tf_record_iterator(small)
    assert iter(records) is records
    assert list(records) == SMALL
    assert list(records) == []
    records.close()
    assert list(records) == []
    with tf_record_iterator(small) as records:
        assert next(records) == SMALL[0]
    records.close()
    with pytest.raises(ValueError, match="closed"):
        next(records)


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_an_interrupted_iterator_loses_no_record_silently(tmp_path: Path, kind: str) -> None:
    """Wherever it is interrupted, the iterator goes on with the next record, or not at all."""
    (tmp_path / "x").write_bytes(WRAP[kind](framed(SMALL)))
    ends = {"refused": 0, "whole": 0}
    for step in itertools.count():
        records, found = tf_record_iterator(tmp_path / "x"), list[bytes]()
        try:
            with Interruption(step, iterator, stream_scan):
                for record in records:
                    found.append(record)
            break
        except KeyboardInterrupt:
            pass
        try:
            found.extend(records)
        except RuntimeError as error:
            assert str(error) == "KeyboardInterrupt has interrupted the iterator"
            with pytest.raises(RuntimeError):
                records.next_batch()
            ends["refused"] += 1
        else:
            assert found == SMALL
            ends["whole"] += 1
    assert min(ends.values()) > 0


@pytest.mark.parametrize("make", [tf_record_iterator, TFRecordWriter, RecordDataset])
def test_ctrl_c_is_not_lost_while_a_closed_object_is_dropped(
    small: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Any]
) -> None:
    """Python prints an exception that is raised in a finalizer, and goes on."""
    lost: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    opened = iter(RecordDataset(small)) if make is RecordDataset else make(small)
    if make is not TFRecordWriter:
        next(opened)
    opened.close()
    # The threads of a data set are in a WeakSet of Python's own.
    modules = [weakref] if make is RecordDataset else [weakref, _weakrefset]
    with Interruption(0, *modules):
        del opened
    assert lost == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_an_iterator_that_is_dropped_closes_its_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "x").write_bytes(WRAP[kind](framed(SMALL)))

    def opened_count() -> int:
        names = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        return sum(os.path.realpath(name) == str(tmp_path / "x") for name in names)

    records = tf_record_iterator(tmp_path / "x")
    next(records)
    assert opened_count() > 0
    gone = weakref.ref(records)
    del records
    gc.collect()
    assert gone() is None
    assert opened_count() == 0


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_nonblocking_standard_input(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Another program may have made standard input non-blocking."""
    data = WRAP[kind](framed(SMALL))
    pieces = [data[:5], data[5:30], data[30:]]
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def waits(*files: list[Any]) -> None:
        if pieces:
            os.write(writing, pieces.pop(0))
        else:
            os.close(writing)
        select.select(*files)

    monkeypatch.setattr(iterator, "select", SimpleNamespace(select=waits))
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        assert list(iterator.standard_input_iterator()) == SMALL
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reading)
