"""The files of a mount that could not be read, as `ffrfs stats --errors` lists them.

An engine counts each failed request in its counters (native/volume/failure_log.h), and notes
path and error here once a minute for each file, when it logs them. All files of a record of a
TFRecord file count as one.

Concurrency: the daemon's loop alone.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import TypedDict

from ffrfs.mount.engines.counter_page import Counters, first_value
from ffrfs.printable import printable

FILES_MAX = 1000  # failures of further files are only counted
ANSWER_BYTES_MAX = 768 << 10  # of the list as JSON, which the control socket sends

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

    path: str
    error: str
    count: int  # of logged failures
    at_s: float  # time.monotonic()


class ReadFailures:
    """The failures since the mount was made."""

    def __init__(self) -> None:
        self._by_inode: dict[int, _Failure] = {}

    def note(self, ino: int, path: str, error: str) -> None:
        """Note a failure that is being logged; `ino` is the inode that it counts for."""
        known = self._by_inode.get(ino)
        if known is None and len(self._by_inode) >= FILES_MAX:
            return
        count = 1 if known is None else known.count + 1
        now_s = time.monotonic()
        self._by_inode[ino] = _Failure(printable(path), printable(error), count, now_s)

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
        now_s, size = time.monotonic(), 0
        files: list[FailedFile] = []
        for ino, each in sorted(self._by_inode.items(), key=lambda one: -one[1].at_s):
            count = max(counts.get(ino, 0), each.count)
            age_s = round(now_s - each.at_s, 3)
            file = FailedFile(path=each.path, count=count, age_s=age_s, error=each.error)
            size += len(json.dumps(file))
            if size > ANSWER_BYTES_MAX:
                break
            files.append(file)
        total = first_value(counters, "read_failures")
        other_count = max(total - sum(file["count"] for file in files), 0)
        return {"files": files, "other_count": other_count}


def _counts_by_inode(counters: Counters) -> dict[int, int]:
    row = counters.get("failures_by_inode", [])
    return dict(zip(row[::2], row[1::2], strict=False))


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")
