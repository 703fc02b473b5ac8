"""The slowest requests of the last minutes, from a mount's counters.

The rows are those of native/volume/slowest_requests.h. A worker writes them, and a worker reads
hostile packs: a row that is invalid, or was changing while it was read, is left out.

No state; any thread.
"""

from __future__ import annotations

import struct

from ffrfs._native import crc32
from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.stats.request_times import KINDS
from ffrfs.printable import printable

COUNT = 16
KEPT_S = 300.0
PATH_SIZE_MAX = 512
_ROW = struct.Struct(f"<5Q{PATH_SIZE_MAX}s")
_VALUES = struct.Struct(f"<{_ROW.size // 8}Q")

Slowest = list[dict[str, object]]


def slowest_requests(counters: Counters, now_ns: int) -> Slowest:
    """Return the requests, slowest first; `now_ns` is of CLOCK_MONOTONIC.

    Each has `path` (of the requested file or directory, in printable characters), `kind`,
    `time_us` and `age_s`, the time since it was answered.
    """
    rows = (counters.get(f"slowest.{number}", []) for number in range(COUNT))
    found = [request for row in rows if (request := _request(row, now_ns)) is not None]
    return sorted(found, key=lambda request: request["time_us"], reverse=True)  # type: ignore[arg-type,return-value]


def _request(row: list[int], now_ns: int) -> dict[str, object] | None:
    if len(row) * 8 != _ROW.size + 8:
        return None
    *values, checksum = row
    data = _VALUES.pack(*values)
    if crc32(data) != checksum:
        return None
    ended_ns, elapsed_ns, kind, ino, path_size, path = _ROW.unpack(data)
    age_s = (now_ns - ended_ns) / 1e9
    if not 0 <= age_s <= KEPT_S or kind >= len(KINDS) or path_size > len(path):
        return None
    shown = path[:path_size].decode(errors="backslashreplace") if path_size else f"inode {ino}"
    return {
        "path": printable(shown),
        "kind": KINDS[kind],
        "time_us": elapsed_ns / 1000,
        "age_s": round(age_s, 3),
    }
