"""The file of a mount's metrics for Prometheus (`ffrfs mount --metrics-file`).

node_exporter's textfile collector may read it at any time, so it is always whole, and readable
by all users. It is removed when the mount ends; its age (node_textfile_mtime_seconds) shows
when a daemon was killed and left it.

Concurrency: a task of the daemon's trio loop. Threads write the files, since a disk may stall;
the task waits for a limited time, and starts no second thread for a file that is being written.

Not here: the text itself (metrics.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import trio

from ffrfs.errors import OptionError, text_within
from ffrfs.files.replacing import refuse_foreign
from ffrfs.files.staged_file import StagedFile
from ffrfs.mount.daemon.output_file import refuse_to_replace, within_limit
from ffrfs.mount.stats.metrics import prometheus

INTERVAL_S = 15.0
WARNING_INTERVAL_S = 600.0
_REMOVAL_LIMIT_S = 1.0
_MODE = 0o644
_BEGIN = b"# HELP ffrfs_"

log = logging.getLogger(__name__)


def check_metrics_file(path: str | None) -> None:
    """Raise OptionError if another kind of file is there, which metrics must not replace.

    A file that cannot be written does not keep a mount from coming up.
    """
    if path is not None:
        with contextlib.suppress(OSError):
            within_limit(path, lambda: _refuse_foreign(path))


def replace_file(path: str, text: str) -> None:
    """Replace the file with the text atomically."""
    _refuse_foreign(path)
    with StagedFile(path, follow=False, mode=_MODE) as staged:
        staged.write(text.encode())
        staged.publish(sync=False)


def _refuse_foreign(path: str) -> None:
    """Raise OptionError if the file is not one of ffrfs's metrics files, OSError."""
    refuse_to_replace(path)
    refuse_foreign(path, lambda begin: begin.startswith(_BEGIN), "metrics", OptionError)


class MetricsFile:
    """Writes the result of `statistics` to `path`; None: nowhere, until change().

    Nothing is written unless `is_mounted`: a detached mount leaves the file to the next one.
    `replace` writes the file in a thread, for which the task waits `replace_limit_s`.
    """

    def __init__(
        self,
        path: str | None,
        statistics: Callable[[], Mapping[str, Any]],
        replace: Callable[[str, str], None] = replace_file,
        replace_limit_s: float = 10.0,
        is_mounted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._replace = replace
        self._replace_limit_s = replace_limit_s
        self._file = None if path is None else _File(path)
        self._statistics = statistics
        self._is_mounted = is_mounted
        self._changed = trio.Event()
        self._warned_s: float | None = None  # time of the last warning
        self._is_failing = False

    def change(self, path: str | None) -> None:
        """Write to `path` from now on, and remove the old file."""
        if path != (self._file and self._file.path):
            old, self._file = self._file, None if path is None else _File(path)
            if old is not None:
                old.is_over = True
            self._changed.set()

    async def run(self) -> None:
        """Write until cancelled; then the file is removed."""
        while True:
            file, self._changed = self._file, trio.Event()
            try:
                await self._keep_written(file)
            finally:
                if file is not None:
                    await _remove(file)

    async def _keep_written(self, file: _File | None) -> None:
        """Write the file regularly until change()."""
        while not self._changed.is_set():
            if file is not None:
                await self._write(file)
            with trio.move_on_after(INTERVAL_S if file else float("inf")):
                await self._changed.wait()

    async def _write(self, file: _File) -> None:
        try:
            if not self._is_mounted():
                return
            text = prometheus(self._statistics())
            with trio.fail_after(self._replace_limit_s):
                await trio.to_thread.run_sync(
                    file.write, self._replace, text, abandon_on_cancel=True
                )
        except trio.TooSlowError:
            self._warn(f"metrics are not written to {file.path}: its file system does not answer")
        except Exception as error:  # the mount serves on whatever fails here
            self._warn(f"metrics are not written to {file.path}: {text_within(error, file.path)}")
        else:
            if self._is_failing:
                log.info("metrics are written to %s again", file.path)
            self._is_failing = False

    def _warn(self, text: str) -> None:
        """Log a warning, at most once in ten minutes, however often the failure comes and goes."""
        self._is_failing = True
        now_s = time.monotonic()
        if self._warned_s is None or now_s - self._warned_s >= WARNING_INTERVAL_S:
            self._warned_s = now_s
            log.warning("%s", text)


class _File:
    """A file to which metrics are written."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_over = False  # a late write must be removed again
        self._written: tuple[int, ...] | None = None  # its identity since the last write
        self._writing = threading.Lock()

    def write(self, replace: Callable[[str, str], None], text: str) -> None:
        """Write the text. Raises TimeoutError while another thread still writes."""
        if not self._writing.acquire(blocking=False):
            raise TimeoutError("its file system has not answered yet")
        try:
            replace(self.path, text)
            self._written = _identity(self.path)
            if self.is_over:
                self.remove()
        finally:
            self._writing.release()

    def end(self) -> None:
        """Remove the file. Wait for a write that is under way: it may just have made the file."""
        with self._writing:
            self.remove()

    def remove(self) -> None:
        with contextlib.suppress(OSError, OptionError):
            _refuse_foreign(self.path)
            # The next mount at the place may write to it by now, while this one was still busy.
            if self._written in (None, _identity(self.path)):
                os.unlink(self.path)


def _identity(path: str) -> tuple[int, ...]:
    info = os.lstat(path)
    return info.st_dev, info.st_ino, info.st_mtime_ns  # inodes are given out again


async def _remove(file: _File) -> None:
    """Remove the file, but do not wait long for its disk."""
    file.is_over = True
    with trio.move_on_after(_REMOVAL_LIMIT_S, shield=True):
        await trio.to_thread.run_sync(file.end, abandon_on_cancel=True)
