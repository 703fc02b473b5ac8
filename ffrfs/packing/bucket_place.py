"""Packs that go to a bucket: one, a new set, or more shards of an existing set.

Two packs are under way at a time, so that one is uploaded while the next is made: local space for
two suffices. If anything fails, the uploaded shards of a set are removed again. After a SIGKILL, or
if the server refuses to remove them, some remain: a new set that lacks shards cannot be opened,
and shards that were added are whole.

A process that adds to a set holds its lock; before each shard it also checks the directory again.
Shards appear in the order of their numbers, so a reader sees no shard missing at any time.

Not here: the lock (append_lock.py), the temporary directory and the upload (bucket_target.py).
Concurrency: give() is for any thread; the rest for one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ffrfs.errors import PackError
from ffrfs.packing.append_lock import AppendLock
from ffrfs.packing.bucket_target import BucketTarget
from ffrfs.packing.places import Place, Sent, shard_name
from ffrfs.packing.sources.existing_set import ExistingSet, ShardOf, packs_in
from ffrfs.packing.sources.folder_lister import FolderIdentity
from ffrfs.packing.sources.options import PackOptions
from ffrfs.remote.bucket import pin_of, remove
from ffrfs.remote.url import RemoteUrl, parse_url

_TURN_S = 0.1


class BucketPlace(Place):
    """The pack at a URL, or the set in the directory there.

    Raises PackError if an object exists that must not be replaced, RemoteError, OSError.
    """

    at_a_time = 2
    uploads = True

    def __init__(self, path: str, options: PackOptions) -> None:
        super().__init__(path, options)
        tmp_dir = None if options.tmp_dir is None else os.fspath(options.tmp_dir)
        self._target = self._ends.enter_context(
            BucketTarget(path, is_set=options.is_set, tmp_dir=tmp_dir, as_in="data.ffr")
        )
        self.force = True  # files in the temporary directory may be replaced
        self._lock = self._ends.enter_context(AppendLock(path)) if options.append else None
        self._is_dry_run = options.dry_run
        self._names: set[str] = set()
        self._given = 0
        try:
            if self._lock is not None:
                self._open(self._lock)
            elif options.is_set:
                self._target.refuse_content(can_append=True)
            else:
                self._target.may_replace(options.force)
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> FolderIdentity:
        return self._target.identity

    @property
    def spool(self) -> str:
        return os.path.join(self._target.folder, "spool")

    @contextmanager
    def writing(self) -> Iterator[None]:
        try:
            if self._lock is not None and not self._lock.is_taken and self.existing:
                self._lock.take(self.existing.count)
            yield
        except BaseException:
            if self._lock is None:
                self._target.take_back()
            elif self._lock.is_taken:
                # If the server refuses to remove a shard, the shards before it stay, so that the
                # set lacks none; and the lock stays, by which the next command removes them.
                self._lock.is_taken = False
                self._lock.is_taken = self._target.take_back(stops=True)
                if not self._lock.is_taken:
                    self._lock.leave()
            raise

    def shard(self, set_id: bytes, number: int, count: int) -> ShardOf | None:
        if not self._target.is_set:
            return None
        if self.existing is None:
            return set_id, number, count
        # Each shard counts the shards before it, so that the set is complete at any time.
        number += self.existing.count
        return self.existing.id, number, number + 1

    def place_of(self, number: int) -> str:
        return self._target.place_of(self._url_of(number))

    def give(self, number: int, sent: Sent) -> None:
        url = self._url_of(number)
        size = os.path.getsize(self._target.place_of(url))
        if self._lock is not None:
            while number != self._given:
                sent(0, size)  # may raise, to end the packing
                time.sleep(_TURN_S)
            self._check(url, self._lock)
        self._target.send(url, lambda done: sent(done, size))
        self.say(f"upload: {os.path.basename(url.key)} to {url.shown} ({size:,} bytes)")
        self._names.add(os.path.basename(url.key))
        self._given += 1

    def _url_of(self, number: int) -> RemoteUrl:
        url = self._target.url
        if not self._target.is_set:
            return url
        return url.child(shard_name(number + (self.existing.count if self.existing else 0)))

    def _open(self, lock: AppendLock) -> None:
        """Open the existing set, to add to it."""
        self._names = lock.names()
        if lock.first_of_dead is not None and not self._is_dry_run:
            self._take_over(lock, lock.first_of_dead)
        self._first = parse_url(packs_in(self._target.url.text)[0])
        # Listed before the set is opened, so that later changes are noticed.
        self._first_pin = pin_of(self._first, self._target.settings)
        self.existing = self._ends.enter_context(ExistingSet(self._target.url.text))

    def _take_over(self, lock: AppendLock, first: int) -> None:
        """Remove the shards that a dead process has added."""
        lock.take(first)
        number = first
        while shard_name(number) in self._names:
            number += 1
        while number > first:
            number -= 1
            remove(self._target.url.child(shard_name(number)), self._target.settings)
        lock.first_of_dead = None
        self._names = lock.names()

    def _check(self, url: RemoteUrl, lock: AppendLock) -> None:
        """Raise PackError if the set has been changed by others, or has an object `url`."""
        if os.path.basename(url.key) in self._names:
            raise PackError(f"{url.shown}: exists already; nothing was added")
        is_same = pin_of(self._first, self._target.settings) == self._first_pin
        if not is_same or lock.names() != self._names:
            raise PackError(f"{self.path}: was changed meanwhile; nothing was added; try again")
