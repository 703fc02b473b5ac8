"""The log of a mount, also of one that has ended: its place, and its lines as they come.

The daemon writes the place down (state.py), and it is kept for a week after the mount's end
(kept_logs.py). No mount is touched, and no daemon is asked, unless the mount is not in the place
where it was made.

Concurrency: blocking, no state.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ffrfs.errors import MountError
from ffrfs.mount.client.control_client import why_unknown
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.mountpoint import canonical
from ffrfs.mount.kernel.process import Process

_PAUSE_S = 0.25
_CHUNK_SIZE = 1 << 16


@dataclass(frozen=True)
class MountLog:
    """The place of one mount's log."""

    path: str
    older_path: str | None  # the lines that were moved away to make room, if any
    mount: state.MountState


def find_log(mountpoint: str) -> MountLog:
    """Return the log of the mount there, or else of the last one that was there.

    Raises MountError if no log is known, or if the mount logs to another place, which it names.
    """
    place = canonical(mountpoint)
    found = state.find(place)
    there = mount_at(place)
    if found is None and (there is None or not there.is_ours):
        found = state.find_ended(place)
    if found is None:
        if there is None:
            text = "not mounted, and no mount of this user has ended there within the last week"
            raise MountError(f"{place}: {text}")
        raise MountError(f"{place}: {why_unknown(there, 'knows where its log is')}")
    directory, known = found
    if known.log_file is None and known.journal is not None:
        raise MountError(f"{place}: its log is in the journal: {journal_command(known.journal)}")
    if known.log_file is None:
        whose = f"its daemon (process {known.process.pid})"
        raise MountError(f"{place}: {whose} was started with -f, and logs to its standard error")
    is_own = known.log_file == state.log_path(directory, place)
    older = known.log_file.removesuffix(state.LOG) + state.OLDER_LOG
    has_older = is_own and os.path.exists(older)
    return MountLog(known.log_file, older if has_older else None, known)


def journal_command(journal: str) -> str:
    """Return the command that shows a log in the journal; `journal`: as in MountState."""
    return f"journalctl {shlex.quote(journal)}"


def read_log(log: MountLog, *, follow: bool = False) -> Iterator[list[bytes]]:
    """Yield its lines, some at a time; `follow`: also later ones, until the last daemon has ended.

    Raises OSError if there is no such file any more.
    """
    if log.older_path is not None:
        with contextlib.suppress(FileNotFoundError), _Lines(log.older_path) as lines:
            yield from lines.read_all()
    with _Lines(log.path) as lines:
        daemon = log.mount.process if follow else None
        while daemon is not None:
            if daemon.wait(_PAUSE_S if lines.is_at_end else 0):
                daemon = _next_daemon(log.mount, daemon)
            yield from lines.read_new()
            now = _state_now(log.mount)  # a reload may have changed the log's file
            yield from lines.follow_name(None if now is None else now.log_file)
        yield from lines.read_all()


def _next_daemon(mount: state.MountState, before: Process) -> Process | None:
    """Return the daemon that serves the mount; `before` while its guardian starts one."""
    now = _state_now(mount)
    if now is None or not now.is_guarded:
        return None
    if now.process == before:
        time.sleep(_PAUSE_S)
    return now.process


def _state_now(mount: state.MountState) -> state.MountState | None:
    """Return the state that the mount's daemon has recorded; None if the mount has ended."""
    found = state.find(mount.mountpoint)
    return found[1] if found is not None and found[1].began_s == mount.began_s else None


class _Lines:
    """The lines of a file that grows, and may be emptied, or replaced by a new file of its name."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._pending = b""
        self.is_at_end = False

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def read_new(self) -> Iterator[list[bytes]]:
        """Yield the whole lines that were written by now."""
        while chunk := os.read(self._fd, _CHUNK_SIZE):
            *lines, self._pending = (self._pending + chunk).split(b"\n")
            if lines:
                yield lines
        self.is_at_end = True

    def read_all(self) -> Iterator[list[bytes]]:
        """Yield all lines, also a last one without an end."""
        yield from self.read_new()
        if self._pending:
            yield [self._pending]
            self._pending = b""

    def follow_name(self, path: str | None = None) -> Iterator[list[bytes]]:
        """Go on in the new file, if there is one, after yielding the last lines of the old one.

        `path`: another name from now on.
        """
        self._path = path or self._path
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        status = os.fstat(fd)
        if os.path.samestat(status, os.fstat(self._fd)):
            os.close(fd)
            if status.st_size < os.lseek(self._fd, 0, os.SEEK_CUR):  # it was emptied
                os.lseek(self._fd, 0, os.SEEK_SET)
                self._pending, self.is_at_end = b"", False
            return
        try:
            yield from self.read_all()
        finally:
            os.close(self._fd)
            self._fd = fd
        self.is_at_end = False
