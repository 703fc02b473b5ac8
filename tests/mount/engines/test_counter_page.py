"""Counters of a sound worker, and those that a worker has written after it went bad."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs._native import Volume
from ffrfs.mount.daemon.statistics import counted
from ffrfs.mount.engines.counter_page import PAGE_SIZE, parse
from ffrfs.mount.stats.request_times import (
    BUCKET_COUNT,
    KINDS,
    buckets_of,
    percentile_us,
    slow_count,
)
from tests.ffrecord_file import write_records

UNIT_NS = 256
LAST_BUCKET_NS = 7 * 2**25 * UNIT_NS
U64 = st.integers(0, 2**64 - 1)

durations_ns = st.lists(
    st.integers(0, 2**14) | st.integers(0, LAST_BUCKET_NS - 1), min_size=1, max_size=300
)


def open_volume(pack: Path) -> Volume:
    return Volume([bytes(pack)], uid=0, gid=0, umask=0, cache_bytes=1 << 20)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_records(tmp_path_factory.mktemp("pack") / "x.ffr", [b"record"])


def histogram_of(pack: Path, elapsed_ns: list[int]) -> list[int]:
    """Return the histogram of these durations, as the engines count them."""
    volume = open_volume(pack)
    try:
        slow = [volume.count_request("read", each_ns) for each_ns in elapsed_ns]
        histogram = parse(volume.counter_page())["request.read"]
        assert slow_count(buckets_of(histogram)) == sum(slow)
        return histogram
    finally:
        volume.close()


@given(durations_ns)
@pytest.mark.promise("S22")
def test_percentiles_are_right_within_a_quarter(pack: Path, elapsed_ns: list[int]) -> None:
    histogram = histogram_of(pack, elapsed_ns)
    assert sum(histogram) == len(elapsed_ns)
    ordered = sorted(elapsed_ns)
    for percent in (1, 50, 99, 100):
        exact_ns = ordered[-(-len(ordered) * percent // 100) - 1]
        told_us = percentile_us(buckets_of(histogram), percent)
        assert told_us is not None
        assert exact_ns < told_us * 1000 <= exact_ns * 1.25 + UNIT_NS


@pytest.mark.promise("S56")
def test_a_request_is_slow_from_about_a_second_on(pack: Path) -> None:
    for elapsed_ns, count in ((2**30 - 1, 0), (2**30, 1)):
        assert slow_count(buckets_of(histogram_of(pack, [elapsed_ns]))) == count


def test_percentiles_of_no_requests_and_of_very_long_ones(pack: Path) -> None:
    assert percentile_us([], 50) is None
    assert percentile_us(buckets_of([0] * BUCKET_COUNT), 99) is None
    for elapsed_ns in (LAST_BUCKET_NS, 3600 * 10**9, 2**63):
        histogram = histogram_of(pack, [elapsed_ns])
        assert percentile_us(buckets_of(histogram), 50) == 8 * 2**25 * UNIT_NS / 1000


def test_every_counter_of_the_engine_is_known(pack: Path) -> None:
    volume = open_volume(pack)
    counters = parse(volume.counter_page())
    volume.close()
    kinds = {name.removeprefix("request.") for name in counters if name.startswith("request.")}
    assert kinds == set(KINDS)
    assert all(len(counters[f"request.{kind}"]) == BUCKET_COUNT for kind in KINDS)
    single = {name for name, values in counters.items() if len(values) == 1}
    assert {name for name in single if name.startswith("request_ns.")} == {
        f"request_ns.{kind}" for kind in KINDS
    }
    assert len(single) == 39 + len(KINDS)
    unknown = [name for name in single if "9876" not in json.dumps(counted({name: [9876000]}))]
    # For NativeEngine only: its transport, and the inode that its next worker must suspect.
    assert sorted(unknown) == ["on_trial", "uring_queues"]


def test_unwritten_page_counts_nothing() -> None:
    check_harmless(bytes(PAGE_SIZE))
    assert parse(bytes(PAGE_SIZE)) == {}
    assert counted({})["request_count"] == 0


def check_harmless(page: bytes) -> None:
    counters = parse(page)
    assert sum(map(len, counters.values())) <= len(page) // 8
    fields = counted(counters)
    assert fields.keys() == counted({}).keys()
    assert len(json.dumps(fields)) < 1 << 17


def row(name: bytes, count: int, values: list[int]) -> bytes:
    return struct.pack("<32sQ", name, count) + struct.pack(f"<{len(values)}Q", *values)


NAMES = st.sampled_from([f"request.{kind}".encode() for kind in KINDS]) | st.sampled_from(
    [b"reads", b"bytes_served", b"checksums_failed", b"queue_depth", b"bytes_kept", b""]
)
HONEST_ROWS = st.builds(
    lambda name, values: row(name, len(values), values),
    NAMES | st.binary(max_size=32),
    st.lists(U64, max_size=2 * BUCKET_COUNT),
)
ROWS = HONEST_ROWS | st.builds(row, NAMES, U64, st.lists(U64, max_size=9)) | st.binary()


@given(st.lists(ROWS), st.integers(0, PAGE_SIZE) | U64, st.sampled_from([b"ffrfscnt", b"ffrfscnu"]))
def test_hostile_page_is_harmless(rows: list[bytes], end: int, magic: bytes) -> None:
    page = struct.pack("<8sQ", magic, end) + b"".join(rows)
    check_harmless(page.ljust(PAGE_SIZE, b"\xff")[:PAGE_SIZE])
    check_harmless(page)


@pytest.fixture(scope="module")
def true_page(pack: Path) -> bytes:
    volume = open_volume(pack)
    try:
        return volume.counter_page()
    finally:
        volume.close()


@given(size=st.integers(16, 4096), offset=st.integers(0, 4096), value=U64)
def test_spoiled_page_is_harmless(true_page: bytes, size: int, offset: int, value: int) -> None:
    check_harmless(true_page[:size])
    page = bytearray(true_page)
    struct.pack_into("<Q", page, offset, value)
    check_harmless(bytes(page))


def test_buckets_and_values_beyond_the_expected_are_ignored() -> None:
    counters = {"request.read": [2**64 - 1] * 8000, "reads": [2**64 - 1, 5], "bytes_kept": []}
    fields = counted(counters)
    assert fields["request_count"] == (2**64 - 1) * BUCKET_COUNT
    assert fields["reads"] == 2**64 - 1
    assert fields["cache_bytes"] == 0
