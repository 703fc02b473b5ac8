"""The lock of a process that adds to a set in a bucket: an object beside the shards.

Stores with conditional writes take the object only once. It names the process, the namespace of its
number and the boot of its machine. If these are the same and the process is dead, or it is this one
and left the lock, the next command replaces it, on condition that no other has done so.

Concurrency: one thread uses a lock; all threads share the list of those that were left.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import time

from ffrfs.errors import ChangedAtOriginError, PackError, RemoteError
from ffrfs.files.closing import Closing
from ffrfs.packing.target_folder import TargetFolder
from ffrfs.remote.bucket import bytes_of, pin_of, put_new, put_over
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings

# A name that readers of directories do not see.
_LOCK_NAME = ".ffrfs-append"
_LOCK_SIZE_MAX = 300
# The second line: the process, and the number of the first shard that it adds.
_PROCESS = re.compile(rb"\n([0-9a-f-]{36} pid:\[[0-9]{1,20}\] ([1-9][0-9]{0,8})), ([0-9]{1,6})\n")
_left_owners: list[bytes] = []  # of the locks that this process has left


class AppendLock(Closing):
    """The lock of the set at the URL `path`.

    `owner`: commands of this owner share it, on any machine. Without an owner, the lock belongs to
    this process; when the process is dead, the next one on the machine replaces its lock.
    """

    def __init__(self, path: str, owner: str | None = None) -> None:
        self._folder = TargetFolder(path)
        assert self._folder.url is not None
        self._url = self._folder.url.child(_LOCK_NAME)
        self._settings = RemoteSettings.from_environment()
        self._is_shared = owner is not None
        self._owner = f"{owner or secrets.token_hex(16)}\n".encode()
        self._dead: Pin | None = None
        self._text_of_dead = b""
        self.first_of_dead: int | None = None  # the first shard that a dead process has added
        self.is_taken = False

    def take(self, first: int = 0) -> None:
        """Put the lock; `first` is the number of the first new shard.

        Raises PackError if another process adds to the set, RemoteError.
        """
        since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        who = f"{socket.gethostname()}, process {os.getpid()}, since {since}\n".encode()
        if not self._is_shared:
            self._owner = f"{_name_of(os.getpid())}, {first}\n".encode() + self._owner
        if self._dead is None:
            is_put = put_new(self._url, who + self._owner, self._settings)
        else:
            is_put = put_over(self._dead, who + self._owner, self._settings)
        # The answer to a successful request may be lost, and the repeated request refused.
        if not is_put and self._text(self._pin()).partition(b"\n")[2] != self._owner:
            raise self._refusal()
        self.is_taken = True

    def names(self) -> set[str]:
        """Return the names in the directory without the lock's.

        Raises PackError if another process has the lock. If that process is dead, or this one left
        the lock, sets `first_of_dead`; then take() replaces the lock. As long as it is set, close()
        puts the old lock back.
        """
        names = set(self._folder.names())
        if _LOCK_NAME in names and not self.is_taken and not self._find_dead():
            raise self._refusal()
        return names - {_LOCK_NAME}

    def _find_dead(self) -> bool:
        pin = self._pin()
        text = self._text(pin)
        found = _PROCESS.search(text)
        if found is None:
            return False
        is_left = text.endswith(tuple(_left_owners))
        if not is_left and not _is_dead(found[1].decode(), int(found[2])):
            return False
        self._dead, self._text_of_dead, self.first_of_dead = pin, text, int(found[3])
        return True

    def _refusal(self) -> PackError:
        who = ""
        with contextlib.suppress(RemoteError):
            who = self._text(self._pin()).partition(b"\n")[0].decode("ascii", "replace")
        shown = who if who and who.isprintable() else "it does not say which"
        return PackError(
            f"{self._folder.path}: another process is adding to it ({shown}); wait for its end, or "
            f"remove {self._url.shown} if it was killed"
        )

    def _pin(self) -> Pin | None:
        return pin_of(self._url, self._settings)

    def _text(self, pin: Pin | None) -> bytes:
        if pin is None:
            return b""
        try:
            return bytes_of(pin, 0, min(pin.size, _LOCK_SIZE_MAX), self._settings)
        except ChangedAtOriginError:  # its process has removed it, or another replaced it
            return b""

    def leave(self) -> None:
        """Let the next command of this process replace the lock, as if the process were dead."""
        _left_owners.append(self._owner)

    def close(self) -> None:
        if self.is_taken:
            self.is_taken = False
            with contextlib.suppress(RemoteError):
                pin = self._pin()
                if not self._text(pin).endswith(self._owner):
                    return
                if pin is not None and self.first_of_dead is not None:
                    put_over(pin, self._text_of_dead, self._settings)
                else:
                    self._folder.remove(_LOCK_NAME)


def _name_of(pid: int) -> str:
    """Name a process of this process namespace as no other machine, boot or namespace does."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')} {pid}"


def _is_dead(name: str, pid: int) -> bool:
    """Return whether the process has surely ended: not if it may be on another machine."""
    if name != _name_of(pid):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass  # it is another user's, and lives
    return False
