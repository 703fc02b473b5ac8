"""Reads the configuration again while the mount is served, on SIGHUP.

The log's file, the limits of memory and the metrics' file change at once. For other
settings, a warning says that they wait for the next mount. A configuration with a mistake
changes nothing.

Concurrency: tasks of the daemon's loop, one reload at a time; files are read and opened in
a thread, since their disks may stall.

Not here: the signal and the service manager (server.py).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

import trio

from ffrfs.errors import FfrfsError, describe
from ffrfs.mount.config.request import MountRequest, reread
from ffrfs.mount.config.settings import SETTINGS
from ffrfs.mount.daemon.log import Log
from ffrfs.mount.daemon.metrics_file import check_metrics_file

# Fields of MountRequest; the last three are not settings.
_CHANGEABLE = {"log_file", "cache_bytes", "max_memory_bytes", "metrics_file"}
_IGNORED = _CHANGEABLE | {"asked", "while_open", "is_filling"}
# The names of settings in a configuration file, by field.
_NAMES = {field: name for name, setting in SETTINGS.items() for field in setting.fields}
_NAMES["spec"] = _NAMES["signed"] = "packs"

_FAILURES = (FfrfsError, OSError, RuntimeError)  # RuntimeError: no thread can be started

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Reload:
    """Applies a new configuration through these functions."""

    log: Log
    move_log: Callable[[str], None]  # records the log's new file
    # Takes the cache's bytes and all memory's; returns whether the mount fits in them.
    limit_memory: Callable[[int, int | None], bool]
    write_metrics: Callable[[str | None], None]  # takes the metrics' file; None: no metrics

    async def run(self, request: MountRequest) -> MountRequest:
        """Read the sources of `request` again, and apply them; return the new request."""
        try:
            wanted = await trio.to_thread.run_sync(reread, request, abandon_on_cancel=True)
        except _FAILURES as error:
            log.error("not reloaded, nothing is changed: %s", describe(error))
            return request
        kept = _unchangeable(request, wanted)
        if kept:
            log.warning("unmount and mount again to change %s", ", ".join(kept))
        log_file = await trio.to_thread.run_sync(
            self._reopen_log, request.log_file, wanted.log_file
        )
        limits = _limits(request)
        if _limits(wanted) != limits and self.limit_memory(*_limits(wanted)):
            limits = _limits(wanted)
        metrics_file = await trio.to_thread.run_sync(
            self._metrics_file, request.metrics_file, wanted.metrics_file
        )
        if metrics_file != request.metrics_file:
            self.write_metrics(metrics_file)
        log.info("reloaded")
        return dataclasses.replace(
            request,
            log_file=log_file,
            cache_bytes=limits[0],
            max_memory_bytes=limits[1],
            metrics_file=metrics_file,
        )

    def _reopen_log(self, before: str | None, wanted: str | None) -> str | None:
        """Open the log's file, also a new one if it was moved away; return the file in use."""
        if wanted is None:
            return before
        try:
            self.log.reopen(wanted)
        except _FAILURES as error:
            log.error("the log file is not changed: %s", describe(error))
            return before
        if wanted != before:
            self.move_log(wanted)
        return wanted

    @staticmethod
    def _metrics_file(before: str | None, wanted: str | None) -> str | None:
        """Return the metrics' file from now on."""
        try:
            check_metrics_file(wanted)
        except _FAILURES as error:
            log.error("the metrics file is not changed: %s", describe(error))
            return before
        return wanted


def _limits(request: MountRequest) -> tuple[int, int | None]:
    return request.cache_bytes, request.max_memory_bytes


def _unchangeable(before: MountRequest, wanted: MountRequest) -> list[str]:
    """Return the names of the settings that differ, and do not change now."""
    names = [
        _NAMES.get(field.name, field.name)
        for field in dataclasses.fields(MountRequest)
        if field.name not in _IGNORED and getattr(before, field.name) != getattr(wanted, field.name)
    ]
    if before.log_file is not None and wanted.log_file is None:
        names.append("log_file")
    return sorted(set(names))
