"""Which files of a mount could not be read, as `ffrfs stats --errors` lists them.

An engine notes what it logs: a file once a minute at most, however often it is read; of a
TFRecord file, a record (native/volume/failure_log.h).

Concurrency: the daemon's loop alone.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TypedDict

from ffrfs.mount.config.request import MountRequest
from ffrfs.printable import printable

FILES_MAX = 1000  # of further ones only the failures are counted
ANSWER_BYTES_MAX = 768 << 10  # of the list as JSON, which is an answer of the control socket
_BEGIN = "cannot read "


class FailedFile(TypedDict):
    """One file or directory."""

    path: str  # in the mount, printable
    count: int
    age_s: float  # since the last failure
    error: str  # the last one, in one line


@dataclass
class _Failures:
    count: int = 0
    last_s: float = 0.0  # time.monotonic()
    error: str = ""


class ReadFailures:
    """Those since the mount was made."""

    def __init__(self) -> None:
        self._files: dict[str, _Failures] = {}
        self._other_count = 0

    def note(self, path: str, error: str) -> None:
        path = printable(path)
        if path not in self._files and len(self._files) >= FILES_MAX:
            self._other_count += 1
            return
        found = self._files.setdefault(path, _Failures())
        found.count += 1
        found.last_s = time.monotonic()
        found.error = printable(error)

    def note_line(self, line: str, request: MountRequest) -> None:
        """Note what the worker's log says, if it says that."""
        if not line.startswith(_BEGIN):
            return
        path, error = _divided(line.removeprefix(_BEGIN), request.packs)
        self.note(path, error)

    @property
    def file_count(self) -> int:
        """How many files there are, FILES_MAX at most."""
        return len(self._files)

    @property
    def count(self) -> int:
        return self._other_count + sum(each.count for each in self._files.values())

    def listed(self) -> dict[str, object]:
        """The files, the latest failure first; `other_count`: failures of files not listed."""
        now_s, size, other_count = time.monotonic(), 0, self._other_count
        files: list[FailedFile] = []
        for path, each in sorted(self._files.items(), key=lambda one: -one[1].last_s):
            age_s = round(now_s - each.last_s, 3)
            file = FailedFile(path=path, count=each.count, age_s=age_s, error=each.error)
            size += len(json.dumps(file))
            if size > ANSWER_BYTES_MAX:
                other_count += each.count
            else:
                files.append(file)
        return {"files": files, "other_count": other_count}


def _divided(text: str, packs: tuple[str, ...]) -> tuple[str, str]:
    """Path and error, between which is a colon; but a path, too, may have one.

    As a rule an error begins with the file that it is about.
    """
    ends = [end for pack in packs if (end := text.find(f": {pack}")) >= 0]
    end = min(ends) if ends else text.find(": ")
    return (text[:end], text[end + 2 :]) if end >= 0 else (text, "")
