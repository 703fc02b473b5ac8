"""plan(): from a listing to the file of a plan.

Not here: listing (folder_plan.py, memory_listing.py), cutting it into shards (plan_file.py).
Concurrency: one thread, and the executor that lists.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import chain, groupby, pairwise
from typing import Protocol, Unpack

from ffrfs._native import folder_files
from ffrfs.cluster.executors import open_executor
from ffrfs.cluster.file_task import states_of
from ffrfs.cluster.folder_plan import FolderListing
from ffrfs.cluster.manifest import completed_set
from ffrfs.cluster.memory_listing import MemoryListing
from ffrfs.cluster.pack_task import state_of_sources
from ffrfs.cluster.piece import Piece, check_names
from ffrfs.cluster.plan_file import PlanWriter
from ffrfs.cluster.planned_set import Plan
from ffrfs.cluster.request import Header, Kind, Request
from ffrfs.errors import CompleteError, OptionError, PackError
from ffrfs.files.replacing import not_empty
from ffrfs.folder.tree import pack_files
from ffrfs.packing.pack_kind import kind_of
from ffrfs.packing.places import mend_set, shard_name
from ffrfs.packing.sources.existing_set import ExistingSet
from ffrfs.packing.sources.opening import nothing_left, open_contents
from ffrfs.packing.sources.options import PackKeywords, PackOptions, PathType
from ffrfs.packing.sources.path_list import PathList
from ffrfs.packing.target_folder import TargetFolder
from ffrfs.remote.bucket import COPY_SIZE_MAX
from ffrfs.remote.paths import let_urls_in
from ffrfs.remote.url import is_url, parse_url

_PRIVATE = 0o600


def plan(
    sources: PathType | Sequence[PathType],
    target: PathType,
    path: PathType,
    *,
    executor: Executor | None = None,
    **options: Unpack[PackKeywords],
) -> Plan:
    """Plan the pack set `target` of `sources`: a directory, an archive, or packs; write it to the
    file `path`.

    Only a plan is replaced there. The plan holds the URLs of `sources`: with a query, which may
    be a key, only its owner may read it.

    `options`: as pack_folder() and repack(), with `shards` or `shard_size`. `executor` lists a
    directory in parallel (None: processes of this machine), but not with `files`, `dedup` or an
    `order` of its own: then one process lists it, and has the list in memory.

    Raises PackError for files that cannot be packed, CompleteError if the same call was completed
    before, OptionError, OSError.
    """
    chosen = PackOptions(**options)
    return make_plan(Request.of(sources, target, chosen), chosen, os.fspath(path), executor)


def plan_files(files: Iterable[tuple[str, int]], request: Request, path: str) -> Plan:
    """Plan the set of files that are in no directory yet: (path, size) of each, in any order.

    `request` has a fixed time. The plan is that of a directory of such files. Its tasks need a
    directory that holds the files of the shard. Raises PackError for paths that no pack can have
    together, and for a target with other files.
    """
    header = Header(kind="folder", first_number=0, set_id=None, request=request)
    with _writer(path, header, True) as writer:
        links, _ = _fill(writer, _pieces_of(files), None, request)
        set_id = writer.set_id(request.options).hex()
        key = request.key([set_id, links])
        writer.finish(request.options, set_id=set_id, plan_id=set_id, key=key, skipped=[])
    made = Plan(path)
    own = {shard_name(number) for number in range(len(made))}
    if any(not name.startswith(".") for name in {*TargetFolder(request.target).names()} - own):
        made.close()
        raise not_empty(request.target, can_append=False)
    return made


def make_plan(
    request: Request, options: PackOptions, path: str, executor: Executor | None = None
) -> Plan:
    """Plan as plan() does. `options.progress` gets the files and bytes found so far."""
    kind = _kind_of(request.sources)
    if kind == "folder":
        _refuse_inside(request, options.listed)
    completed = completed_set(request.target)
    refused = None
    # Existing shards would be taken for the plan's.
    if not request.options.append and not all(
        name.startswith(".") for name in TargetFolder(request.target).names()
    ):
        refused = not_empty(request.target)
        if completed is None:
            raise refused
    is_fixed = request.time_ns is not None
    is_added = request.options.append
    if is_added and not is_url(request.target) and not options.dry_run:
        mend_set(request.target)
    state = state_of_sources(kind, request.sources)  # before they are listed
    opened = ExistingSet(request.target) if is_added else nullcontext()
    with opened as existing:
        header = Header(
            kind=kind,
            first_number=existing.count if existing else 0,
            set_id=existing.id.hex() if existing else None,
            request=request,
        )
        with (
            closing(_listed(kind, request, options, path, executor)) as listing,
            _writer(path, header, is_fixed) as writer,
        ):
            links, conflict = _fill(writer, listing.pieces(), existing, request)
            own_id = writer.set_id(request.options)
            key = request.key(
                [own_id.hex(), links] if is_fixed else _digest_of(writer, request, kind)
            )
            if completed is not None and key in completed.keys:
                raise CompleteError(completed.text, completed.missing_count)
            refused = refused or conflict
            if refused is not None:
                raise refused
            set_id = own_id if existing is None else existing.id
            writer.finish(
                request.options,
                COPY_SIZE_MAX if is_added and is_url(request.target) else None,
                set_id=set_id.hex(),
                plan_id=own_id.hex(),
                key=key,
                skipped=listing.skipped,
                state=state,
            )
    return Plan(path)


def _writer(path: str, header: Header, is_fixed: bool) -> PlanWriter:
    """Open the plan for writing; only the owner may read it if a URL has a query."""
    mode = _PRIVATE if header.request.has_query else None
    return PlanWriter(path, header.fields(), mode=mode, has_times=not is_fixed)


def _digest_of(writer: PlanWriter, request: Request, kind: Kind) -> list[object]:
    """Return a digest that changes with the sources; the times of files in packs are unknown."""
    files: Iterable[str] = request.sources if kind == "archive" else ()
    files = chain(*map(pack_files, request.sources)) if kind == "packs" else files
    return [writer.digest(), *states_of(files)]


def _kind_of(sources: Sequence[str]) -> Kind:
    if len(sources) == 1 and is_url(sources[0]) and sources[0].endswith("/"):
        url = parse_url(sources[0])
        if url.scheme in ("s3", "gs", "az"):
            let_urls_in(sources)
            return "packs" if folder_files(os.fsencode(url.text))[0] else "objects"
    return kind_of(sources)


class _Listing(Protocol):
    skipped: list[str]

    def pieces(self) -> Iterator[Piece]: ...
    def close(self) -> None: ...


def _pieces_of(files: Iterable[tuple[str, int]]) -> Iterator[Piece]:
    """Yield the pieces of files without times and permissions, in the order of a set."""
    placed = sorted((place_of(path), size) for path, size in files)
    for (place, _), (after, _) in pairwise(placed):
        if after[: len(place)] == place:
            raise PackError(f"{b'/'.join(place).decode()}: {_TWICE}")
    for above, group in groupby(placed, lambda file: file[0][:-1]):
        names, sizes = zip(*((place[-1].decode(), size) for place, size in group), strict=True)
        modes, times = [0o644] * len(names), [0] * len(names)
        yield Piece(
            b"/".join(above).decode(), ((0o755, 0),) * (len(above) + 1), names, sizes, modes, times
        )
    if not placed:
        yield Piece("", ((0o755, 0),), [], [], [], [])


_TWICE = "two files have this path, or one has it and another is below it"


def place_of(path: str) -> list[bytes]:
    """Return the place of "a/b" in the order of a set, which is that of these lists.

    Raises PackError for a path that no pack can have.
    """
    names = path.split("/")
    try:
        check_names(names)
    except ValueError:
        raise PackError(f"{path!a}: is not the path of a file in a pack, such as a/b.jpg") from None
    return [name.encode() for name in names]


def _listed(
    kind: Kind, request: Request, options: PackOptions, path: str, executor: Executor | None
) -> _Listing:
    planned, source = request.options, request.sources[0]
    is_by_path = planned.order in (None, "path") and not (planned.dedup or options.files)
    if kind in ("folder", "objects") and is_by_path and options.listing is None:
        tmp_dir = None if options.tmp_dir is None else os.fspath(options.tmp_dir)
        opened = nullcontext(executor) if executor is not None else open_executor(None)
        with opened as pool:
            return FolderListing(source, planned, pool, tmp_dir, options.progress)
    if kind == "objects":
        raise OptionError(f"{source}: objects are packed by path; give no order, dedup or lists")
    if kind == "archive" and options.files:
        raise OptionError(
            f"{source}: an archive has a plan of all its files; give no list of files"
        )
    extra = {name: getattr(options, name) for name in ("files", "listing", "jobs")}
    return MemoryListing(
        open_contents(kind, request.sources, replace(planned, **extra), spool=path)
    )


def _fill(
    writer: PlanWriter, pieces: Iterable[Piece], existing: ExistingSet | None, request: Request
) -> tuple[str, PackError | None]:
    """Write the pieces; return a digest of the links, and the first error of an existing set."""
    digest = hashlib.sha256()
    refused: PackError | None = None
    is_empty = True
    for piece in pieces:
        if existing is not None and refused is None:
            try:
                existing.refuse_all(
                    piece.folder, (*piece.names, *(link[0] for link in piece.links))
                )
            except PackError as error:
                refused = error
        writer.add(piece)
        is_empty = is_empty and not (piece.names or piece.links)
        if piece.links or not piece.names:
            digest.update(repr([piece.folder, *(link[:2] for link in piece.links)]).encode())
    if is_empty and request.options.exclude:
        raise nothing_left(request.sources[0])
    return digest.hexdigest(), refused


def _refuse_inside(request: Request, listed: PathList | None) -> None:
    """Raise PackError if the set would be in the directory that it is made of."""
    (name,) = request.sources
    os.stat(name)  # raises if it is missing
    real, target = (os.path.join(os.path.realpath(path), "") for path in (name, request.target))
    if is_url(request.target) or not target.startswith(real):
        return
    if listed is None or listed.has(target.removeprefix(real)):
        raise PackError(
            f"{request.target}: the pack would be inside the directory that it packs; write "
            "it elsewhere"
        )
