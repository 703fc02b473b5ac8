"""The two scans give the same answers for sound, cut off, corrupt and hostile files."""

from __future__ import annotations

import io
import os
import random
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs._native import TFRecordScan
from ffrfs.errors import ChecksumError, FormatError, TruncatedError
from ffrfs.tfrecord.stream_scan import PIECE_SIZE, RECORD_LIMIT, Scan, StreamScan
from tests.tfrecord_file import frame, framed, tfrecord_extents, tfrecord_records, write_tfrecord

OpenScan = Callable[..., Scan]

SMALL = [b"abc", b"", b"the third record", b"z"]
CUT_OFF = "it was cut off or is still being written"


def open_stream_scan(path: Path, check_data: bool = True) -> Scan:
    return StreamScan(io.FileIO(path), str(path), check_data=check_data)


def open_file_scan(path: Path, check_data: bool = True) -> Scan:
    return TFRecordScan(os.fsencode(path), check_data)


@pytest.fixture(params=[open_stream_scan, open_file_scan], ids=["stream", "file"])
def open_scan(request: pytest.FixtureRequest) -> OpenScan:
    return request.param


def read_all(scan: Scan) -> list[bytes | FormatError | ChecksumError]:
    """Return records and errors in order; the last error comes again with each further read."""
    found: list[bytes | FormatError | ChecksumError] = []
    try:
        while True:
            try:
                batch = scan.read()
            except ChecksumError as error:
                found.append(error)
                continue
            except FormatError as error:
                found.append(error)
                with pytest.raises(type(error), match=re.escape(str(error))):
                    scan.read()
                return found
            if not batch:
                assert scan.read() == []
                return found
            found += batch
    finally:
        scan.close()


@pytest.mark.parametrize("name", ["examples", "raw", "sequences"])
def test_golden_files(open_scan: OpenScan, golden: Path, name: str) -> None:
    path = golden / "tf" / f"{name}.tfrecord"
    records = read_all(open_scan(path))
    assert len(records) == {"examples": 50, "raw": 4, "sequences": 10}[name]
    assert framed(records) == path.read_bytes()
    assert records == tfrecord_records(path.read_bytes())
    assert all(type(record) is bytes for record in records)


def test_an_empty_file_has_no_records(open_scan: OpenScan, tmp_path: Path) -> None:
    assert read_all(open_scan(write_tfrecord(tmp_path / "x", []))) == []


@pytest.mark.parametrize("check_data", [True, False])
@pytest.mark.parametrize("size", [PIECE_SIZE - 17, PIECE_SIZE - 16, PIECE_SIZE - 1, 3 * PIECE_SIZE])
def test_records_of_any_size(
    open_scan: OpenScan, tmp_path: Path, size: int, check_data: bool
) -> None:
    content = random.Random(size)
    records = [content.randbytes(n) for n in (0, size, 1, size + 1, 100, 0)]
    assert read_all(open_scan(write_tfrecord(tmp_path / "x", records), check_data)) == records


def test_many_small_records(open_scan: OpenScan, tmp_path: Path) -> None:
    records = [b"%d" % number for number in range(100_000)]
    assert read_all(open_scan(write_tfrecord(tmp_path / "x", records))) == records


def test_every_flipped_byte_is_noticed(open_scan: OpenScan, tmp_path: Path) -> None:
    path = tmp_path / "flipped.tfrecord"
    data = framed(SMALL)
    for number, (begin, size) in enumerate(tfrecord_extents(data)):
        place = f"{path}: record {number} (offset {begin}): "
        for offset in range(begin, begin + size):
            spoilt = bytearray(data)
            spoilt[offset] ^= 0xFF
            path.write_bytes(spoilt)
            *before, error = read_all(open_scan(path))[: number + 1]
            after = read_all(open_scan(path))[number + 1 :]
            assert before == SMALL[:number]
            if offset < begin + 12:
                assert type(error) is FormatError
                assert after == []
            else:
                assert type(error) is ChecksumError
                assert after == SMALL[number + 1 :]
            assert str(error).startswith(place)
            assert re.search(
                r"checksum mismatch: the file says 0x[0-9a-f]{8}, the bytes give 0x[0-9a-f]{8}",
                str(error),
            )


def test_the_error_names_both_values_of_a_mismatch(open_scan: OpenScan, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(frame(b"abc")[:-4] + bytes([1, 2, 3, 4]))
    checksum = int.from_bytes(frame(b"abc")[-4:], "little")
    (error,) = read_all(open_scan(path))
    assert f"says 0x04030201, the bytes give {checksum:#010x}" in str(error)


def test_every_length_of_a_truncated_file(open_scan: OpenScan, tmp_path: Path) -> None:
    path = tmp_path / "cut.tfrecord"
    data = framed(SMALL)
    for number, (begin, size) in enumerate(tfrecord_extents(data)):
        for end in range(begin + 1, begin + size):
            path.write_bytes(data[:end])
            *before, error = read_all(open_scan(path))
            have = end - begin
            wanted = "12 bytes of its header" if have < 12 else f"{size} bytes"
            assert before == SMALL[:number]
            assert type(error) is TruncatedError
            assert str(error) == (
                f"{path}: record {number} (offset {begin}): "
                f"the file ends after {have} of {wanted}; {CUT_OFF}"
            )
        path.write_bytes(data[: begin + size])
        assert read_all(open_scan(path)) == SMALL[: number + 1]


@pytest.mark.parametrize("check_data", [True, False])
@pytest.mark.parametrize("beyond", [1, 1 << 20, 1 << 40, (1 << 63) - 1 - 64])
def test_a_length_beyond_the_file_allocates_nothing(
    open_scan: OpenScan, tmp_path: Path, beyond: int, check_data: bool
) -> None:
    path = tmp_path / "hostile.tfrecord"
    path.write_bytes(frame(b"first") + frame(b"x" * 27, length=64 + beyond))
    assert_refused_without_memory(open_scan, path, check_data)


@pytest.mark.parametrize("check_data", [True, False])
@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 16, (1 << 64) - 1, RECORD_LIMIT + 1])
def test_an_impossible_length_is_refused(
    open_scan: OpenScan, tmp_path: Path, length: int, check_data: bool
) -> None:
    path = tmp_path / "hostile.tfrecord"
    path.write_bytes(frame(b"first") + frame(b"", length=length))
    assert_refused_without_memory(open_scan, path, check_data)


def assert_refused_without_memory(open_scan: OpenScan, path: Path, check_data: bool) -> None:
    scan = open_scan(path, check_data)
    tracemalloc.start()
    try:
        first, error = read_all(scan)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert first == b"first"
    assert isinstance(error, FormatError)
    assert str(error).startswith(f"{path}: record 1 (offset 21): ")
    assert peak < 3 * PIECE_SIZE


def test_reading_without_verification_ignores_checksums(
    open_scan: OpenScan, tmp_path: Path
) -> None:
    data = bytearray(framed(SMALL))
    for begin, size in tfrecord_extents(data):
        data[begin + 8] ^= 1  # the checksum of the length
        data[begin + size - 1] ^= 1  # the checksum of the data
    (tmp_path / "x").write_bytes(data)
    assert read_all(open_scan(tmp_path / "x", check_data=False)) == SMALL


def test_several_bad_records_are_reported_one_by_one(open_scan: OpenScan, tmp_path: Path) -> None:
    data = bytearray(framed(SMALL))
    for begin, size in tfrecord_extents(data)[1:]:
        data[begin + size - 1] ^= 1
    (tmp_path / "x").write_bytes(data)
    first, *errors = read_all(open_scan(tmp_path / "x"))
    assert first == SMALL[0]
    assert [re.search(r"record \d", str(error))[0] for error in errors] == [
        "record 1",
        "record 2",
        "record 3",
    ]


@given(
    records=st.lists(st.binary(max_size=40), max_size=6),
    pieces=st.lists(st.integers(1, 50), min_size=1),
)
def test_a_stream_may_arrive_in_any_pieces(records: list[bytes], pieces: list[int]) -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            pieces.append(pieces.pop(0))
            return super().read(min(pieces[-1], size or 0))

    data = framed(records)
    assert read_all(StreamScan(Trickle(data), "x")) == records
    # Bytes that were already read, to recognise the compression, come first.
    scan = StreamScan(Trickle(data[pieces[0] :]), "x", begin=data[: pieces[0]])
    assert read_all(scan) == records


@given(records=st.lists(st.binary(max_size=30), min_size=1, max_size=5), spoil=st.data())
def test_scans_agree_on_any_damage(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], spoil: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("scan") / "x"
    data = bytearray(framed(records))
    for _ in range(spoil.draw(st.integers(0, 3))):
        offset = spoil.draw(st.integers(0, len(data) - 1))
        data[offset] = spoil.draw(st.integers(0, 255))
    path.write_bytes(data[: spoil.draw(st.integers(0, len(data)))])
    check_data = spoil.draw(st.booleans())
    ours = read_all(open_stream_scan(path, check_data))
    native = read_all(open_file_scan(path, check_data))
    assert [r if isinstance(r, bytes) else type(r) for r in ours] == [
        r if isinstance(r, bytes) else type(r) for r in native
    ]
