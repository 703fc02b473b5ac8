"""Keeps the state for the next daemon: with the service manager, or with a guardian.

Under a service manager its store of descriptors is used (sd_pid_notify_with_fds(3)). If the manager
drops them (it gives up, or the service is stopped before the next daemon has begun), it runs no
command, so a guardian removes the dead mount. A daemon in the foreground without a manager leaves
all that to the program that started it. All others have a guardian (native/guardian), which starts
another daemon when this one dies; if the guardian itself dies, it is replaced. The guardian of an
engine that cannot go on only ends a connection that a blocked thread of the killed daemon keeps.

Concurrency: the daemon's main thread. Not here: the kept state (kept_mount.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

from ffrfs.errors import describe
from ffrfs.files.interpreter import starting_process
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.daemon.kept_mount import FIGURES, NAMES, KeptMount
from ffrfs.mount.daemon.mount_handle import MountHandle
from ffrfs.mount.daemon.notify import Notifier
from ffrfs.mount.engines.engine import Engine, LastingEngine
from ffrfs.mount.engines.worker import beside_native
from ffrfs.mount.kernel import runtime_lock
from ffrfs.mount.kernel.process import Process
from ffrfs.mount.kernel.system_call import pidfd_open

FAILED_STATUS = 75  # EX_TEMPFAIL: a service manager starts it again
_COMMAND = ("-P", "-m", "ffrfs.mount.daemon.resume")
_END_LIMIT_S = 1.0
_PAUSE_S = 0.1  # before another guardian

log = logging.getLogger(__name__)


class Keeper:
    """Keeps the state of one mount, each time it changes, if its engine outlives the daemon."""

    def __init__(
        self, mount: MountHandle, engine: Engine, notifier: Notifier, kept: KeptMount | None
    ) -> None:
        """`kept`: the mount as it is now, with an earlier daemon's guardian if there is one."""
        self._mount = mount
        self._engine = engine
        self._notifier = notifier
        self._kept = kept
        self._child: subprocess.Popen[bytes] | None = None
        self._has_failed = False  # to start the guardian
        # To the guardian, which sends nothing: it becomes readable only when the guardian ends.
        self.socket: socket.socket | None = None
        if kept is not None and kept.guardian is not None:
            self.socket = socket.socket(fileno=kept.guardian)
            self.socket.setblocking(False)

    @property
    def starts(self) -> int:
        """How many daemons have gone on with the mount."""
        return 0 if self._kept is None else self._kept.daemon_starts

    @property
    def is_keeping(self) -> bool:
        """Whether another daemon goes on with the mount when this one ends."""
        return self._kept is not None and (
            self.socket is not None or self._notifier.keeps_descriptors
        )

    @property
    def has_next(self) -> bool:
        """As `is_keeping`, but also true while a guardian that has died is about to be replaced."""
        return self._kept is not None and (self._wants_guardian or self._notifier.keeps_descriptors)

    @property
    def _wants_guardian(self) -> bool:
        if self._kept is None:
            return False
        return not (self._kept.is_foreground or self._notifier.is_supervised)

    def begin(self, wait_s: float = 0) -> None:
        """Start the guardian, if the mount wants one and has none, and keep the mount.

        `wait_s`: how long to wait for the lock, to record the guardian before commands look for it.
        """
        try:
            if self._kept is None:
                self._watch_for_stuck()
            elif self._wants_guardian and self.socket is None:
                self._start_guardian()
            elif self._notifier.keeps_descriptors:
                self._mount.note_manager()
                if self._kept.sweeper is None:
                    self._start_sweeper(self._kept)
        except OSError as error:
            if not self._has_failed:
                loss = "a stop of the service may leave a dead mount"
                loss = loss if self._notifier.keeps_descriptors else "the mount ends"
                log.warning("no guardian: if this daemon dies, %s: %s", loss, describe(error))
            self._has_failed = True
        else:
            self._has_failed = False
        self._mount.record(wait_s)
        self.keep()

    async def watch(self) -> None:
        """Replace the guardian whenever it dies; try again where none could be started."""
        import trio  # here, not above: a mount is announced before its loop is imported

        from ffrfs.mount.engines.tick import tick

        while self._wants_guardian:
            if self.socket is None:
                await trio.sleep_until(tick())
            else:
                await trio.lowlevel.wait_readable(self.socket)
                log.warning("the guardian has died; another one begins")
                self.note_end()
                await trio.sleep(_PAUSE_S)
            self.begin()

    def keep(self, *, is_renewal: bool = False) -> bool:
        """Keep the mount as it is now; return False if neither manager nor guardian has taken it.

        `is_renewal`: this daemon ends by request.
        """
        if not self.is_keeping:
            return False
        try:
            found = replace(self.now(), is_renewal=is_renewal).descriptors()
            try:
                if self._notifier.keeps_descriptors:
                    if not self._notifier.keep(found):
                        return False
                elif self.socket is not None:
                    names = ":".join(found).encode("ascii")
                    socket.send_fds(self.socket, [names], list(found.values()))
            finally:
                os.close(found[FIGURES])
        except OSError as error:
            # A guardian that has died is about to be replaced, and the next one gets it.
            if self.socket is None or not isinstance(error, ConnectionError):
                log.warning("if this daemon dies, the mount ends: %s", describe(error))
            return False
        return True

    def note_request(self, request: MountRequest) -> None:
        """Note that the mount's configuration has changed."""
        if self._kept is not None:
            self._kept = replace(self._kept, request=request)
            self.keep()

    def hand_over(self, *, is_renewal: bool = False) -> None:
        """End this process, and let another daemon go on; return if nobody has taken the mount."""
        if self.keep(is_renewal=is_renewal):
            log.info("the next daemon begins")
            # Commands that are asking this daemon look there whether another one follows.
            self._mount.record(runtime_lock.LIMIT_S)
            logging.shutdown()
            os._exit(FAILED_STATUS)

    def now(self) -> KeptMount:
        """Return the mount as it is now, which must have a next daemon (`is_keeping`)."""
        assert self._kept is not None
        assert isinstance(self._engine, LastingEngine)
        return replace(self._kept, state=self._mount.state, engine=self._engine.kept())

    def _watch_for_stuck(self) -> None:
        entry = self._mount.entry
        process = pidfd_open(os.getpid())
        try:
            module = ("-P", "-m", "ffrfs.mount.kernel.dead_mount")
            command = [sys.executable, *module, str(process), entry.mountpoint, entry.device]
            self._child = _run_guardian(["--if-stuck", str(process), *command], [process])
        finally:
            os.close(process)

    def _start_guardian(self) -> None:
        place = self._mount.state.mountpoint
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as failed:
            failed.enter_context(ours)
            process = pidfd_open(os.getpid())
            fds = (theirs.fileno(), process)
            try:
                # The daemon ignores this argument; a list of processes shows its mount by it.
                command = [sys.executable, *_COMMAND, place]
                self._child = _run_guardian([*map(str, fds), *command], fds)
            finally:
                os.close(process)
            failed.pop_all()
        ours.setblocking(False)  # a guardian that is stopped must not hold up the daemon
        self.socket = ours
        if (guardian := Process.of(self._child.pid)) is not None:
            self._mount.note_guardian(guardian)

    def _start_sweeper(self, kept: KeptMount) -> None:
        """Start the guardian that removes the mount when neither daemon nor manager keeps it."""
        command = [sys.executable, "-P", "-m", "ffrfs", "umount", "--dead", kept.state.mountpoint]
        theirs, ours = os.pipe()
        with contextlib.ExitStack() as failed:
            failed.callback(os.close, ours)
            try:
                self._child = _run_guardian(["--when-left", str(theirs), *command], [theirs])
            finally:
                os.close(theirs)
            failed.pop_all()
        self._kept = replace(kept, sweeper=ours)

    def clear_store(self) -> None:
        """Let the service manager keep nothing: the next daemon that it starts mounts again."""
        if self._kept is not None and self._notifier.keeps_descriptors:
            self._notifier.keep_none(NAMES)

    def forget(self) -> None:
        """Keep nothing: the mount ends with this daemon."""
        self.clear_store()
        if self._kept is not None and self._kept.sweeper is not None:
            with contextlib.suppress(OSError):
                os.write(self._kept.sweeper, b"-")
            os.close(self._kept.sweeper)
        if self.socket is not None:
            with contextlib.suppress(OSError):
                self.socket.send(b"-")  # a name without a descriptor
            self.note_end()
        elif self._child is not None:
            self._child.kill()
            self._child.wait()

    def note_end(self) -> None:
        """Note that the guardian has ended."""
        assert self.socket is not None
        self.socket.close()
        self.socket = None
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_END_LIMIT_S)


def _run_guardian(arguments: Sequence[str], fds: Sequence[int]) -> subprocess.Popen[bytes]:
    guardian = beside_native("ffrfs-guardian")
    if guardian is None:
        raise FileNotFoundError("the installation of ffrfs was removed")
    with starting_process():
        return subprocess.Popen(
            [guardian, *arguments],
            pass_fds=fds,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
