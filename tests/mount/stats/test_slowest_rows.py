"""The slowest requests, as a worker tells them, and as one that went bad tells them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs._native import Volume
from ffrfs.mount.engines.counter_page import Counters, parse
from ffrfs.mount.stats.request_times import KINDS
from ffrfs.mount.stats.slowest_requests import COUNT, KEPT_S, PATH_SIZE_MAX, slowest_requests
from tests.ffrecord_file import write_folder

NOW_NS = 10**18
ROW_COUNT = 5 + PATH_SIZE_MAX // 8 + 1
U64 = st.integers(0, 2**64 - 1)


def row(  # noqa: PLR0917 - the fields of a row
    ended_ns: int = NOW_NS - 10**9,
    elapsed_ns: int = 2_000_000,
    kind: int = KINDS.index("read"),
    ino: int = 7,
    path: bytes = b"a/b",
    path_size: int | None = None,
) -> list[int]:
    size = len(path) if path_size is None else path_size
    data = struct.pack(f"<5Q{PATH_SIZE_MAX}s", ended_ns, elapsed_ns, kind, ino, size, path)
    return [*struct.unpack(f"<{len(data) // 8}Q", data), zlib.crc32(data)]


def told(*rows: list[int]) -> list[dict[str, object]]:
    counters: Counters = {f"slowest.{number}": each for number, each in enumerate(rows)}
    return slowest_requests(counters, NOW_NS)


def test_row_is_told() -> None:
    assert told(row()) == [{"path": "a/b", "kind": "read", "time_us": 2000.0, "age_s": 1.0}]


def test_slowest_is_first() -> None:
    times = [each["time_us"] for each in told(*(row(elapsed_ns=n * 10**6) for n in (3, 9, 5)))]
    assert times == [9000, 5000, 3000]


def test_path_that_is_not_known_yet_is_its_inode() -> None:
    assert told(row(path=b""))[0]["path"] == "inode 7"


def test_path_is_printable() -> None:
    assert told(row(path=b"\xff\n\0\x1b[\xc3\xa9"))[0]["path"] == "\\xff\\n\\x00\\x1b[é"


@pytest.mark.parametrize(
    "bad",
    [
        [],
        row()[:-1],
        [*row(), 0],
        [*row()[:-1], row()[-1] ^ 1],
        [0] * ROW_COUNT,
        row(ended_ns=NOW_NS + 1),
        row(ended_ns=NOW_NS - int(KEPT_S * 1e9) - 1),
        row(kind=len(KINDS)),
        row(kind=2**64 - 1),
        row(path_size=PATH_SIZE_MAX + 1),
        row(path_size=2**64 - 1),
    ],
)
def test_row_that_makes_no_sense_is_left_out(bad: list[int]) -> None:
    assert told(row(), bad) == told(row())


@given(st.lists(st.lists(U64, min_size=ROW_COUNT - 1, max_size=ROW_COUNT - 1), max_size=3))
def test_hostile_rows_are_harmless(rows: list[list[int]]) -> None:
    signed = [
        [NOW_NS, *each[1:], zlib.crc32(struct.pack(f"<{ROW_COUNT - 1}Q", NOW_NS, *each[1:]))]
        for each in rows
    ]
    for each in told(*rows, *signed):
        assert each["kind"] in KINDS
        assert str(each["path"]).isprintable()


def test_rows_are_those_of_the_volume(tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", {"d": {"file": b"content"}})
    volume = Volume([bytes(pack)], uid=0, gid=0, umask=0, cache_bytes=1 << 20)
    try:
        rows = {n: v for n, v in parse(volume.counter_page()).items() if n.startswith("slowest.")}
        assert rows == {f"slowest.{number}": [0] * ROW_COUNT for number in range(COUNT)}
    finally:
        volume.close()
