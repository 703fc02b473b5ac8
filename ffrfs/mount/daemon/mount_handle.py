"""The mount that a daemon makes, with its state file and control socket.

Concurrency: blocking. The runtime directory's lock is held from looking to acting, so two
daemons never claim one place. Nothing waits for it without limit, and record() not at all once
the daemon serves.

Not here: the kernel's side (kernel_mount.py), serving it (daemon.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from dataclasses import dataclass, replace

from ffrfs.errors import FileSystemHangsError, describe
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon.kept_mount import KeptMount
from ffrfs.mount.daemon.output_file import within_limit
from ffrfs.mount.kernel import (
    control_socket,
    dead_mount,
    kernel_mount,
    mountpoint,
    runtime_lock,
    state,
)
from ffrfs.mount.kernel.kept_logs import remove_old_logs
from ffrfs.mount.kernel.mount_elsewhere import refuse_unseen
from ffrfs.mount.kernel.mount_table import MountEntry, mount_at, read_mount_table
from ffrfs.mount.kernel.pack_versions import Version
from ffrfs.mount.kernel.process import Process
from ffrfs.mount.kernel.state import MountState

# Unmounting opens a file of the kernel's, a lock, the list of mounts and, unless root, a helper's
# pipes. These descriptors are kept for it, in case the daemon reaches its limit.
_RESERVE_COUNT = 8
_CLAIM_LIMIT_S = 30.0  # for the lock, where many mounts are made at once

log = logging.getLogger(__name__)


@dataclass
class MountHandle:
    """A mount of this daemon, and its files."""

    directory: str
    state: state.MountState  # as the file should have it
    entry: MountEntry
    connection: int
    control: socket.socket | None  # listening; None: commands cannot ask this daemon
    notice: str | None  # says that a dead daemon's mount was removed from the place
    reserve: list[int]  # descriptors that are closed to make room for unmounting
    is_recorded: bool = True  # whether the file has it

    def take_away(self, *, is_open: bool = False) -> bool:
        """Unmount and clean up; return True if it was busy. It may be gone already.

        `is_open`: the connection is open, so a mount that was moved can be found.
        """
        _close_all(self.reserve)
        with runtime_lock.locked(self.directory):
            known = state.load(self.directory, self.state.mountpoint)
            is_anothers = not (known is None or self.state.is_same_mount(known))
            if is_anothers and not (is_open and kernel_mount.is_connected(self.connection)):
                return False  # ours is gone; another daemon has the place
            # If the topmost mount is another one, ours was unmounted by others, or is covered.
            # Device numbers alone do not tell, because the kernel reuses them at once.
            entry = self._found_entry() if is_open else self.entry
            is_there = mount_at(entry.mountpoint) == entry
            busy = kernel_mount.detach(entry.mountpoint) if is_there else False
            # Without a mount and a state file, `ffrfs umount` has cleaned up and does not wait for
            # us, unless the runtime directory was removed under us.
            is_lost = not os.path.isdir(self.directory)
            if not is_anothers and (known is not None or is_there or is_lost):
                state.forget(self.directory, self.state)
            return busy

    def move_log(self, log_file: str) -> None:
        """Record that the log goes to that file from now on."""
        self._record(replace(self.state, log_file=log_file))

    def note_guardian(self, guardian: Process) -> None:
        """Record the process that starts another daemon if this one dies."""
        self._record(replace(self.state, guardian=guardian))

    def note_manager(self) -> None:
        """Record that the service manager starts another daemon if this one dies."""
        self._record(replace(self.state, is_managed=True))

    def _record(self, changed: MountState) -> None:
        self.state = changed
        self.is_recorded = False
        self.record()

    def record(self, wait_s: float = 0) -> None:
        """Write missing facts to the state file, unless the place is another daemon's by now.

        If another program has removed the file or the socket, for example from /tmp, they are made
        again. If another process has the lock for `wait_s`, or the disk is full, commands see the
        earlier state until the next call.
        """
        if self.is_recorded and state.keep(self.directory, self.state.mountpoint):
            return
        taking = runtime_lock.locked(self.directory, wait_s=wait_s)
        with contextlib.suppress(OSError), taking as is_held:
            known = state.load(self.directory, self.state.mountpoint)
            is_lost = known is None and self.is_in_place()
            if is_held and (is_lost or self.state.is_same_mount(known)):
                state.save(self.directory, self.state)
                state.withdraw_others(self.directory, self.state)
                path = state.socket_path(self.directory, self.state.mountpoint)
                if not os.path.lexists(path):
                    self.control = control_socket.listen(path)
            self.is_recorded = is_held

    def is_in_place(self) -> bool:
        """Return False if the place was unmounted (open files are still served), or is covered."""
        return mount_at(self.entry.mountpoint) == self.entry

    def is_left(self) -> bool:
        """Return whether it is in place, and no daemon after this one has made it."""
        # In this order, because the next mount's state is written before it can have our numbers.
        is_there = self.is_in_place()
        known = state.load(self.directory, self.state.mountpoint)
        return is_there and self.state.is_same_mount(known)

    def is_mounted(self) -> bool:
        """Return whether it is at some place, covered or not."""
        return self.is_in_place() or any(
            entry.device == self.entry.device for entry in read_mount_table()
        )

    def _found_entry(self) -> MountEntry:
        """Return its entry now: the place is another one if a directory above was renamed.

        The kernel gives both numbers to the next mount as soon as the connection has ended.
        """
        table = read_mount_table()
        if kernel_mount.is_connected(self.connection):
            for entry in table:
                is_same = entry == replace(self.entry, mountpoint=entry.mountpoint)
                if is_same and entry.mount_id == self.entry.mount_id:
                    return entry
        return self.entry

    def abort(self) -> None:
        """End the connection by force; it may have ended already."""
        _close_all(self.reserve)
        kernel_mount.abort(self.connection, self.entry)


def make_mount(
    request: MountRequest,
    directory: str,
    log_file: str | None,
    journal: str | None = None,
    versions: dict[str, Version] | None = None,
) -> MountHandle:
    """Claim the mount point in the runtime directory, and mount there.

    `log_file`, `journal`, `versions`: as in MountState. Raises the error that keeps
    the mount from coming up; nothing is left then.
    """
    place = request.mountpoint
    remove_old_logs(directory)
    reserve: list[int] = []
    hanging = dead_mount.await_death(directory, place)
    _refuse_hanging(place)
    with runtime_lock.claimed(directory, wait_s=_CLAIM_LIMIT_S):
        notice = dead_mount.take_away_dead(directory, place, hanging)
        # The state of a mount that others have detached, and that is still served.
        before = state.load(directory, place)
        if before is not None:
            refuse_unseen(directory, before)
        is_made = mountpoint.prepare(place, nonempty=request.options.nonempty)
        known = state.MountState(
            mountpoint=place,
            pack=request.title,
            packs=request.packs,
            began_s=time.time(),
            began_monotonic_s=time.monotonic(),
            process=Process.current(),
            created_mountpoint=is_made or (before is not None and before.created_mountpoint),
            log_file=log_file,
            journal=journal,
            versions=versions or {},
        )
        with contextlib.ExitStack() as undo:
            undo.callback(state.withdraw, directory, known)
            state.save(directory, known)
            undo.callback(_close_all, reserve)
            for _ in range(_RESERVE_COUNT):
                reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            with state.writing_to(directory):
                control = control_socket.listen(state.socket_path(directory, place))
            undo.enter_context(control)
            connection = kernel_mount.attach(place, request.source, request.options)
            undo.callback(kernel_mount.detach, place)
            undo.callback(os.close, connection)
            undo.callback(_close_all, reserve)
            entry = mount_at(place)
            assert entry is not None, "the kernel has mounted it"
            known = replace(known, device=entry.device)
            state.save(directory, known)
            undo.pop_all()
    kernel_mount.allow_more_requests(entry.device)
    return MountHandle(directory, known, entry, connection, control, notice, reserve)


def _refuse_hanging(place: str) -> None:
    """Raise FileSystemHangsError if the place does not answer; a mount of ours is not asked.

    Call it without the lock, which others need.
    """
    there = mount_at(place)
    if there is None or not there.is_ours:
        try:
            within_limit(place, lambda: mountpoint.is_occupied(place))
        except FileSystemHangsError:
            raise
        except OSError:
            pass  # prepare() says it


def take_over(kept: KeptMount, directory: str, log_file: str | None) -> MountHandle:
    """Return the mount that another daemon has made, which has died."""
    place = kept.state.mountpoint
    device = kept.entry.device  # a daemon of an earlier version has not recorded it
    known = replace(kept.state, process=Process.current(), log_file=log_file, device=device)
    with runtime_lock.locked(directory):
        # `ffrfs umount` may have detached it, and another daemon may have the place by now: then
        # this one only serves the files that are open, and commands cannot ask it.
        recorded = state.load(directory, place)
        is_lost = recorded is None and mount_at(place) == kept.entry  # as after a cleaning of /tmp
        is_known = is_lost or known.is_same_mount(recorded)
        control, is_recorded = None, True
        if is_known:
            try:
                control = control_socket.listen(state.socket_path(directory, place))
                state.save(directory, known)
                state.withdraw_others(directory, known)
            except OSError as error:  # the disk is full: readers must not notice
                log.warning("commands may not find this daemon: %s", describe(error))
                is_recorded = False
    reserve = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_RESERVE_COUNT)]
    died = f"the daemon before this one (process {kept.state.process.pid}) has died"
    notice = None if kept.is_renewal else died
    return MountHandle(
        directory, known, kept.entry, kept.connection, control, notice, reserve, is_recorded
    )


def _close_all(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())
