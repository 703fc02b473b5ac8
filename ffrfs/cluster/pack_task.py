"""Makes one shard of a plan: a task that any worker may run, and run again.

The task names all files of the shard, so the same task gives the same bytes. The shard gets its
name when it is whole and on the disk, or uploaded. If a whole shard of the plan exists already,
the task makes nothing; two tasks at a time give the name to equal files.

Not here: which files become which shard (planned_set.py), the use of the rows (manifest.py).
Concurrency: tasks share nothing but the directory that they write to.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from array import array
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain

from ffrfs._native import EntryList, Pack, Volume, Writer, header_checksum
from ffrfs.cluster.faults import faults_of
from ffrfs.cluster.file_task import adopt, look, state_of, states_of
from ffrfs.cluster.objects import append_objects
from ffrfs.cluster.piece import WAITING_PREFIX, Piece, Pieces, bad_plan, link_bytes, refusing
from ffrfs.cluster.request import Kind
from ffrfs.cluster.row import Making, Missing, Row
from ffrfs.errors import ChecksumError, FfrfsError, FormatError, PackError
from ffrfs.files.own_folder import check_own
from ffrfs.folder.tree import pack_files
from ffrfs.packing.bucket_target import BucketTarget
from ffrfs.packing.pack_file import Run, write_pack
from ffrfs.packing.sources.contents import Contents, LinkCounts, Tick
from ffrfs.packing.sources.existing_set import ShardOf
from ffrfs.packing.sources.opening import open_contents
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.path_list import PathList
from ffrfs.remote.bucket import bytes_of, pin_of
from ffrfs.remote.paths import let_urls_in
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import is_url, parse_url

_HEADER = 4  # bytes of the header's checksum, which covers the checksums of all records


@dataclass(frozen=True)
class PackTask:
    """A shard to make. `pieces` of "folder" and "objects" are in `sources[0]`."""

    kind: Kind
    sources: tuple[str, ...]
    options: PackOptions
    target: str  # the shard's path or URL
    shard: ShardOf
    file_count: int
    byte_count: int
    pieces: Pieces
    time_ns: int | None
    first: Sequence[int]  # record of an archive, and that of the next shard, if there is one
    state: object  # from state_of_sources()
    making: Making
    environment: tuple[tuple[str, str], ...]  # where servers are; no secrets


def run_task(task: PackTask) -> Row:
    """Make a shard, unless it exists; return its row.

    With on_error "stop" the row names a file that is not as it was listed, and the shard is not
    made. Raises PackError if a shard of another set exists there, OSError, RemoteError.
    """
    adopt(task.environment)
    let_urls_in([task.target, *task.sources])
    if (found := existing_row(task)) is not None:
        return found
    missing: list[Missing] = []
    gone: set[str] = set()  # paths
    while True:
        try:
            _make(task, gone)
            break
        except (FfrfsError, OSError):
            more = faults_of(task.kind, task.sources, task.options, _left(task, gone))
            if not more:
                raise
            missing += more
            gone.update(file.path for file in more)
        if task.making.on_error == "stop":
            return _row(task, missing, made=False)
    return _row(task, missing, made=True)


def _make(task: PackTask, gone: Set[str]) -> None:
    """Make the shard without the files that are gone."""
    if not is_url(task.target):
        folder = os.path.dirname(task.target)
        os.makedirs(folder, exist_ok=True)
        if os.path.basename(folder).startswith(WAITING_PREFIX):
            check_own(folder)
        _write(task, gone, task.target)
        return
    url = parse_url(task.target)
    tmp_dir = task.making.tmp_dir
    with BucketTarget(task.target, is_set=False, tmp_dir=tmp_dir, as_in="data.ffr") as bucket:
        _write(task, gone, bucket.place_of(url))
        bucket.send(url, lambda _: None)


def _write(task: PackTask, gone: Set[str], place: str) -> None:
    with refusing(task.pieces.place):
        contents = _contents(task, gone, place)
    with closing(contents):
        last = contents.entries.record_count
        first, end = (*(task.first or (0,)), last)[:2]
        if not first <= end <= last:
            raise bad_plan(task.pieces.place, "its table is damaged")
        if task.time_ns is not None:
            contents.entries.normalize(task.time_ns)
        run, jobs = Run(first, end - first), task.making.jobs
        write_pack(contents, place, run, jobs, lambda *_: None, shard=task.shard, force=True)


def _contents(task: PackTask, gone: Set[str], place: str) -> Contents:
    """Return the contents of the task (of an archive, of all tasks) with their records.

    `place`: where the shard is made, on this machine.
    """
    if task.kind in ("folder", "objects"):
        return _ListedFiles(task, gone)
    # Plans of packs by earlier versions have no state.
    if task.state is not None and task.state != state_of_sources(task.kind, task.sources):
        raise PackError(f"{task.sources[0]}: was changed after it was listed; plan anew")
    if task.kind == "packs":
        return _repacked(task, gone)
    # A stream: a member is known by its place among all members.
    options = replace(task.options, jobs=task.making.jobs)
    return open_contents("archive", task.sources, options, spool=place)


def state_of_sources(kind: Kind, sources: Sequence[str]) -> object:
    """Return JSON that changes with the archive or packs; None for other kinds."""
    found: list[object] | None = None
    if kind == "archive":
        found = [*states_of(sources)]
    elif kind == "packs":
        found = [*look(_version_of, chain.from_iterable(map(pack_files, sources)))]
    return json.loads(json.dumps(found))


def _version_of(pack: str) -> object:
    """Return a pack's state; size and checksum of a local one: each machine may have a copy."""
    return state_of(pack) if is_url(pack) else header_of(pack)


class _ListedFiles(Contents):
    """The files of a directory, or objects of one in a bucket, that pieces name.

    They name shared records, too.
    """

    def __init__(self, task: PackTask, gone: Set[str]) -> None:
        self.name = task.sources[0]
        self._symlinks = task.options.symlinks or "inside"
        self.skipped: list[str] = []
        self.links = LinkCounts()
        self._pieces = (lambda: _left(task, gone)) if task.kind == "objects" else None
        self.entries = entries_of(_left(task, gone))
        self.number()

    def number(self) -> None:
        """Number the records in the order of the plan."""
        self.entries.number_by(array("I", range(self.entries.file_count)))

    def append(self, writer: Writer, first: int, count: int, jobs: int, tick: Tick) -> None:
        if self._pieces is not None:
            append_objects(writer, self._pieces(), self.entries, self.name)
        else:
            root = os.fsencode(self.name)
            writer.append_folder(self.entries, root, first, count, jobs, tick, self._symlinks)


def _repacked(task: PackTask, gone: Set[str]) -> Contents:
    from ffrfs.packing.sources.pack_source import PackSource

    shared: list[Piece] = []
    pieces = _noting(_left(task, gone), shared)
    paths = (os.fsdecode(path.encode()) for path in _paths(pieces))  # as the locale has them
    listed = PathList(paths, "the plan", "file")
    # An empty directory may hold excluded files, and names that no pack can have.
    options = replace(task.options, include=None, files=listed, skip_special=True)
    source = PackSource(task.sources, options)
    if not share_as_listed(source.entries, shared):
        source.share()  # for plans of earlier versions
    source.number()
    return source


def entries_of(pieces: Iterable[Piece]) -> EntryList:
    """Return the list of one pack. Raises PackError, ValueError for names that no pack can hold."""
    listed = EntryList()
    folders = {"": 0}
    shared: list[Piece] = []
    for piece in _noting(pieces, shared):
        if piece.above:
            listed.describe_folder(0, *piece.above[0])
        path, number = "", 0
        steps = piece.folder.split("/") if piece.folder else []
        for step, (mode, mtime_ns) in zip(steps, piece.above[1:], strict=True):
            path = f"{path}/{step}" if path else step
            if path not in folders:
                folders[path] = listed.add_folder(number, step.encode(), mode, mtime_ns)
            number = folders[path]
        columns = zip(piece.names, piece.sizes, piece.modes, piece.mtimes_ns, strict=True)
        listed.add_files(
            number, [(name.encode(), size, mode, time) for name, size, mode, time in columns]
        )
        for name, target, mtime_ns in piece.links:
            listed.add_link(number, name.encode(), link_bytes(target), mtime_ns)
    share_as_listed(listed, shared)
    return listed


def _noting(pieces: Iterable[Piece], shared: list[Piece]) -> Iterator[Piece]:
    """Yield the pieces; `shared` gets those whose files share a record."""
    for piece in pieces:
        if piece.origin:
            shared.append(piece)
        yield piece


def share_as_listed(listed: EntryList, shared: Iterable[Piece]) -> bool:
    """Let files share records as in the plan; return whether any do."""
    has_shared = False
    for piece in shared:
        for path in map(piece.path, range(piece.file_count)):
            file, original = listed.find(path.encode()), listed.find(piece.origin.encode())
            if file is not None and original is not None:
                listed.share(file, original)
                has_shared = True
    return has_shared


def _paths(pieces: Iterable[Piece]) -> Iterator[str]:
    for piece in pieces:
        yield from (piece.path(number) for number in range(piece.file_count))
        above = f"{piece.folder}/" if piece.folder else ""
        yield from (above + name for name, *_ in piece.links)
        if not piece.names and not piece.links:
            yield piece.folder


def _left(task: PackTask, gone: Set[str]) -> Iterable[Piece]:
    return _without(task, gone) if gone else task.pieces


def _without(task: PackTask, gone: Set[str]) -> Iterator[Piece]:
    for piece in task.pieces:
        files = [file for file in range(piece.file_count) if piece.path(file) not in gone]
        if len(files) == piece.file_count:
            yield piece
        elif files or piece.links or task.kind != "packs":
            # If packs are the source, a directory alone would mean all files in it.
            yield piece.chosen(files)


def existing_row(task: PackTask) -> Row | None:
    """Return the row of the task's shard if it exists and is whole; None: it must be made.

    Raises PackError if a shard of another set exists there.
    """
    pack = _opened(task)
    if pack is None:
        return None
    if pack.shard is None and _is_index_damaged(pack):
        return None
    if pack.shard != task.shard:
        name = parse_url(task.target).shown if is_url(task.target) else task.target
        raise PackError(
            f"{name}: exists already, and is not of this plan; remove it, or write elsewhere"
        )
    try:
        pack.offset(0)  # compares the header with its checksum
        if pack.record_count == task.file_count + 1:
            return _row(task, [], made=None)
        left_out = _not_in(task.target, task.pieces)
    except (FormatError, ChecksumError):
        return None  # damaged: it is made again
    if left_out and task.making.on_error == "stop":
        return None
    return _row(task, [Missing(path, "left out before") for path in left_out], made=None)


def is_made_of(path: str, shard: ShardOf, pieces: Pieces, *, in_part: bool) -> bool:
    """Return whether the file `path` is that shard, of these files, or `in_part` of some of them.

    Two plans may add shards of the same numbers to one set.
    """
    let_urls_in([path])
    if state_of(path) is None:
        return False
    try:
        pack = Pack(os.fsencode(path))
        if pack.shard != shard:
            return False
        pack.open_tree()
        there = {pack.path_of(record) for record in range(pack.record_count - 1)}
        files = {piece.path(file).encode() for piece in pieces for file in range(piece.file_count)}
        return there <= files and (in_part or not _not_in(path, pieces))
    except (FormatError, ChecksumError):
        return False


def _not_in(target: str, pieces: Iterable[Piece]) -> list[str]:
    """Return the files that a shard lacks. It may have fewer records than files."""
    with closing(_volume_of(target)) as volume:
        paths = (piece.path(file) for piece in pieces for file in range(piece.file_count))
        return [path for path in paths if volume.resolve(path.encode()) == 0]


def _volume_of(target: str) -> Volume:
    return Volume([os.fsencode(target)], uid=0, gid=0, allow_missing=True)


def _opened(task: PackTask) -> Pack | None:
    with contextlib.suppress(FormatError, ChecksumError):  # damaged: it is made again
        return None if state_of(task.target) is None else Pack(os.fsencode(task.target))
    return None


def _is_index_damaged(pack: Pack) -> bool:
    """Return whether the last record, the index, of a pack without a set is damaged."""
    try:
        return pack.record_count == 0 or bool(pack.verify(pack.record_count - 1, 1, 1))
    except (FormatError, ChecksumError):
        return True


def _row(task: PackTask, missing: Sequence[Missing], *, made: bool | None) -> Row:
    size, checksum = (0, "") if made is False else header_of(task.target)
    gone = {file.path for file in missing}
    gone_size = 0
    for piece in task.pieces if gone else ():
        of_files = zip(map(piece.path, range(piece.file_count)), piece.sizes, strict=True)
        gone_size += sum(file_size for path, file_size in of_files if path in gone)
    return Row(
        number=task.shard[1],
        name=os.path.basename(task.target),
        file_count=task.file_count - len(gone),
        byte_count=task.byte_count - gone_size,
        size=size,
        checksum=checksum,
        missing=tuple(missing),
        made=made,
    )


def row_of_pack(path: str, pack: Pack) -> Row:
    """Return the manifest row of a shard that was packed before this plan."""
    assert pack.shard is not None
    size, checksum = header_of(path)
    file_count, byte_count = _counts_of(path, pack)
    return Row(
        number=pack.shard[1],
        name=os.path.basename(path),
        file_count=file_count,
        byte_count=byte_count,
        size=size,
        checksum=checksum,
        missing=(),
        made=None,
    )


def _counts_of(path: str, pack: Pack) -> tuple[int, int]:
    """Return the numbers of files and of their bytes; each that shares a record counts."""
    count = pack.record_count - 1  # without the index
    with closing(_volume_of(path)) as volume:
        if volume.file_count == count:  # no need to look at each
            return count, pack.offset(count) - pack.offset(0)
        entries = map(volume.attributes, range(1, volume.inode_count + 1))
        sizes = [one.size for one in entries if one is not None and stat.S_ISREG(one.mode)]
        return len(sizes), sum(sizes)


def header_of(target: str) -> tuple[int, str]:
    """Return the size of a shard, and its header's checksum. Raises OSError, RemoteError."""
    if is_url(target):
        settings = RemoteSettings.from_environment()
        pin = pin_of(parse_url(target), settings)
        if pin is None:
            raise PackError(f"{target}: vanished after it was uploaded; run its task again")
        return pin.size, _hex(bytes_of(pin, 0, _HEADER, settings))
    with open(target, "rb") as file:
        return os.fstat(file.fileno()).st_size, _hex(file.read(_HEADER))


def _hex(header: bytes) -> str:
    return f"{header_checksum(header):08x}"
