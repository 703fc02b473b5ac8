"""Tells the service manager the state of the mount: sd_notify(3), without its library.

A message is one datagram of `NAME=value` lines to the socket that NOTIFY_SOCKET names, a
path or, after "@", an abstract name. Under a manager that wants a watchdog, WATCHDOG_USEC
says how often it must be fed, and WATCHDOG_PID by which process.

A process that runs `ffrfs mount` in the background does not serve: it makes the Notifier,
and the daemon that it forks uses it, and tells the manager the daemon's pid.

Concurrency: called from the daemon's loop. A message may wait up to SEND_TIMEOUT_S for
a manager that takes none; a feed never waits. A message that cannot be sent is logged, and
never ends a mount.

Not here: when the watchdog may be fed (watchdog.py).
"""

from __future__ import annotations

import logging
import os
import socket
import time
from array import array
from collections.abc import Iterable, Mapping, MutableMapping, Sequence

from ffrfs.printable import printable

SEND_TIMEOUT_S = 1.0
# The length of STATUS; the manager takes messages of up to 4096 bytes.
_STATUS_CHARS_MAX = 1000
# A watchdog interval of more than a year is taken for a mistake.
_WATCHDOG_USEC_LIMIT = 366 * 24 * 3600 * 1_000_000

log = logging.getLogger(__name__)


class Notifier:
    """Sends messages to a service manager, if there is one."""

    def __init__(
        self,
        address: str | None,
        *,
        watchdog_interval_s: float | None = None,
        is_main: bool = True,
        keeps_descriptors: bool = False,
    ) -> None:
        """`address` is the text of NOTIFY_SOCKET; None: there is no service manager.

        `is_main`: the manager takes the process that makes this for the service's main process.
        """
        self.watchdog_interval_s = watchdog_interval_s  # between feeds; None: no watchdog
        self.keeps_descriptors = keeps_descriptors  # for the next start of the service
        self._address = address
        self._main_pid = os.getpid() if is_main else None
        self._is_stopping = False
        self._has_failed = False

    @classmethod
    def from_environment(cls, environment: MutableMapping[str, str] | None = None) -> Notifier:
        """Return a notifier for the service manager that the environment names, if any.

        Removes the variables: a child process that inherited them would speak for the daemon.
        """
        if environment is None:
            environment = os.environ
        address = _checked(environment.pop("NOTIFY_SOCKET", None))
        usec = environment.pop("WATCHDOG_USEC", None)
        watched_pid = environment.pop("WATCHDOG_PID", None)
        is_watched = address is not None and watched_pid in (None, str(os.getpid()))
        is_main = environment.get("SYSTEMD_EXEC_PID") in (None, str(os.getpid()))
        return cls(
            address,
            watchdog_interval_s=_interval_s(usec) if is_watched and usec else None,
            # Set by systemd since version 254, and in our unit. The main process gets them back.
            keeps_descriptors=address is not None and is_main and "FDSTORE" in environment,
            is_main=is_main,
        )

    @property
    def is_active(self) -> bool:
        """Whether there is a service manager."""
        return self._address is not None

    @property
    def is_supervised(self) -> bool:
        """Whether a service manager takes the daemon for its service's main process."""
        return self.is_active and self._main_pid is not None

    def ready(self, status: str) -> None:
        """Say that the tree answers, or that a reload has ended."""
        lines = ["READY=1", _status(status)]
        if self._main_pid not in (None, os.getpid()):
            # This is the daemon of the process that the manager has started, which ends.
            lines.append(f"MAINPID={os.getpid()}")
        self._send(*lines)

    def status(self, text: str) -> None:
        """Set the line that the manager shows beside the service."""
        self._send(_status(text))

    def reloading(self) -> None:
        """Say that the configuration is being read again; ready() ends that."""
        monotonic_usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={monotonic_usec}")

    def stopping(self) -> None:
        """Say that the mount is being removed; it is the last message."""
        self._send("STOPPING=1")
        self._is_stopping = True

    def keep(self, descriptors: Mapping[str, int]) -> bool:
        """Let the manager keep copies for the next daemon, in place of those it has by these names.

        Return whether it has got them.
        """
        for name, fd in descriptors.items():
            # FDPOLL: the manager would drop the connection of a dead worker.
            stored = ("FDSTORE=1", f"FDNAME={name}", "FDPOLL=0")
            if not (self._send(*_removed(name)) and self._send(*stored, fds=(fd,))):
                return False
        return True

    def keep_none(self, names: Iterable[str]) -> None:
        """Let the manager close the descriptors that it keeps under these names."""
        for name in names:
            if not self._send(*_removed(name)):
                return

    def feed(self) -> None:
        """Feed the watchdog, every `watchdog_interval_s`. A feed that would wait is dropped."""
        self._send("WATCHDOG=1", timeout_s=0)

    def _send(
        self, *lines: str, timeout_s: float = SEND_TIMEOUT_S, fds: Sequence[int] = ()
    ) -> bool:
        """Send a message; return whether the manager has got it."""
        if self._address is None or self._is_stopping:
            return False
        address = self._address
        name = b"\0" + os.fsencode(address[1:]) if address[0] == "@" else os.fsencode(address)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.settimeout(timeout_s)
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))
                text = "\n".join(lines).encode()
                sending.sendmsg([text], [rights] if fds else [], 0, name)
                return True
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                log.warning(
                    "NOTIFY_SOCKET=%s: %s: the service manager gets no notifications",
                    address,
                    error.strerror or error,
                )
        return False


def _removed(name: str) -> tuple[str, str]:
    return "FDSTOREREMOVE=1", f"FDNAME={name}"


def _checked(address: str | None) -> str | None:
    if address is None or address[:1] in ("/", "@"):
        return address
    log.warning("NOTIFY_SOCKET=%s: neither a path nor an abstract name: ignored", address)
    return None


def _interval_s(usec: str) -> float | None:
    """Return half of the time after which the manager kills the service."""
    if usec.isascii() and usec.isdigit() and 0 < int(usec[:20]) < _WATCHDOG_USEC_LIMIT:
        return int(usec) / 2 / 1e6
    log.warning("WATCHDOG_USEC=%s: not a number of microseconds: the watchdog is off", usec)
    return None


def _status(text: str) -> str:
    return f"STATUS={printable(text)[:_STATUS_CHARS_MAX]}"
