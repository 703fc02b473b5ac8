"""plan(): from a listing to the file of a plan.

Not here: listing (folder_plan.py, packs_plan.py), cutting it into shards (plan_file.py).
Concurrency: one thread, and the executor that lists.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing, contextmanager, nullcontext
from itertools import chain
from typing import Protocol, Self

from ffrfs._native import folder_files
from ffrfs.cluster.executors import open_executor, slots
from ffrfs.cluster.file_task import absolute, states_of
from ffrfs.cluster.folder_plan import FolderListing
from ffrfs.cluster.listing import ListRules
from ffrfs.cluster.manifest import completed_set
from ffrfs.cluster.memory_listing import MemoryListing
from ffrfs.cluster.piece import Piece
from ffrfs.cluster.plan_file import PlanWriter
from ffrfs.cluster.planned_set import PathType, Plan
from ffrfs.cluster.request import Header, Kind, Request
from ffrfs.errors import CompleteError, OptionError, PackError
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import pack_files
from ffrfs.packing.pack_job import fixed_time_ns, nothing_left
from ffrfs.packing.pack_kind import holds_packs
from ffrfs.packing.pack_set_writer import identity_of
from ffrfs.packing.sources.contents import Symlinks
from ffrfs.packing.sources.existing_set import ExistingSet
from ffrfs.packing.sources.order import number
from ffrfs.packing.sources.selection import Selection
from ffrfs.remote.bucket import objects_in, urls_in
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import is_url, parse_url

_PRIVATE = 0o600


def plan(  # noqa: PLR0913 - as pack_folder
    sources: PathType | Sequence[PathType],
    target: PathType,
    path: PathType,
    *,
    shards: int | None = None,
    shard_size: int | None = None,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    symlinks: Symlinks | None = None,
    skip_special: bool = False,
    order: str | None = None,
    reproducible: bool = False,
    append: bool = False,
    tmp_dir: str | None = None,
    executor: Executor | None = None,
) -> Plan:
    """Plan the pack set `target` of `sources`: a directory, or packs; write it to the file `path`.

    Of files a plan alone is replaced there. It holds the URLs of `sources`: with a query, which may
    be a key, only its owner may read it.

    `shards` or `shard_size`, and the other options: as pack_folder() and repack(). `executor`
    lists a directory in parallel (None: processes of this machine). `order`: of packs only.

    Raises PackError for what cannot be packed, CompleteError if the same call was completed
    before, OptionError, OSError.
    """
    request = request_of(
        sources,
        target,
        shards=shards,
        shard_size=shard_size,
        include=include,
        exclude=exclude,
        symlinks=symlinks,
        skip_special=skip_special,
        order=order,
        reproducible=reproducible,
        append=append,
    )
    return make_plan(request, os.fspath(path), executor, tmp_dir)


def request_of(  # noqa: PLR0913 - as plan
    sources: PathType | Sequence[PathType],
    target: PathType,
    *,
    shards: int | None = None,
    shard_size: int | None = None,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    symlinks: Symlinks | None = None,
    skip_special: bool = False,
    order: str | None = None,
    reproducible: bool = False,
    append: bool = False,
) -> Request:
    """What plan() is asked for. Raises OptionError, PackError."""
    given = [sources] if isinstance(sources, str | os.PathLike) else sources
    return Request(
        sources=tuple(absolute(os.fspath(source)) for source in given),
        target=absolute(os.fspath(target)),
        shards=shards,
        shard_size=shard_size,
        include=_tuple(include),
        exclude=_tuple(exclude),
        symlinks=symlinks,
        skip_special=skip_special,
        order=order,
        time_ns=fixed_time_ns(reproducible),
        append=append,
    )


def make_plan(
    request: Request,
    path: str,
    executor: Executor | None = None,
    tmp_dir: str | None = None,
    progress: Progress | None = None,
) -> Plan:
    """As plan(). `progress` gets what was found in a directory so far."""
    kind = _kind_of(request.sources)
    if kind == "folder":
        _root(request)
    completed = completed_set(request.target)
    refused = None if request.append else _content_error(request.target)
    if refused is not None and completed is None:
        raise refused
    is_fixed = request.time_ns is not None
    with nullcontext() if not request.append else closing(_Existing.of(request)) as existing:
        header = Header(
            kind=kind,
            first_number=existing.count if existing else 0,
            set_id=existing.id.hex() if existing else None,
            request=request,
        )
        if header.kind == "packs":
            opened = _packs(request)
        else:
            opened = _folder(request, executor, tmp_dir, progress)
        with opened as listing, _writer(path, header, is_fixed) as writer:
            links, conflict = _fill(writer, listing, existing, request)
            own_id = listing.set_id(request) or writer.set_id(request.shards, request.shard_size)
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
                shards=request.shards,
                shard_size=request.shard_size,
                set_id=set_id.hex(),
                plan_id=own_id.hex(),
                key=key,
                skipped=listing.skipped,
            )
    return Plan(path)


def _writer(path: str, header: Header, is_fixed: bool) -> PlanWriter:
    """A plan with a query is for its owner alone: a signed URL has its key there."""
    mode = _PRIVATE if header.request.has_query else None
    return PlanWriter(path, header.fields(), mode=mode, has_times=not is_fixed)


def _content_error(target: str) -> PackError | None:
    """What to say if there are shards already, which would be taken for the plan's."""
    if is_url(target):
        folder = parse_url(f"{target.rstrip('/')}/")
        settings = RemoteSettings.from_environment()
        names = [text.removeprefix(folder.text) for text in urls_in(folder, settings)]
    else:
        names = os.listdir(target) if os.path.isdir(target) else []
    if all(name.startswith(".") for name in names):
        return None
    return PackError(
        f"{target}: is not empty; write the shards elsewhere, or add to a set with --append"
    )


def _digest_of(writer: PlanWriter, request: Request, kind: Kind) -> list[object]:
    """What shows whether the sources have changed: of files in packs no times are known."""
    packs = chain(*map(pack_files, request.sources)) if kind == "packs" else ()
    return [writer.digest(), *states_of(packs)]


def _kind_of(sources: Sequence[str]) -> Kind:
    if len(sources) == 1 and is_url(sources[0]) and sources[0].endswith("/"):
        url = parse_url(sources[0])
        if url.scheme in ("s3", "gs", "az"):
            objects, _ = objects_in(url, RemoteSettings.from_environment())
            if not any(found.name.endswith(".ffr") for found in objects):
                return "objects"
    return "packs" if all(map(holds_packs, sources)) else "folder"


class _Listing(Protocol):
    skipped: list[str]

    def pieces(self) -> Iterator[Piece]: ...

    def set_id(self, request: Request) -> bytes | None:
        """Of the set that this becomes; None: what the pieces say."""
        ...


@contextmanager
def _packs(request: Request) -> Iterator[_Listing]:
    from ffrfs.packing.sources.pack_source import PackSource  # with NumPy

    source = PackSource(
        request.sources,
        selection=Selection(request.include, request.exclude),
        symlinks=request.shown_symlinks("packs"),
        skip_special=request.skip_special,
    )
    with closing(source):
        source.share()
        if request.order is None:
            source.number()
        else:
            number(source.entries, request.order)
        yield MemoryListing(source)


@contextmanager
def _folder(
    request: Request, executor: Executor | None, tmp_dir: str | None, progress: Progress | None
) -> Iterator[_Listing]:
    if request.order not in (None, "path"):
        raise OptionError(
            "a plan of a directory is by path; pack it so, and order the packs by a second plan"
        )
    rules = ListRules(
        _root(request),
        request.include,
        request.exclude,
        request.shown_symlinks("folder"),
        request.skip_special,
    )
    opened = nullcontext(executor) if executor is not None else open_executor(None)
    with opened as pool, FolderListing(rules, pool, slots(pool), tmp_dir, progress) as listing:
        yield listing


class _Existing:
    """The set in a local directory that shards are added to."""

    def __init__(self, folder: str) -> None:
        packs = [os.fsdecode(pack) for pack in folder_files(os.fsencode(folder))[0]]
        if not packs:
            raise PackError(f"{folder}: holds no packs to add to; leave out --append")
        self._set = ExistingSet(packs)
        try:
            self.id, self.count = identity_of(packs, self._set.shards())
        except BaseException:
            self._set.close()
            raise

    @classmethod
    def of(cls, request: Request) -> Self:
        folder = request.target
        if is_url(folder):
            raise OptionError(
                f"{folder}: a plan adds shards to local sets only; append to a bucket without it"
            )
        return cls(folder)

    def check(self, piece: Piece) -> None:
        """Raise PackError if the set has one of these files."""
        number = self._set.root
        path = ""
        for step in piece.folder.split("/") if piece.folder else ():
            path = f"{path}/{step}" if path else step
            number = self._set.enter(number, step.encode(), path)
            if not number:
                return
        for name in (*piece.names, *(link[0] for link in piece.links)):
            self._set.refuse(number, name.encode(), f"{path}/{name}" if path else name)

    def close(self) -> None:
        self._set.close()


def _fill(
    writer: PlanWriter, listing: _Listing, existing: _Existing | None, request: Request
) -> tuple[str, PackError | None]:
    """Write the pieces; return a digest of the links, and the first error of an existing set."""
    digest = hashlib.sha256()
    refused: PackError | None = None
    is_empty = True
    for piece in listing.pieces():
        if existing is not None and refused is None:
            try:
                existing.check(piece)
            except PackError as error:
                refused = error
        writer.add(piece)
        is_empty = is_empty and not (piece.names or piece.links)
        if piece.links or not piece.names:
            digest.update(repr([piece.folder, *(link[:2] for link in piece.links)]).encode())
    if is_empty and request.exclude:
        raise nothing_left(request.sources[0])
    return digest.hexdigest(), refused


def _root(request: Request) -> str:
    """The one directory to pack. Raises PackError."""
    name, *others = request.sources
    if others:
        raise PackError(f"{name}: is not a pack; a plan has one directory, or packs")
    if is_url(name):
        return name
    if not os.path.isdir(name):
        os.stat(name)  # or it is not there
        raise PackError(f"{name}: is an archive; plans are of directories and packs")
    real, target = (os.path.join(os.path.realpath(path), "") for path in (name, request.target))
    if not is_url(request.target) and target.startswith(real):
        raise PackError(
            f"{request.target}: the pack would be inside the directory that it packs; write "
            "it elsewhere"
        )
    return name


def _tuple(patterns: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if patterns is None else tuple(patterns)
