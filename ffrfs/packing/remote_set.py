"""A pack set in a bucket that more shards are added to, by one at a time.

Who adds puts an object of its own beside the shards, which stores with conditional writes take
only once; before each shard the directory is looked at again, too. A reader sees no shard
missing at any time: shards come in the order of their numbers.

Not here: making and uploading shards (remote_pack_writer.py).
Concurrency: one thread at a time; is_next() is for any.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time

from ffrfs.errors import PackError, RemoteError
from ffrfs.packing.bucket_target import BucketTarget
from ffrfs.packing.pack_set_writer import identity_of, shard_name
from ffrfs.packing.sources.existing_set import ExistingSet
from ffrfs.remote.bucket import bytes_of, pin_of, put_new, remove, urls_in
from ffrfs.remote.paths import let_urls_in
from ffrfs.remote.url import RemoteUrl

# A name that readers of directories do not see.
_LOCK_NAME = ".ffrfs-append"
_LOCK_SIZE_MAX = 300
_SUFFIX = ".ffr"


class RemoteSet:
    """The set in the directory `target`. Raises PackError if there is none, FormatError,
    ChecksumError, RemoteError.
    """

    def __init__(self, target: BucketTarget) -> None:
        self.path = target.path
        self._settings = target.settings
        self._folder = target.url
        self._lock_url = target.url.child(_LOCK_NAME)
        self._is_locked = False
        self._names = self._listed()
        packs = [target.url.child(name) for name in sorted(self._names) if _is_pack(name)]
        if not packs:
            raise PackError(
                f"{self.path}: holds no packs to add to; make the set first: ffrfs pack "
                f"--shards N SRC {self.path}"
            )
        self._first = packs[0]
        # Before it is opened: what changes from now on is noticed.
        self._first_pin = pin_of(self._first, self._settings)
        texts = [url.text for url in packs]
        let_urls_in(texts)
        self.existing = ExistingSet(texts)
        try:
            self.id, self.shard_count = identity_of(texts, self.existing.shards())
        except BaseException:
            self.existing.close()
            raise
        self._next = self.shard_count

    def lock(self) -> None:
        """Raises PackError if another process adds to it."""
        since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        who = f"{socket.gethostname()}, process {os.getpid()}, since {since}"
        text = f"{who}\n{secrets.token_hex(16)}\n".encode()
        # The answer to a request that did its work may be lost, and the next one refused.
        if not put_new(self._lock_url, text, self._settings) and self._lock_text() != text:
            raise self._locked()
        self._is_locked = True

    def is_next(self, url: RemoteUrl) -> bool:
        return url == self._folder.child(shard_name(self._next))

    def check(self, url: RemoteUrl) -> None:
        """Raise PackError if the set has been changed by others, or has an object `url`."""
        if url.key.removeprefix(self._folder.key) in self._names:
            raise PackError(f"{url.shown}: exists already; nothing was added")
        is_same = pin_of(self._first, self._settings) == self._first_pin
        if not is_same or self._listed() != self._names:
            raise PackError(f"{self.path}: was changed meanwhile; nothing was added; try again")

    def note(self, url: RemoteUrl) -> None:
        """A shard was added."""
        self._names.add(url.key.removeprefix(self._folder.key))
        self._next += 1

    def _listed(self) -> set[str]:
        """The names in the directory, without ours. Raises PackError if another's is there."""
        found = urls_in(self._folder, self._settings)
        shown = [text.removeprefix(self._folder.text) for text in found]
        if _LOCK_NAME in shown and not self._is_locked:
            raise self._locked()
        return {name for name in shown if name != _LOCK_NAME}

    def _locked(self) -> PackError:
        with contextlib.suppress(RemoteError):
            who = self._lock_text().partition(b"\n")[0].decode("ascii", "replace")
            if who and who.isprintable():
                return self._locked_by(who)
        return self._locked_by("it does not say which")

    def _locked_by(self, who: str) -> PackError:
        return PackError(
            f"{self.path}: another process is adding to it ({who}); wait for its end, or remove "
            f"{self._lock_url.shown} if it was killed"
        )

    def _lock_text(self) -> bytes:
        pin = pin_of(self._lock_url, self._settings)
        return bytes_of(pin, 0, min(pin.size, _LOCK_SIZE_MAX), self._settings) if pin else b""

    def close(self) -> None:
        self.existing.close()
        if self._is_locked:
            self._is_locked = False
            with contextlib.suppress(RemoteError):
                remove(self._lock_url, self._settings)


def _is_pack(name: str) -> bool:
    return name.endswith(_SUFFIX) and not name.startswith(".")
