"""One packing: what is packed, where it goes, and how; the same for all contents.

Not here: the contents (contents.py), what a caller may ask for (pack.py).
Concurrency: call it from any thread; what comes out is complete or is not there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ffrfs._native import Manifest
from ffrfs.errors import PackError
from ffrfs.files.replacing import may_replace
from ffrfs.folder.progress import Progress
from ffrfs.packing.cuts import runs, set_id_of
from ffrfs.packing.pack_file import Run, write_pack
from ffrfs.packing.pack_set_writer import PackSetWriter
from ffrfs.packing.sources.contents import Contents
from ffrfs.packing.sources.existing_set import ExistingSet
from ffrfs.packing.sources.order import Order, number
from ffrfs.packing.sources.source import FolderIdentity
from ffrfs.remote.url import is_url

if TYPE_CHECKING:
    from ffrfs.packing.remote_pack_writer import RemotePackWriter

# More threads than cores: where the files are not in the page cache, threads wait.
_JOBS_LEAST = 4
_JOBS_MOST = 16

# Files whose numbers are in memory at a time.
_BATCH_COUNT = 1 << 16

# Seconds since 1970: the time that all has in a reproducible pack. https://reproducible-builds.org
_EPOCH_VARIABLE = "SOURCE_DATE_EPOCH"
_NS_PER_S = 1_000_000_000
_LARGEST_TIME_S = (2**63 - 1) // _NS_PER_S

# Called with the path of each file, in the order of the pack.
Listing: TypeAlias = Callable[[Iterator[str]], object]

# Opens what is packed, given the directory that is written to, and what that holds already.
Opener: TypeAlias = Callable[[FolderIdentity, ExistingSet | None], Contents]


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


class PackTarget(NamedTuple):
    """Where it goes, and in how many packs."""

    path: str
    shards: int | None
    shard_size: int | None
    append: bool
    force: bool  # replace a file
    tmp_dir: str | None = None  # of packs that go to a URL: where they are made

    @property
    def is_remote(self) -> bool:
        return is_url(self.path)

    @property
    def spool_place(self) -> str:
        """A path beside which there is room for what cannot be read twice."""
        if not self.is_remote:
            return self.path
        return os.path.join(self.tmp_dir or tempfile.gettempdir(), os.path.basename(self.path))

    def writer(self) -> PackSetWriter | RemotePackWriter:
        """Of what is not one local pack. Raises PackError, RemoteError, OSError."""
        if not self.is_remote:
            return PackSetWriter(self.path, append=self.append)
        from ffrfs.packing.remote_pack_writer import RemotePackWriter

        return RemotePackWriter(
            self.path,
            is_set=self.is_set,
            append=self.append,
            force=self.force,
            tmp_dir=self.tmp_dir,
        )

    @property
    def is_set(self) -> bool:
        return self.append or self.shards is not None or self.shard_size is not None

    def runs(self, listed: Manifest) -> list[Run]:
        return [Run(*run) for run in runs(listed, self.shards, self.shard_size)]

    def set_id(self, listed: Manifest, *, has_times: bool) -> bytes:
        return set_id_of(
            listed, has_times=has_times, shards=self.shards, shard_size=self.shard_size
        )


class PackOptions(NamedTuple):
    """How it is packed."""

    jobs: int
    order: Order | None  # None: the contents' own
    dedup: bool
    time_ns: int | None  # that all is given, to be reproducible
    dry_run: bool  # do all but write
    listing: Listing | None
    excludes: bool  # something, so that a pack without files is a mistake


def run_job(
    opener: Opener, target: PackTarget, options: PackOptions, watchers: list[Progress]
) -> PackSummary:
    """Pack it, and tell the watchers how far it is. Raises PackError, OSError."""
    if target.is_set or target.is_remote:
        with (
            target.writer() as writer,
            closing(opener(writer.identity, writer.existing)) as contents,
        ):
            state = _prepare(contents, options, watchers)
            runs = target.runs(contents.entries)
            if not options.dry_run:
                set_id = target.set_id(contents.entries, has_times=options.time_ns is None)
                writer.write(contents, runs, options.jobs, state.tick, set_id=set_id)
            return state.summary(len(runs) if target.is_set else 0)
    may_replace(target.path, target.force)
    place = os.path.dirname(os.path.realpath(target.path))
    with closing(opener(FolderIdentity.of(os.stat(place)), None)) as contents:
        state = _prepare(contents, options, watchers)
        if not options.dry_run:
            run = Run(0, contents.entries.record_count)
            write_pack(contents, target.path, run, options.jobs, state.tick, force=target.force)
        return state.summary(0)


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


def _prepare(contents: Contents, options: PackOptions, watchers: list[Progress]) -> _State:
    """Decide on the records of the list. Raises PackError if no file is left of it."""
    listed = contents.entries
    if options.excludes and not (listed.file_count or listed.link_count):
        raise nothing_left(contents.name)
    if options.dedup:
        from ffrfs.packing.sources.duplicates import share_duplicates  # with NumPy

        share_duplicates(contents, options.jobs)
    else:
        contents.share()
    if options.order is None:
        contents.number()
    else:
        number(contents.entries, options.order)
    if options.time_ns is not None:
        contents.entries.normalize(options.time_ns)
    if options.listing is not None:
        options.listing(_paths(contents.entries))
    return _State(contents, watchers)


def nothing_left(source: str) -> PackError:
    return PackError(f"{source}: no file is left to pack; check the patterns of --exclude")


def _paths(listed: Manifest) -> Iterator[str]:
    """Yield the paths of the files: those with a record of their own first, in their order."""
    import numpy as np  # here, not above: packing has no need of it, and it takes 0.1 s

    has_own = np.zeros(listed.file_count, bool)
    for first in range(0, listed.record_count, _BATCH_COUNT):
        files = listed.files(first, min(_BATCH_COUNT, listed.record_count - first))
        has_own[files] = True
        yield from map(os.fsdecode, listed.paths(files))
    others = np.flatnonzero(~has_own)
    for start in range(0, len(others), _BATCH_COUNT):
        yield from map(os.fsdecode, listed.paths(others[start : start + _BATCH_COUNT].tolist()))


def _stored_byte_count(listed: Manifest) -> int:
    count = listed.record_count
    if count == listed.file_count:
        return listed.byte_count
    sizes = listed.sizes()
    return sum(
        int(sizes[listed.files(first, min(_BATCH_COUNT, count - first))].sum())
        for first in range(0, count, _BATCH_COUNT)
    )


def make_target(  # noqa: PLR0913, PLR0917 - all of a target
    path: str | os.PathLike[str],
    shards: int | None,
    shard_size: int | None,
    append: bool,
    force: bool,
    tmp_dir: str | os.PathLike[str] | None,
) -> PackTarget:
    """Raises ValueError for what contradicts itself."""
    if shards is not None and shard_size is not None:
        raise ValueError("shards and shard_size: one of them")
    if shards is not None and shards < 1:
        raise ValueError(f"cannot pack into {shards} shards")
    if shard_size is not None and shard_size < 1:
        raise ValueError(f"cannot pack into shards of {shard_size} bytes")
    place = None if tmp_dir is None else os.fspath(tmp_dir)
    return PackTarget(os.fspath(path), shards, shard_size, append, force, place)


def job_count(jobs: int | None) -> int:
    if jobs is None:
        return max(_JOBS_LEAST, min(_JOBS_MOST, os.cpu_count() or 1))
    if jobs < 1:
        raise ValueError(f"cannot pack with {jobs} jobs")
    return jobs


def fixed_time_ns(reproducible: bool) -> int | None:
    """The time that all is given; None: its own."""
    text = os.environ.get(_EPOCH_VARIABLE)
    if not text:
        return 0 if reproducible else None
    if not (text.isascii() and text.isdigit()) or int(text) > _LARGEST_TIME_S:
        raise PackError(f"{_EPOCH_VARIABLE}: {text!r} is not a number of seconds since 1970")
    return int(text) * _NS_PER_S
