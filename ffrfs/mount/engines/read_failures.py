"""The files of a mount that could not be read, as `ffrfs stats --errors` lists them.

An engine counts each failed request in its counters (native/volume/failure_log.h), and notes path
and error here once a minute for each file, when it logs them. All files of a record of a TFRecord
file count as one. The next daemon of the mount gets the list (kept_engine.py).

Concurrency: the daemon's loop alone.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypedDict, TypeVar

from ffrfs.mount.engines.counter_page import Counters, first_value
from ffrfs.mount.kernel.known_fields import known_fields
from ffrfs.printable import printable

FILES_MAX = 1000  # failures of further files are only counted
ANSWER_BYTES_MAX = 768 << 10  # of the list as JSON, which the control socket sends
_Row = TypeVar("_Row", bound=Mapping[str, object])

# The prefix of a failure in a worker's log (native/fuse/log.h): inode, size of the path.
_MARK = re.compile(rb"\x1f([0-9]{1,20}) ([0-9]{1,5})\x1f(?=cannot read )")
_BEGIN = b"cannot read "


class FailedFile(TypedDict):
    """A file or directory."""

    path: str  # in the mount, printable
    count: int  # of failed requests
    age_s: float  # since the last failure that was logged
    error: str  # text of that failure, in one line


@dataclass
class _Failure:
    """The last failure of a file that was logged."""

    ino: int
    path: str
    error: str
    count: int  # of logged failures
    at_s: float  # time.monotonic()


class ReadFailures:
    """The failures since the mount was made."""

    def __init__(self, kept: Iterable[dict[str, Any]] = ()) -> None:
        """`kept`: the result of kept() in the daemon before this one."""
        self._by_inode = {each["ino"]: _Failure(**known_fields(_Failure, each)) for each in kept}

    def kept(self) -> list[dict[str, Any]]:
        """Return the failures for the next daemon, the latest first, as many as listed() shows."""
        return _fitting(map(asdict, self._latest()))

    def note(self, ino: int, path: str, error: str) -> None:
        """Note a failure that is being logged; `ino` is the inode that it counts for."""
        known = self._by_inode.get(ino)
        if known is None and len(self._by_inode) >= FILES_MAX:
            return
        count = 1 if known is None else known.count + 1
        now_s = time.monotonic()
        self._by_inode[ino] = _Failure(ino, printable(path), printable(error), count, now_s)

    def noted(self, line: bytes) -> bytes:
        """Note the failure in a line of a worker's log, if any; return the text to log."""
        mark = _MARK.match(line)
        if mark is None:
            return line
        text = line[mark.end() :]
        end = len(_BEGIN) + int(mark[2])
        path, error = text[len(_BEGIN) : end], text[end + len(b": ") :]
        self.note(int(mark[1]), _text(path), _text(error))
        return text

    @property
    def file_count(self) -> int:
        """The number of files that could not be read, at most FILES_MAX."""
        return len(self._by_inode)

    def listed(self, counters: Counters) -> dict[str, object]:
        """Return the files, latest failure first; `other_count`: failures of other files."""
        counts = _counts_by_inode(counters)
        now_s = time.monotonic()
        files = _fitting(
            FailedFile(
                path=each.path,
                count=max(counts.get(each.ino, 0), each.count),
                age_s=round(now_s - each.at_s, 3),
                error=each.error,
            )
            for each in self._latest()
        )
        total = first_value(counters, "read_failures")
        other_count = max(total - sum(file["count"] for file in files), 0)
        return {"files": files, "other_count": other_count}

    def _latest(self) -> list[_Failure]:
        return sorted(self._by_inode.values(), key=lambda each: -each.at_s)


def _fitting(rows: Iterable[_Row]) -> list[_Row]:
    """Return the first rows, as many as have ANSWER_BYTES_MAX as JSON."""
    found, size = [], 0
    for row in rows:
        size += len(json.dumps(row))
        if size > ANSWER_BYTES_MAX:
            break
        found.append(row)
    return found


def _counts_by_inode(counters: Counters) -> dict[int, int]:
    row = counters.get("failures_by_inode", [])
    return dict(zip(row[::2], row[1::2], strict=False))


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")
