"""pack_folder, pack_archive: a folder tree into one FFRecord file, or into a set of them.

Not here: which files (source.py, archive.py) and in which order (order.py, duplicates.py);
one pack (pack_file.py), a set (pack_set_writer.py); reading and writing, in threads (native
core). Concurrency: call it from any thread; what comes out is complete or is not there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import NamedTuple, get_args

from ffrfs._native import Manifest
from ffrfs.errors import PackError
from ffrfs.folder.progress import Progress, ProgressBar
from ffrfs.packing.contents import Contents, Symlinks
from ffrfs.packing.duplicates import share_duplicates
from ffrfs.packing.existing_set import ExistingSet
from ffrfs.packing.order import Order, number
from ffrfs.packing.pack_file import Run, write_pack
from ffrfs.packing.pack_set_writer import PackSetWriter
from ffrfs.packing.replaced_file import refuse_other_than_pack
from ffrfs.packing.selection import Selection
from ffrfs.packing.source import FolderIdentity, Source

# More threads than cores: where the files are not in the page cache, threads wait.
_JOBS_LEAST = 4
_JOBS_MOST = 16

# Files whose numbers are in memory at a time.
_BATCH_COUNT = 1 << 16

# Seconds since 1970: the time that all has in a reproducible pack. https://reproducible-builds.org
_EPOCH_VARIABLE = "SOURCE_DATE_EPOCH"
_NS_PER_S = 1_000_000_000
_LARGEST_TIME_S = (2**63 - 1) // _NS_PER_S


class PackSummary(NamedTuple):
    file_count: int
    folder_count: int
    byte_count: int
    skipped: list[str]  # paths of what was left out for skip_special
    link_count: int = 0  # links that were kept
    shared_count: int = 0  # files that show the bytes of another
    stored_byte_count: int = 0  # of the files, each stored once
    shard_count: int = 0  # packs that were written as shards; 0: one pack
    followed_link_count: int = 0
    left_out_link_count: int = 0


class _Target(NamedTuple):
    """Where it goes, and in how many packs."""

    path: str
    shards: int | None
    shard_size: int | None
    append: bool
    force: bool  # replace a file that is not a pack

    @property
    def is_set(self) -> bool:
        return self.append or self.shards is not None or self.shard_size is not None

    def runs(self, listed: Manifest) -> list[Run]:
        if self.shard_size is not None:
            runs = listed.split_by_size(self.shard_size)
        else:
            runs = listed.split(self.shards or 1)
        return [Run(*run) for run in runs]


class _Way(NamedTuple):
    """How it is packed."""

    jobs: int
    order: Order | None  # None: the contents' own
    dedup: bool
    time_ns: int | None  # that all is given, to be reproducible


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
    symlinks: Symlinks = "inside",
    dedup: bool = False,
    order: Order | None = None,
    reproducible: bool = False,
    shards: int | None = None,
    shard_size: int | None = None,
    append: bool = False,
    force: bool = False,
) -> PackSummary:
    """Pack all files below `folder` into `out_file`, which then holds them or is not made.

    `include` and `exclude` are shell patterns, for a name or, with a slash, for a path below
    `folder`; an excluded folder is not entered, an included one is taken whole, and each
    pattern to include must match something. `jobs` threads read. `verbose` shows a progress bar.

    `symlinks`: "inside" follows links that stay inside `folder`, and links that lead out of it
    are an error; "follow" follows all; "keep" packs the links; "skip" leaves them out.

    `dedup` stores files that are equal byte for byte once. `order` of the records: "path"
    (None, the reference's), "size" (the smallest first), or a file that names one path a
    line, those that it does not name behind. `reproducible`, or SOURCE_DATE_EPOCH in the
    environment: the same files give the same bytes; they are shown with that time, or 1970,
    and permissions 0644 or 0755.

    With `shards` (how many) or `shard_size` (bytes) `out_file` is a new folder of packs, each
    of which can be read alone. With `append` it is such a folder, and packs are added to it
    (one, unless the others say how many), none of whose paths may be there already.

    `out_file` may be a pack or an empty file, which is replaced; with `force` any regular file.

    Raises PackError, naming the file: one that changes meanwhile, a link that leads out,
    nowhere or in a loop; sockets, FIFOs, devices and names that are not UTF-8, unless
    `skip_special` leaves those out. Raises OSError for what cannot be read or written.
    """

    def open_folder(forbidden: FolderIdentity, existing: ExistingSet | None) -> Contents:
        return Source(
            os.fspath(folder),
            selection=Selection(include, exclude),
            symlinks=_checked(symlinks),
            skip_special=skip_special,
            forbidden=forbidden,
            existing=existing,
        )

    target = _target(out_file, shards, shard_size, append, force)
    way = _Way(_job_count(jobs), order, dedup, _time_ns(reproducible))
    with ProgressBar(target.path, shown=verbose) as bar:
        return _pack(open_folder, target, way, [bar, *_given(progress)])


def pack_archive(  # noqa: PLR0913 - as pack_folder
    archive: str | os.PathLike[str],
    out_file: str | os.PathLike[str],
    verbose: bool = False,
    *,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    skip_special: bool = False,
    symlinks: Symlinks = "inside",
    dedup: bool = False,
    reproducible: bool = False,
    shards: int | None = None,
    shard_size: int | None = None,
    append: bool = False,
    force: bool = False,
) -> PackSummary:
    """Pack all files of a tar or zip archive, as pack_folder() does; nothing is unpacked to disk.

    `archive`: a tar file, also one compressed by gzip, bzip2, xz or (with the package
    zstandard) Zstandard, a zip file, or "-", standard input. Its content shows which. What
    cannot be read twice is first copied to a file without a name beside `out_file`. Records
    stand in the order of the archive. Links are followed within it ("inside" and "follow" mean
    the same), kept or left out.

    Raises PackError, naming the member: names that cannot stand below a folder, or stand
    twice, links that lead out of it, encrypted and damaged members; devices, FIFOs and names
    that are not UTF-8, unless `skip_special` leaves those out.
    """

    # Decompressors and the like, which nothing else needs.
    from ffrfs.packing.archive import ArchiveSource
    from ffrfs.packing.archive_progress import ArchiveProgress

    target = _target(out_file, shards, shard_size, append, force)
    way = _Way(_job_count(jobs), None, dedup, _time_ns(reproducible))
    with ProgressBar(target.path, shown=verbose) as bar:
        whole = ArchiveProgress(bar)

        def open_archive(_: FolderIdentity, existing: ExistingSet | None) -> Contents:
            return ArchiveSource(
                os.fspath(archive),
                selection=Selection(include, exclude),
                symlinks=_checked(symlinks),
                skip_special=skip_special,
                digests=dedup,
                existing=existing,
                target=target.path,
                progress=whole,
            )

        return _pack(open_archive, target, way, [whole, *_given(progress)])


# Opens what is packed, given the folder that is written to, and what that holds already.
_Opener = Callable[[FolderIdentity, ExistingSet | None], Contents]


def _pack(opener: _Opener, target: _Target, way: _Way, watchers: list[Progress]) -> PackSummary:
    if target.is_set:
        with (
            PackSetWriter(target.path, append=target.append) as shard_set,
            closing(opener(shard_set.identity, shard_set.existing)) as contents,
        ):
            state = _prepare(contents, way, watchers)
            runs = target.runs(contents.entries)
            is_fixed = way.time_ns is not None
            shard_set.write(contents, runs, way.jobs, state.tick, reproducible=is_fixed)
            return state.summary(len(runs))
    if not target.force:
        refuse_other_than_pack(target.path)
    place = os.path.dirname(os.path.realpath(target.path))
    with closing(opener(FolderIdentity.of(os.stat(place)), None)) as contents:
        state = _prepare(contents, way, watchers)
        run = Run(0, contents.entries.record_count)
        write_pack(contents, target.path, run, way.jobs, state.tick)
        return state.summary(0)


def _given(progress: Progress | None) -> list[Progress]:
    return [progress] if progress else []


class _State:
    """What there is to do, for those who watch and for the summary."""

    def __init__(self, contents: Contents, watchers: list[Progress]) -> None:
        self._contents = contents
        self._watchers = watchers
        self._stored_byte_count = _stored_byte_count(contents.entries)

    def tick(self, files: int, size: int) -> None:
        for watcher in self._watchers:
            watcher(files, self._contents.entries.record_count, size, self._stored_byte_count)

    def summary(self, shard_count: int) -> PackSummary:
        listed = self._contents.entries
        return PackSummary(
            listed.file_count,
            listed.folder_count,
            listed.byte_count,
            self._contents.skipped,
            listed.link_count,
            listed.file_count - listed.record_count,
            self._stored_byte_count,
            shard_count,
            self._contents.links.followed,
            self._contents.links.left_out,
        )


def _prepare(contents: Contents, way: _Way, watchers: list[Progress]) -> _State:
    """Decide on the records of the list."""
    if way.dedup:
        share_duplicates(contents, way.jobs)
    if way.order is None:
        contents.number()
    else:
        number(contents.entries, way.order)
    if way.time_ns is not None:
        contents.entries.normalize(way.time_ns)
    return _State(contents, watchers)


def _stored_byte_count(listed: Manifest) -> int:
    count = listed.record_count
    if count == listed.file_count:
        return listed.byte_count
    sizes = listed.sizes()
    return sum(
        int(sizes[listed.files(first, min(_BATCH_COUNT, count - first))].sum())
        for first in range(0, count, _BATCH_COUNT)
    )


def _target(
    path: str | os.PathLike[str],
    shards: int | None,
    shard_size: int | None,
    append: bool,
    force: bool,
) -> _Target:
    if shards is not None and shard_size is not None:
        raise ValueError("shards and shard_size: one of them")
    if shards is not None and shards < 1:
        raise ValueError(f"cannot pack into {shards} shards")
    if shard_size is not None and shard_size < 1:
        raise ValueError(f"cannot pack into shards of {shard_size} bytes")
    return _Target(os.fspath(path), shards, shard_size, append, force)


def _checked(symlinks: Symlinks) -> Symlinks:
    known = get_args(Symlinks)
    if symlinks not in known:
        raise ValueError(f"symlinks must be one of {', '.join(known)}, not {symlinks!r}")
    return symlinks


def _job_count(jobs: int | None) -> int:
    if jobs is None:
        return max(_JOBS_LEAST, min(_JOBS_MOST, os.cpu_count() or 1))
    if jobs < 1:
        raise ValueError(f"cannot pack with {jobs} jobs")
    return jobs


def _time_ns(reproducible: bool) -> int | None:
    text = os.environ.get(_EPOCH_VARIABLE)
    if not text:
        return 0 if reproducible else None
    if not (text.isascii() and text.isdigit()) or int(text) > _LARGEST_TIME_S:
        raise PackError(f"{_EPOCH_VARIABLE}: {text!r} is not a number of seconds since 1970")
    return int(text) * _NS_PER_S
