"""One pack, from its first record to its index.

Concurrency: any thread; the file is complete under its name, or is not there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from ffrfs._native import Writer
from ffrfs.files.leftovers import remove_leftovers_beside
from ffrfs.files.replacing import keeping, may_replace
from ffrfs.packing.sources.contents import Contents, Tick
from ffrfs.packing.sources.existing_set import ShardOf


class Run(NamedTuple):
    """The records of a list that become one pack."""

    first: int
    record_count: int


@contextlib.contextmanager
def writing(path: str, record_count: int, *, force: bool = False) -> Iterator[Writer]:
    """Yield a writer for so many records, the index among them; an error leaves no file.

    Raises PackError if a file exists, unless `force`.
    """
    replace = may_replace(path, force)
    remove_leftovers_beside(path)
    writer = Writer(os.fsencode(path), record_count)
    try:
        yield writer
        with keeping(path):
            # Checked again, because an empty file may have been filled meanwhile.
            writer.finish(replace=replace and may_replace(path, force))
    finally:
        writer.abort()


def write_pack(  # noqa: PLR0913 - all that a pack is made of
    contents: Contents,
    path: str,
    run: Run,
    jobs: int,
    tick: Tick,
    *,
    shard: ShardOf | None = None,
    force: bool = False,
) -> None:
    """Write the records of `run`, and their index.

    Raises PackError, OSError.
    """
    with writing(path, run.record_count + 1, force=force) as writer:
        contents.append(writer, run.first, run.record_count, jobs, tick)
        writer.append_index(contents.entries, run.first, run.record_count, shard=shard)
