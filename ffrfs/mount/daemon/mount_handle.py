"""The mount that a daemon makes, and what goes with it: state file, control socket.

Concurrency: blocking. A runtime directory's lock is held from looking to acting, so two
daemons never claim one place.

Not here: the kernel's side (kernel_mount.py), serving it (daemon.py).
"""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass

from ffrfs.mount import control_socket, dead_mount, kernel_mount, mountpoint, state
from ffrfs.mount.mount_table import MountEntry, mount_at
from ffrfs.mount.process import Process
from ffrfs.mount.request import MountRequest


@dataclass(frozen=True)
class OwnMount:
    """A mount of ours, and what goes with it."""

    directory: str
    state: state.MountState
    entry: MountEntry
    connection: int
    control: socket.socket  # listening
    notice: str | None  # what a dead daemon had left there, and is gone

    def take_away(self) -> bool:
        """Unmount and clean up; True: it was busy. Harmless when it is gone already."""
        place = self.state.mountpoint
        with state.locked(self.directory):
            known = state.load(self.directory, place)
            if known is not None and known != self.state:
                return False  # ours is gone; another daemon has the place
            # Something else on top: ours was unmounted by others, or is covered. Device
            # numbers alone do not tell: the kernel gives them out again at once.
            busy = kernel_mount.detach(place) if mount_at(place) == self.entry else False
            state.forget(self.directory, self.state)
            return busy

    def abort(self) -> None:
        """End the connection by force; harmless when it has ended."""
        kernel_mount.abort(self.connection, self.entry)


def make_mount(request: MountRequest, directory: str, log_file: str | None) -> OwnMount:
    """Claim the mount point in the runtime directory, and mount there.

    Raises why that cannot be; nothing is left then.
    """
    place = request.mountpoint
    with state.locked(directory):
        notice = dead_mount.take_away_dead(directory, place)
        # Of a mount that others have detached, and that is served on: the folder is ours now.
        before = state.load(directory, place)
        is_made = mountpoint.prepare(place, nonempty=request.options.nonempty)
        known = state.MountState(
            mountpoint=place,
            pack=request.title,
            packs=request.packs,
            began_s=time.time(),
            process=Process.current(),
            created_mountpoint=is_made or (before is not None and before.created_mountpoint),
            log_file=log_file,
        )
        with contextlib.ExitStack() as undo:
            undo.callback(state.forget, directory, known)
            state.save(directory, known)
            control = control_socket.listen(state.socket_path(directory, place))
            undo.enter_context(control)
            connection = kernel_mount.attach(place, request.source, request.options)
            undo.pop_all()
        entry = mount_at(place)
    assert entry is not None, "the kernel has mounted it"
    kernel_mount.allow_more_requests(entry.device)
    return OwnMount(directory, known, entry, connection, control, notice)
