"""The output of a conversion on this machine.

Not here: writing a file (target.py and others), buckets (bucket_output.py).
Concurrency: one thread.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager

from ffrfs.errors import PackError
from ffrfs.files.replacing import refuse_standard_output
from ffrfs.files.staged_file import staged_folder, sync_folder


class Output:
    """A file, or a new directory, at `path`, which is the user's name.

    `force`: the output may replace a file at `place`.
    """

    def __init__(self, path: str, *, force: bool) -> None:
        self.path = path
        self.place = path  # at which a single file is written
        self.force = force

    def shard_folder(self) -> AbstractContextManager[str]:
        """Return a context with the directory for shards; at its end they are at `path`."""
        return staged_set(self.path)

    def written(self, place: str) -> None:
        """Take the file at `place`, which is complete."""

    def finish(self) -> None:
        """Finish the output: all files are complete."""


@contextlib.contextmanager
def staged_set(path: str) -> Iterator[str]:
    """Yield a directory that becomes `path` if the block ends well; else it is removed.

    Raises PackError if `path` exists already, unless it is an empty directory.
    """
    refuse_standard_output(path)
    place = os.path.realpath(path)
    if os.path.lexists(place) and not (os.path.isdir(place) and not os.listdir(place)):
        raise PackError(f"{path}: exists already; write into a new directory")
    above, name = os.path.split(place)
    with staged_folder(above, name, path) as staging:
        yield staging
        sync_folder(staging)
        os.rename(staging, place)
        sync_folder(above)
