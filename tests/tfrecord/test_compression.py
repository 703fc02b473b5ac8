"""Compressed files are recognised, and read in bounded memory; errors tell cut off from corrupt."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.errors import FormatError, TruncatedError
from ffrfs.tfrecord import TFRecordOptions, TFRecordWriter, tf_record_iterator
from ffrfs.tfrecord.compression import DecompressedStream, recognise
from ffrfs.tfrecord.stream_scan import RECORD_LIMIT
from tests.tfrecord_file import frame, framed, write_tfrecord

KINDS = ["GZIP", "ZLIB"]
COMPRESS = {"GZIP": gzip.compress, "ZLIB": zlib.compress}


def read_stream(data: bytes, kind: str, size: int = 1000) -> bytes:
    stream = DecompressedStream(io.BytesIO(data), kind)
    pieces = []
    while piece := stream.read(size):
        assert len(piece) <= size
        pieces.append(piece)
    assert stream.read(size) == b""
    return b"".join(pieces)


@pytest.mark.parametrize(
    ("begin", "kind"),
    [
        (b"", ""),
        (frame(b""), ""),
        (frame(b"x" * 0x1F8B), ""),
        # Lengths whose first bytes are gzip's magic, and zlib's header.
        (frame(b"", length=0x088B1F), ""),
        (frame(b"", length=0x0178), ""),
        (frame(b"", length=0x9C78), ""),
        # The same with a corrupt checksum: the bytes after it do not decompress.
        (frame(b"x" * 50, length=0x9C78)[:8] + b"1234" + b"x" * 50, ""),
        (frame(b"x" * 50, length=0x0178)[:8] + b"1234" + b"x" * 50, ""),
        # mtime=0: every process that collects the tests must give them the same names.
        (gzip.compress(b"", mtime=0), "GZIP"),
        (gzip.compress(frame(b"x" * 100), mtime=0), "GZIP"),
        (b"\x1f\x8b\x08", "GZIP"),
        (b"\x1f", ""),
        (b"\x78", ""),
        (b"no such file at all", ""),
        *((zlib.compress(frame(b"x" * 100), level), "ZLIB") for level in range(10)),
        (zlib.compress(b""), "ZLIB"),
    ],
)
def test_compression_is_recognised_by_the_first_bytes(begin: bytes, kind: str) -> None:
    assert recognise(begin) == kind
    assert recognise(begin[:4096]) == kind


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=5), st.sampled_from(["", *KINDS]))
def test_compression_of_any_file_is_recognised(records: list[bytes], kind: str) -> None:
    data = framed(records)
    assert recognise(COMPRESS[kind](data) if kind else data) == kind


@pytest.mark.parametrize("size", [1, 10, 1 << 20])
@pytest.mark.parametrize("kind", KINDS)
def test_several_members_are_one_stream(kind: str, size: int) -> None:
    parts = [b"one", b"", bytes(10_000), b"four"]
    data = b"".join(map(COMPRESS[kind], parts))
    assert read_stream(data, kind, size) == b"".join(parts)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_file_is_no_error(kind: str, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert list(tf_record_iterator(tmp_path / "x", kind)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_length_of_a_truncated_stream(kind: str) -> None:
    data = COMPRESS[kind](framed([b"abc", b"def" * 30]))
    for end in range(1, len(data)):
        with pytest.raises(TruncatedError, match="has no end; it was cut off or is still being"):
            read_stream(data[:end], kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_byte_is_noticed(tmp_path: Path, kind: str) -> None:
    """The stream's checksums or the records' notice it, and the records before it are sound."""
    records = [b"abc", b"def" * 30]
    data = COMPRESS[kind](framed(records))
    # gzip's time stamp, flags and origin say nothing about the bytes.
    for offset in range(10 if kind == "GZIP" else 0, len(data)):
        spoilt = bytearray(data)
        spoilt[offset] ^= 0xFF
        (tmp_path / "x").write_bytes(spoilt)
        found = []
        with pytest.raises((FormatError, ValueError), match="record"):
            for record in tf_record_iterator(tmp_path / "x", kind):
                found.append(record)
        assert found == records[: len(found)]


@pytest.mark.parametrize("kind", KINDS)
def test_records_before_a_corrupt_place_are_read(tmp_path: Path, kind: str) -> None:
    records = [random.Random(number).randbytes(1000) for number in range(100)]
    data = bytearray(COMPRESS[kind](framed(records)))
    data[-1] ^= 1  # the length (GZIP) or the checksum (ZLIB) of all bytes
    (tmp_path / "x").write_bytes(data)
    found = []
    with pytest.raises(FormatError, match=f"record 100 .*the {kind} stream is corrupt: incorrect"):
        for record in tf_record_iterator(tmp_path / "x"):
            found.append(record)
    assert found == records


def test_any_read_size_gives_all_bytes_before_a_corrupt_place() -> None:
    """A read may end within bytes that repeat others; zlib holds the rest of them for the next."""
    # The stream has runs of some hundred equal bytes; a bit of its eighth byte is wrong.
    data = bytes.fromhex("78da6364621e05e360148c82210218011f520e15")
    whole = sound_bytes(data, 1 << 18)
    assert len(whole) == 261
    for size in range(1, len(whole)):
        assert sound_bytes(data, size) == whole, size


def sound_bytes(data: bytes, size: int) -> bytes:
    stream, found = DecompressedStream(io.BytesIO(data), "ZLIB"), b""
    with contextlib.suppress(FormatError, TruncatedError):
        while piece := stream.read(size):
            found += piece
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_after_the_end_of_a_stream_are_an_error(tmp_path: Path, kind: str) -> None:
    (tmp_path / "x").write_bytes(COMPRESS[kind](framed([b"abc"])) + b"more of it")
    with tf_record_iterator(tmp_path / "x") as records:
        assert next(records) == b"abc"
        for _ in range(2):
            with pytest.raises(FormatError, match=r"record 1 \(offset 19 of the uncompressed data"):
                next(records)


def test_a_file_of_another_compression(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "plain", [b"abc"])
    with pytest.raises(FormatError, match="the GZIP stream is corrupt: incorrect header check"):
        list(tf_record_iterator(path, "GZIP"))
    (tmp_path / "gzip").write_bytes(gzip.compress(framed([b"abc"])))
    with pytest.raises(FormatError, match="the ZLIB stream is corrupt"):
        list(tf_record_iterator(tmp_path / "gzip", "ZLIB"))
    with pytest.raises(FormatError, match="corrupt length"):
        list(tf_record_iterator(tmp_path / "gzip", ""))


@pytest.mark.parametrize("length", [RECORD_LIMIT, RECORD_LIMIT + 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("check_data", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_declared_length_allocates_nothing(
    tmp_path: Path, kind: str, check_data: bool, length: int
) -> None:
    (tmp_path / "x").write_bytes(COMPRESS[kind](frame(b"abc", length=length)))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="record 0"):
            list(tf_record_iterator(tmp_path / "x", check_data=check_data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_stream_is_read_in_bounded_memory(tmp_path: Path, kind: str) -> None:
    """64 MiB of records come out of a file below 1 MiB."""
    with TFRecordWriter(tmp_path / "x", TFRecordOptions(kind, compression_level=1)) as writer:
        for _ in range(1024):
            writer.write(bytes(1 << 16))
    assert os.path.getsize(tmp_path / "x") < 1 << 20
    tracemalloc.start()
    try:
        assert sum(len(record) for record in tf_record_iterator(tmp_path / "x")) == 64 << 20
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_record_takes_little_more_than_twice_its_size(tmp_path: Path, kind: str) -> None:
    size = 32 << 20
    with TFRecordWriter(tmp_path / "x", TFRecordOptions(kind, compression_level=1)) as writer:
        writer.write(bytes(size))
    tracemalloc.start()
    try:
        with tf_record_iterator(tmp_path / "x") as records:
            assert len(record := next(records)) == size
            now, peak = tracemalloc.get_traced_memory()
            assert next(records, None) is None
    finally:
        tracemalloc.stop()
    assert peak < 2.25 * size
    assert now < 1.25 * len(record)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "settings",
    [
        *({"compression_level": level} for level in (-1, 0, 1, 9)),
        *({"mem_level": level} for level in (1, 9)),
        *({"compression_strategy": strategy} for strategy in range(5)),
        *({"window_bits": bits} for bits in (9, 12, 15)),
    ],
    ids=str,
)
def test_settings_of_zlib_are_obeyed(tmp_path: Path, kind: str, settings: dict[str, int]) -> None:
    settings = dict(settings)
    if kind == "GZIP" and "window_bits" in settings:
        settings["window_bits"] += 16
    records = [b"a text that repeats " * 50] * 20 + [random.Random(1).randbytes(3000)] * 2
    options = TFRecordOptions(kind, **settings)
    with TFRecordWriter(tmp_path / "x", options) as writer:
        for record in records:
            writer.write(record)
    compressor = zlib.compressobj(
        options.compression_level,
        zlib.DEFLATED,
        options.window_bits,
        options.mem_level,
        options.compression_strategy,
    )
    expected = compressor.compress(framed(records)) + compressor.flush()
    assert (tmp_path / "x").read_bytes() == expected
    assert list(tf_record_iterator(tmp_path / "x")) == records
