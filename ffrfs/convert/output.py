"""Where the files of a conversion go: to their names on this machine.

Not here: writing a file (target.py and others), buckets (bucket_output.py).
Concurrency: one thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from ffrfs.errors import PackError
from ffrfs.files.replacing import may_replace
from ffrfs.files.staged_file import staged_folder, sync_folder


class Output(Protocol):
    """`path`: as the user names it. `place`: where a single file is written.

    `force`: it may replace a file that is at `place`.
    """

    path: str
    place: str
    force: bool

    def shard_folder(self) -> AbstractContextManager[str]:
        """The directory in which shards are written; they are `path` when it ends."""
        ...

    def written(self, place: str) -> None:
        """A file is whole."""
        ...

    def finish(self) -> None:
        """All are."""
        ...


class LocalOutput:
    """A file, or, if `is_set`, a new directory, at `path`.

    Raises PackError if there is a file already, unless `force`.
    """

    def __init__(self, path: str, *, is_set: bool, force: bool) -> None:
        self.path = self.place = path
        self.force = force
        if not is_set:
            may_replace(path, force)

    def shard_folder(self) -> AbstractContextManager[str]:
        return staged_set(self.path)

    def written(self, place: str) -> None:
        pass

    def finish(self) -> None:
        pass


@contextlib.contextmanager
def staged_set(path: str) -> Iterator[str]:
    """Give a directory that becomes `path` if the block ends well; else it goes.

    Raises PackError if something is at `path` already, except for an empty directory.
    """
    place = os.path.realpath(path)
    if os.path.lexists(place) and not (os.path.isdir(place) and not os.listdir(place)):
        raise PackError(f"{path}: is there already; write into a new directory")
    above, name = os.path.split(place)
    with staged_folder(above, name, path) as staging:
        yield staging
        sync_folder(staging)
        os.rename(staging, place)
        sync_folder(above)
