"""CacheDirectory: persistent objects, shared by all processes that use the directory.

The files of an object are complete before they get their names: the state file first, locked,
then the data file. The lock of the state file covers both: users of the object share it; making
the object, repairing it after a boot and removing it take it exclusively. Damaged files of ffrfs
are replaced, with one line in the log; foreign files stay, and cause a CacheError.

Not here: which files are ours (place.py), the states of blocks (cached_object.py).
Concurrency: any thread. open() may wait for another process that makes the same object.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator

from ffrfs.cache.cached_object import CachedObject
from ffrfs.cache.files import Files
from ffrfs.cache.locks import lock_within, locked, try_lock, unlock
from ffrfs.cache.place import OTHER, CachePlace
from ffrfs.cache.quota import Quota
from ffrfs.cache.sparse import data_ranges, is_full
from ffrfs.cache.state_file import (
    BLOCK_SIZE,
    HEADER_SIZE,
    USE_AT,
    Label,
    StateFile,
    boot_id,
    check_size,
    is_ours,
    object_name,
    parse_header,
)
from ffrfs.cache.usage import EVICTION_AT, UsageFile
from ffrfs.errors import CacheError
from ffrfs.files.staged_file import StagedFile

_STATE = re.compile(r"[0-9a-f]{64}\.state")
_OPEN_S = 5.0
_LOOK_S = 0.005
_DROP_S = 2.0
_NO_DATA = "its data file is missing"
_EVICTION_S = 5.0


class CacheDirectory:
    """A cache on disk. `log` gets a line for each damaged object; `shared` is CachePlace's.

    Every method may raise CacheError: why the directory cannot be used, and what to do.
    """

    def __init__(
        self,
        path: str,
        size_max: int,
        log: Callable[[str], None] = lambda _: None,
        *,
        shared: bool = False,
    ) -> None:
        self.path, self.size_max, self._log = path, size_max, log
        with contextlib.ExitStack() as failed:
            self.place = CachePlace(path, shared=shared)
            failed.callback(self.place.close)
            self._usage = open_usage(self.place)
            failed.callback(os.close, self._usage.fd)
            self.place.check_holes(self._usage.fd)
            self.store = Store(self.place)
            self._quota = Quota(path, size_max, self._usage, self.store, self._alone, lasts=True)
            failed.pop_all()

    def count(self) -> None:
        """Count the files in the background: after a crash the known number may be wrong."""
        self._quota.begin()

    def open(self, url: str, version: str, size: int, pin: str = "") -> CachedObject:
        """Open or make the object of this URL, version and size; a new version means new bytes.

        `url` lacks its secret part; the state file holds it, and also `pin` if that fits.
        """
        check_size(url, size)
        label = Label(object_name(url, version, size), url, pin)
        end = time.monotonic() + _OPEN_S
        while time.monotonic() < end:
            with self.place.naming(self.place.shown(label.name, "state")):
                try:
                    files = self._open_there(label, size) or self._make(label, size)
                except OSError as error:
                    if not is_full(error) or not self._quota.make_room():
                        raise
                    continue
            if files is not None:
                return CachedObject(label.url, *files, self._quota)
            time.sleep(_LOOK_S)
        raise CacheError.at(
            self.place.shown(label.name, "state"),
            f"another process or machine has locked it; try again, or {OTHER}",
        )

    def usage(self) -> int:
        """Return the number of bytes that the cache holds, or slightly more."""
        return self._usage.read()

    def close(self) -> None:
        """Close the directory; close all objects first."""
        self._quota.close()
        os.close(self._usage.fd)
        self.place.close()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        with locked(self._usage.fd, EVICTION_AT, _EVICTION_S) as taken:
            yield taken

    def _open_there(self, label: Label, size: int) -> tuple[StateFile, int] | None:
        """Open the files, or return None if there are none, or another process locks them."""
        with contextlib.ExitStack() as failed:
            relative = self.place.relative(label.name, "state")
            try:
                fd = self.place.open_file(relative)
            except FileNotFoundError:
                return None
            failed.callback(os.close, fd)
            if not try_lock(fd, USE_AT, shared=True) or not self.place.is_same(fd, relative):
                return None
            state = StateFile(fd, size)
            try:
                found, boot = state.read_header(label.name)
                data = self._open_data(label, size)
            except ValueError as error:
                self._drop_damaged(label, size, fd, str(error))
                return None
            failed.callback(os.close, data)
            if boot != boot_id() or not any(boot):
                if not try_lock(fd, USE_AT):  # another process opens the object at the same time
                    unlock(fd, USE_AT)
                    return None
                mend_after_boot(state, data, found)
                try_lock(fd, USE_AT, shared=True)
            failed.pop_all()
            return state, data

    def _open_data(self, label: Label, size: int) -> int:
        """Open the data file. Raises ValueError if it is missing, or its length is wrong."""
        data = _open_data(self.place, label.name)
        if os.fstat(data).st_size != size:
            os.close(data)
            raise ValueError("its data file has the wrong length")
        return data

    def _drop_damaged(self, label: Label, size: int, fd: int, reason: str) -> None:
        shown = self.place.shown(label.name, "state")
        if not is_ours(os.pread(fd, HEADER_SIZE, 0)):
            raise CacheError.at(shown, f"{reason}, and not made by ffrfs: remove it yourself")
        unlock(fd, USE_AT)  # another process that finds the damage now waits for the lock, too
        if not lock_within(fd, USE_AT, _DROP_S):  # an eviction that holds the lock ends soon
            raise CacheError.at(shown, f"{reason}, and another process uses it; remove it")
        if not self.place.is_same(fd, self.place.relative(label.name, "state")):
            return  # the other process was faster
        # A process may have been killed while it removed an object without blocks: not a loss.
        if reason != _NO_DATA or StateFile(fd, size).present_count():
            self._log(f"{shown}: {reason}; the cached blocks of {label.url} were dropped")
        self.store.unlink(label.name)

    def _make(self, label: Label, size: int) -> tuple[StateFile, int] | None:
        """Make the files of the object; return None if another process was faster."""
        relative = self.place.relative(label.name, "state")
        self.place.make_folder(label.name[:2])
        with contextlib.ExitStack() as ends, contextlib.ExitStack() as failed:
            folder = ends.enter_context(self.place.opened_folder(label.name[:2]))
            staged = ends.enter_context(
                StagedFile(f"{label.name}.state", folder=folder, mode=self.place.mode, follow=False)
            )
            try_lock(staged.fd, USE_AT)
            state = StateFile(staged.fd, size)
            # All space is allocated now: marking a block as present must not fail for lack of it.
            os.posix_fallocate(staged.fd, 0, state.file_size)
            state.write_header(label, boot_id())
            try:
                staged.publish(replace=False, sync=False)
            except FileExistsError:
                return None
            # `staged` still holds the lock, so other processes wait.
            failed.callback(self.place.unlink, relative)
            data = self._make_data(label, size)
            failed.callback(os.close, data)
            failed.callback(self.place.unlink, self.place.relative(label.name, "data"))
            fd = self.place.open_file(relative)
            failed.pop_all()
        # The lock is released here, so an eviction may find the object unused, and remove it.
        return self._use_made(StateFile(fd, size), data, relative)

    def _make_data(self, label: Label, size: int) -> int:
        relative = self.place.relative(label.name, "data")
        try:
            data = self.place.open_file(relative, os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            shown = self.place.shown(label.name, "data")
            raise CacheError.at(shown, "has no state file; remove it") from None
        try:
            os.ftruncate(data, size)
        except BaseException:
            os.close(data)
            self.place.unlink(relative)
            raise
        self._usage.add(os.fstat(data).st_blocks * 512)
        return data

    def _use_made(self, state: StateFile, data: int, relative: str) -> tuple[StateFile, int] | None:
        if try_lock(state.fd, USE_AT, shared=True) and self.place.is_same(state.fd, relative):
            self._usage.add(os.fstat(state.fd).st_blocks * 512)
            return state, data
        os.close(data)
        os.close(state.fd)
        return None


class Store:
    """The objects in a directory, opened one by one: for eviction, and for `ffrfs cache`."""

    def __init__(self, place: CachePlace) -> None:
        self.place = place

    def names(self) -> list[str]:
        """Return the names of all objects, whether their files are sound or not."""
        found = []
        for folder in self.place.folders():
            with contextlib.suppress(OSError), self.place.opened_folder(folder) as fd:
                states = filter(_STATE.fullmatch, sorted(os.listdir(fd)))
                found += [name.partition(".")[0] for name in states if name.startswith(folder)]
        return found

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[Files | None]:
        """Yield the object's files, or None: removed, damaged, foreign, or not complete yet."""
        with contextlib.ExitStack() as ends:
            files = None
            with contextlib.suppress(OSError, ValueError):
                files = self.open(name, ends)
            yield files

    def open(self, name: str, ends: contextlib.ExitStack) -> Files | None:
        """Return the files, until `ends`; None: another process makes or removes the object.

        Raises ValueError: the fault of a damaged one; FileNotFoundError: there is none; CacheError.
        """
        relative = self.place.relative(name, "state")
        fd = self.place.open_file(relative)
        ends.callback(os.close, fd)
        if not try_lock(fd, USE_AT, shared=True) or not self.place.is_same(fd, relative):
            return None
        size, _, _ = parse_header(os.pread(fd, HEADER_SIZE, 0))
        state = StateFile(fd, size)
        _, boot = state.read_header(name)
        data = _open_data(self.place, name)
        ends.callback(os.close, data)
        return Files(state, data, self.is_pinned(name), boot == boot_id() and any(boot))

    def is_pinned(self, name: str) -> bool:
        return self.place.exists(self.place.relative(name, "pin"))

    def remove_if_empty(self, name: str) -> bool:
        if self.is_pinned(name):
            return False
        with self.opened(name) as files:
            # The exclusive lock proves that it is unused. A process that waits makes it again.
            if files is None or not try_lock(files.state.fd, USE_AT) or files.size():
                return False
            self.unlink(name)
            return True

    def unlink(self, name: str) -> None:
        """Remove the object, which is locked exclusively: the state file after the data."""
        for ending in ("pin", "data", "state"):
            self.place.unlink(self.place.relative(name, ending))


def _open_data(place: CachePlace, name: str) -> int:
    try:
        return place.open_file(place.relative(name, "data"))
    except FileNotFoundError:
        raise ValueError(_NO_DATA) from None


def open_usage(place: CachePlace) -> UsageFile:
    fd = place.open_file("usage", os.O_CREAT)
    try:
        return UsageFile(fd)
    except ValueError as error:
        os.close(fd)
        raise CacheError.at(os.path.join(place.path, "usage"), f"{error}; {OTHER}") from None


def mend_after_boot(state: StateFile, data: int, label: Label) -> None:
    """Set `live` for blocks that were synced and have no hole, under an exclusive lock."""
    import numpy as np

    is_durable = state.flags(state.durable())
    is_whole = np.zeros(state.block_count, bool)
    for begin, end in data_ranges(data, 0, state.size):
        first = -(-begin // BLOCK_SIZE)
        last = state.block_count if end == state.size else end // BLOCK_SIZE
        is_whole[first:last] = True
    state.after_boot(is_durable & is_whole)
    if (is_durable & ~is_whole).any():  # blocks with holes will be filled again
        os.fdatasync(state.fd)
    # The header is written last: as long as it names another boot, the steps above are repeated.
    state.write_header(label, boot_id())
