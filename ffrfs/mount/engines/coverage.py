"""The receipt of an epoch: which files of a mount were read since a mark, as its worker sees it.

A worker notes four bits a record behind its counter page, in the same file (coverage.h in
native/stats), and digests of the order of hints in the page (hint_orders.h in native/prefetch).
This module counts them, and clears them when a mark is set. The file has holes for records without
notes.

A worker, which reads hostile packs, writes the notes: no value is trusted.

Concurrency: the daemon's loop alone; notes of a worker while a mark is set may be lost.
"""

from __future__ import annotations

import os
import re
import struct
import time
from collections import Counter
from collections.abc import Iterator

from ffrfs.errors import MountError
from ffrfs.mount.engines.counter_page import PAGE_SIZE, Counters, first_value

_HEADER = struct.Struct("<QQ")  # when the mark was set, ns since 1970, and the clients before it
_BITS_BEGIN = PAGE_SIZE + 4096
NEVER_MAX = 1000  # records that are named
_PIECE_SIZE = 1 << 20
_PASSES_MAX = 16

_HINTS, _NO_FILE, _REQUESTED, _PUSHED = 0b11, 3, 0b100, 0b1000
_ORDERS_KEPT, _ORDER_SIZE = 16, 6
_KEPT_BITS = {bits: _NO_FILE if bits & _HINTS == _NO_FILE else 0 for bits in range(16)}
# Bytes of which a half is zero. The regular expression finds the few of an almost whole epoch in a
# hundredth of the time of a loop, for which all other tasks of the daemon would wait.
_SOME_NEVER = re.compile(
    b"[%b]" % b"".join(re.escape(bytes([b])) for b in range(256) if not b & 15 or not b >> 4)
)
_CLEARED = bytes(_KEPT_BITS[byte & 15] | _KEPT_BITS[byte >> 4] << 4 for byte in range(256))


def coverage(fd: int, counters: Counters, began_s: float) -> dict[str, object]:
    """Return the counts of files since the mark, or since `began_s`, the mount's own beginning.

    Raises MountError if nothing is noted.
    """
    count = _record_count(fd, counters)
    mark_ns, orders_before = _HEADER.unpack(os.pread(fd, _HEADER.size, PAGE_SIZE))
    kinds: Counter[int] = Counter()
    never: list[int] = []
    first = 0
    for piece in _pieces(fd, count):
        by_byte = _byte_counts(piece)
        for byte, times in by_byte.items():
            kinds[byte & 15] += times
            kinds[byte >> 4] += times
        if len(never) < NEVER_MAX and any(not byte & 15 or not byte >> 4 for byte in by_byte):
            never += _never(piece, first, NEVER_MAX - len(never))
        first += 2 * len(piece)
    if count % 2:
        kinds[_last(fd, count)] -= 1  # the unused half of the last byte
    files = {bits: number for bits, number in kinds.items() if bits & _HINTS != _NO_FILE}
    since_s = mark_ns / 1e9 if mark_ns else began_s
    return {
        "age_s": round(max(0.0, time.time() - since_s), 3),
        "is_marked": bool(mark_ns),
        "records": count,
        "files": sum(files.values()),
        "hinted_once": sum(number for bits, number in files.items() if bits & _HINTS == 1),
        "hinted_more": sum(number for bits, number in files.items() if bits & _HINTS == 2),
        "requested": _sum(files, _REQUESTED),
        "requested_only": files.get(_REQUESTED, 0) + files.get(_REQUESTED | _PUSHED, 0),
        "pushed_only": files.get(_PUSHED, 0),
        "never": files.get(0, 0),
        "never_records": [record for record in never if record < count],
        "orders": _orders(counters, orders_before),
    }


def set_mark(fd: int, counters: Counters) -> None:
    """Count from now on. Raises MountError if nothing is noted."""
    place = _BITS_BEGIN
    for piece in _pieces(fd, _record_count(fd, counters)):
        if not _is_hole(piece):
            os.pwrite(fd, piece.translate(_CLEARED), place)
        place += len(piece)
    ended = first_value(counters, "hint_orders")
    os.pwrite(fd, _HEADER.pack(time.time_ns(), ended), PAGE_SIZE)


def _record_count(fd: int, counters: Counters) -> int:
    count = first_value(counters, "coverage_records")
    if not 0 < count < 2 * (os.fstat(fd).st_size - _BITS_BEGIN):
        raise MountError("it does not count reads: mount it again with this version")
    return count


def _pieces(fd: int, count: int) -> Iterator[bytes]:
    end = _BITS_BEGIN + (count + 1) // 2
    for place in range(_BITS_BEGIN, end, _PIECE_SIZE):
        yield os.pread(fd, min(_PIECE_SIZE, end - place), place)


def _byte_counts(piece: bytes) -> Counter[int]:
    """Return how often each byte occurs.

    A Counter alone takes tens of nanoseconds a byte, and all other tasks of the daemon would wait.
    Most pieces have few different bytes, also the hole of a worker that claims more records than it
    has: so each value is removed in one pass, which takes less than a nanosecond a byte.
    """
    counts: Counter[int] = Counter()
    for _ in range(_PASSES_MAX):
        if not piece:
            break
        rest = piece.translate(None, piece[:1])
        counts[piece[0]] = len(piece) - len(rest)
        piece = rest
    counts.update(piece)
    return counts


def _is_hole(piece: bytes) -> bool:
    return piece.count(0) == len(piece)


def _last(fd: int, count: int) -> int:
    return os.pread(fd, 1, _BITS_BEGIN + count // 2)[0] >> 4


def _never(piece: bytes, first: int, limit: int) -> list[int]:
    found: list[int] = []
    for match in _SOME_NEVER.finditer(piece):
        if len(found) >= limit:
            break
        number, byte = match.start(), piece[match.start()]
        found += [first + 2 * number + half for half in (0, 1) if not byte >> 4 * half & 15]
    return found[:limit]


def _sum(files: dict[int, int], bit: int) -> int:
    return sum(number for bits, number in files.items() if bits & bit)


def _orders(counters: Counters, before: int) -> list[dict[str, object]]:
    """Return the orders of the last clients whose hints have ended since the mark."""
    ended, *values = counters.get("hint_orders") or [0]
    if len(values) != _ORDERS_KEPT * _ORDER_SIZE:
        return []
    found: list[dict[str, object]] = []
    for number in range(max(before, ended - _ORDERS_KEPT), ended):
        place = number % _ORDERS_KEPT * _ORDER_SIZE
        hints, is_complete, *words = values[place : place + _ORDER_SIZE]
        digest = struct.pack(f"<{len(words)}Q", *words).hex()
        found.append({"hints": hints, "is_complete": bool(is_complete), "sha256": digest})
    return found
