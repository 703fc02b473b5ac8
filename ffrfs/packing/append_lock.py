"""The lock of who adds to a set in a bucket: an object beside the shards.

Stores with conditional writes take it only once. Concurrency: one thread.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time

from ffrfs.errors import PackError, RemoteError
from ffrfs.packing.target_folder import TargetFolder
from ffrfs.remote.bucket import put_new
from ffrfs.remote.settings import RemoteSettings

# A name that readers of directories do not see.
_LOCK_NAME = ".ffrfs-append"
_LOCK_SIZE_MAX = 300


class AppendLock:
    """That of the set at the URL `path`. `owner`: an owner of that name has it already, too."""

    def __init__(self, path: str, owner: str | None = None) -> None:
        self._folder = TargetFolder(path)
        assert self._folder.url is not None
        self._url = self._folder.url.child(_LOCK_NAME)
        self._owner = f"{owner or secrets.token_hex(16)}\n".encode()
        self._is_taken = False

    def take(self) -> None:
        """Raises PackError if another process adds to the set, RemoteError."""
        since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        who = f"{socket.gethostname()}, process {os.getpid()}, since {since}\n"
        is_new = put_new(self._url, who.encode() + self._owner, RemoteSettings.from_environment())
        # The answer to a request that did its work may be lost, and the next one refused.
        if not is_new and self._text().partition(b"\n")[2] != self._owner:
            raise self._refusal()
        self._is_taken = True

    def names(self) -> set[str]:
        """The names in the directory, without its own. Raises PackError if another has it."""
        names = set(self._folder.names())
        if _LOCK_NAME in names and not self._is_taken:
            raise self._refusal()
        return names - {_LOCK_NAME}

    def _refusal(self) -> PackError:
        who = ""
        with contextlib.suppress(RemoteError):
            who = self._text().partition(b"\n")[0].decode("ascii", "replace")
        shown = who if who and who.isprintable() else "it does not say which"
        return PackError(
            f"{self._folder.path}: another process is adding to it ({shown}); wait for its end, or "
            f"remove {self._url.shown} if it was killed"
        )

    def _text(self) -> bytes:
        return self._folder.read(_LOCK_NAME, _LOCK_SIZE_MAX) or b""

    def close(self) -> None:
        if self._is_taken:
            self._is_taken = False
            with contextlib.suppress(RemoteError):
                if self._text().endswith(self._owner):
                    self._folder.remove(_LOCK_NAME)
