"""One line per file that cannot be read, not one per read.

A program that meets a bad file often tries again and again, and so do its workers.
Used by one task at a time.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict

REPEAT_AFTER_S = 60.0
_FILES_MAX = 1024  # remembered; the one that failed longest ago is forgotten first

log = logging.getLogger(__name__)


class FailureLog:
    """Logs the failed reads of one mount."""

    def __init__(self) -> None:
        self._logged_at_s: OrderedDict[int, float] = OrderedDict()

    def report(self, ino: int, path: bytes, reason: str) -> None:
        """Log `reason`, unless the same file had its line less than a minute ago."""
        now_s = time.monotonic()
        last_s = self._logged_at_s.get(ino)
        if last_s is not None and now_s - last_s < REPEAT_AFTER_S:
            return
        self._logged_at_s[ino] = now_s
        self._logged_at_s.move_to_end(ino)
        if len(self._logged_at_s) > _FILES_MAX:
            self._logged_at_s.popitem(last=False)
        log.error("cannot read %s: %s", path.decode(errors="backslashreplace"), reason)
