"""pack_folder: a folder tree into one FFRecord file.

Not here: which files, in which order (source.py); the index (index.py); reading and
writing, in threads (native core). Concurrency: call it from any thread; the file that
comes out is complete or is not there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from ffrfs._native import Writer
from ffrfs.folder.index import index_record
from ffrfs.folder.progress import Progress, ProgressBar
from ffrfs.folder.selection import Selection
from ffrfs.folder.source import FolderIdentity, Source

# Files given to the core at a time: their paths are in memory twice.
_BATCH_COUNT = 16384
# More threads than cores: where the files are not in the page cache, threads wait.
_JOBS_LEAST = 4
_JOBS_MOST = 16


class PackSummary(NamedTuple):
    file_count: int
    folder_count: int
    byte_count: int
    skipped: list[str]  # paths of what was left out for skip_special


def pack_folder(  # noqa: PLR0913 - the reference's three, and what ours adds
    folder: str | os.PathLike[str],
    out_file: str | os.PathLike[str],
    verbose: bool = False,
    *,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    skip_special: bool = False,
) -> PackSummary:
    """Pack all files below `folder` into `out_file`, which then holds them or is not made.

    Links are followed. `include` and `exclude` are shell patterns, for a name or, with a
    slash, for a path below `folder`; an excluded folder is not entered, an included one
    is taken whole. `jobs` threads read. `verbose` shows a progress bar.

    Raises PackError, naming the file: one that changes meanwhile, a link that leads
    nowhere or in a loop; sockets, FIFOs, devices and names that are not UTF-8, unless
    `skip_special` leaves those out. Raises OSError for what cannot be read or written.
    """
    if jobs is not None and jobs < 1:
        raise ValueError(f"cannot pack with {jobs} jobs")
    target = os.fspath(out_file)
    source = Source(
        os.fspath(folder),
        selection=Selection(include, exclude),
        skip_special=skip_special,
        forbidden=FolderIdentity.of(os.stat(os.path.dirname(os.path.realpath(target)))),
    )
    with ProgressBar(target, shown=verbose) as bar:
        _write(source, target, jobs or _default_jobs(), [bar, *([progress] if progress else [])])
    return PackSummary(source.file_count, source.folder_count, source.byte_count, source.skipped)


def _default_jobs() -> int:
    return max(_JOBS_LEAST, min(_JOBS_MOST, os.cpu_count() or 1))


def _write(source: Source, target: str, jobs: int, watchers: list[Progress]) -> None:
    writer = Writer(os.fsencode(target), source.file_count + 1)
    try:
        files = source.files()
        files_before = bytes_before = 0

        def tick(file_count: int, byte_count: int) -> None:
            for watcher in watchers:
                watcher(
                    files_before + file_count,
                    source.file_count,
                    bytes_before + byte_count,
                    source.byte_count,
                )

        while batch := list(islice(files, _BATCH_COUNT)):
            writer.append_files(batch, jobs, tick)
            files_before += len(batch)
            bytes_before += sum(size for _, size in batch)
        writer.append(index_record(source.tree))
        writer.finish()
    finally:
        writer.abort()
