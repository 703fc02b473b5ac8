"""add_files, remove_paths: changes of an existing pack, or of the packs of a set.

A changed pack is written and verified beside the old pack, and then takes its place in one step. In
a set, new files become a new pack, and packs that lose paths are written again; each replaces its
old pack by itself, after the pack of new files exists. Mounts go on with the old packs.

Not here: packs at URLs; packs from packs under another name (pack.py).
Concurrency: any thread; a pack or set that is changed is locked against another change.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

from ffrfs._native import Pack, sidecar_paths
from ffrfs.errors import PackError
from ffrfs.files.kind import is_pack_index
from ffrfs.files.replacing import refuse_foreign
from ffrfs.files.staged_file import move_new, staged_folder, sync_folder
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import PackTree
from ffrfs.packing.pack_file import Run, write_pack
from ffrfs.packing.places import (
    MANIFEST_NAME,
    PRIVATE,
    copy_owner_and_mode,
    locked_pack,
    mend_set,
    refuse_existing,
    shard_name,
    taken_by_other,
)
from ffrfs.packing.sources.contents import Advice, Contents
from ffrfs.packing.sources.existing_set import ExistingTree, ShardOf, identity_of, packs_with
from ffrfs.packing.sources.opening import open_contents
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.pack_source import PackSource, refuse_other_records
from ffrfs.packing.sources.path_list import PathList
from ffrfs.remote.url import is_url

# Only names choose the files to add.
_ADVICE = Advice(
    one="leave it out (name the others)",
    special="leave it out (name the others)",
    outside="leave them out (name the others)",
)


class ChangeSummary(NamedTuple):
    path_count: int  # files that were added, or paths that were removed
    replaced_count: int
    rewritten_count: int  # packs that were written again
    new_count: int  # packs that were added to a set


def remove_paths(
    pack: str, paths: Sequence[str], *, dry_run: bool = False, progress: Progress | None = None
) -> ChangeSummary:
    """Remove files, links and directories with all below them from a pack or pack set.

    Raises PathNotFoundError, and changes nothing, if one is missing; PackError, OSError, and
    FormatError, ChecksumError for a pack that is damaged.
    """
    with _existing(pack, replaces=False, mends=not dry_run) as (existing, refuse_replaced):
        tree = existing.tree
        names = list(dict.fromkeys(tree.path(tree.attributes(path).ino) for path in paths))
        if "" in names:
            raise PackError(
                f"{pack}: cannot remove its root; name the files in it, or remove {pack}"
            )
        changed = list(packs_with(existing.packs, names))
        if not dry_run:
            with _changing(pack, changed, progress, refuse_replaced) as change:
                for old in changed:
                    change.rewrite(old, without=names)
        return ChangeSummary(len(names), 0, len(changed), 0)


def add_files(  # noqa: PLR0913 - what may be asked for
    pack: str,
    files: Sequence[str],
    *,
    folder: str = ".",
    force: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ChangeSummary:
    """Add files of `folder`, and directories with all below them, under their paths in it.

    `force`: replace files and links of the same path, which are an error. Raises PackError,
    OSError, and FormatError, ChecksumError for a pack that is damaged.
    """
    if "" in files:
        raise PackError(f"add: file {files.index('') + 1} has an empty name; leave it out")
    with _existing(pack, replaces=force, mends=not dry_run) as (existing, refuse_replaced):
        shards = [old.shard for old in existing.tree.volume.packs]
        is_set = os.path.isdir(pack)
        if is_set:
            set_id, count = identity_of(existing.packs, shards)
        elif shards[0] is not None:
            raise PackError(f"{pack}: is a shard of a pack set; add to its directory")
        listed = PathList(files, "add", "file")
        _refuse_itself(pack, folder, listed)
        options = PackOptions(files=listed)
        contents = open_contents("folder", [folder], options, spool=pack, existing=existing)
        with closing(contents):
            if options.time_ns is not None:
                contents.entries.normalize(options.time_ns)
            replaced = existing.replaced
            changed = list(packs_with(existing.packs, replaced)) if is_set else existing.packs
            if not dry_run:
                with _changing(pack, changed, progress, refuse_replaced) as change:
                    if is_set:
                        change.make_shard(contents, options.threads, (set_id, count, count + 1))
                        for old in changed:
                            change.rewrite(old, without=replaced)
                    else:
                        change.rewrite(pack, more=change.make(contents, options.threads))
            added = contents.entries.file_count
        return ChangeSummary(added, len(replaced), len(changed), int(is_set))


def refuse_url(pack: str) -> None:
    """Raise PackError if the pack is not on this machine."""
    if is_url(pack):
        raise PackError(
            f"{pack}: packs at URLs are not changed; change a copy on this machine, and upload it"
        )


@contextmanager
def _existing(
    pack: str, *, replaces: bool, mends: bool
) -> Iterator[tuple[ExistingTree, Callable[[], None]]]:
    """Lock and open a pack or pack set; yield it, and the function that locked_pack() yields."""
    refuse_url(pack)
    if mends:
        mend_set(pack)
    with locked_pack(pack) as refuse_replaced:
        advice = "remove it first: ffrfs rm" if replaces else "replace it with --force"
        with PackTree(pack) as tree:
            refuse_other_records(tree)
            existing = ExistingTree(tree, advice, replaces=replaces)
            existing.advice = _ADVICE
            yield existing, refuse_replaced


def _refuse_itself(pack: str, folder: str, listed: PathList) -> None:
    own = os.path.relpath(os.path.realpath(pack), os.path.realpath(folder))
    if own.split("/")[0] != ".." and listed.has(own):
        raise PackError(f"{pack}: cannot be added to itself; name files, not its directory")


@contextmanager
def _changing(
    pack: str,
    changed: Sequence[str],
    progress: Progress | None,
    refuse_replaced: Callable[[], None],
) -> Iterator[_Change]:
    """Yield a _Change, whose packs replace `changed` if the block ends well; else drop them."""
    place = os.path.realpath(pack)
    above, name = os.path.split(place)
    is_set = os.path.isdir(place)
    for old in changed if is_set else ():
        if os.path.islink(old):
            raise PackError(f"{old}: is a symbolic link; change the pack that it leads to")
    shown = pack if is_set else os.path.dirname(pack) or "."
    with staged_folder(place if is_set else above, name, shown, mode=PRIVATE) as staging:
        change = _Change(place if is_set else above, staging, changed, progress)
        yield change
        refuse_replaced()
        change.publish()


class _Change:
    """Packs that are made in the directory `staging`, on their way into `folder`."""

    def __init__(
        self, folder: str, staging: str, changed: Sequence[str], progress: Progress | None
    ) -> None:
        self._folder = folder
        self._staging = staging
        self._moves: dict[str, str] = {}
        self._added: str | None = None  # the name of a new shard
        self._progress = progress
        self._size = sum(map(os.path.getsize, changed))  # about so much will be written
        self._files = self._bytes = 0  # in the packs that are made
        self._has_changed_set = False

    def make(self, contents: Contents, jobs: int) -> str:
        """Write a pack, which will not have a name; return its path."""
        path = os.path.join(self._staging, os.path.basename(self._staging))  # a unique name
        self._write(contents, path, jobs, None)
        return path

    def make_shard(self, contents: Contents, jobs: int, shard: ShardOf) -> None:
        name = shard_name(shard[1])
        refuse_existing([name], self._folder)
        self._write(contents, os.path.join(self._staging, name), jobs, shard)
        self._added = name

    def rewrite(self, old: str, *, without: Sequence[str] = (), more: str | None = None) -> None:
        """Write a pack again: without these paths; with those of the pack `more`, which win."""
        place = os.path.realpath(old)
        path = os.path.join(self._staging, os.path.basename(place))
        packs = [old] if more is None else [old, more]
        options = PackOptions(on_conflict="last")
        left_out = PathList(without) if without else None
        with closing(PackSource(packs, options, without=left_out)) as contents:
            contents.share()
            contents.number()
            shard = Pack(os.fsencode(old)).shard
            self._write(contents, path, 1, shard)
        copy_owner_and_mode(place, path)
        self._moves[path] = place
        self._has_changed_set = self._has_changed_set or shard is not None

    def publish(self) -> None:
        """Move all packs to their names, a new one first."""
        if self._added is not None:
            place = os.path.join(self._folder, self._added)
            try:
                move_new(os.path.join(self._staging, self._added), place)
            except FileExistsError:  # it has appeared since
                raise taken_by_other(place) from None
            _remove_sidecar(place)
        if self._has_changed_set:  # the manifest has the checksum of each pack
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, MANIFEST_NAME))
        for path, place in self._moves.items():
            os.rename(path, place)
            _remove_sidecar(place)
        sync_folder(self._folder)

    def _write(self, contents: Contents, path: str, jobs: int, shard: ShardOf | None) -> None:
        def tick(files: int, size: int) -> None:
            if self._progress is not None:
                self._progress(self._files + files, 0, self._bytes + size, self._size)

        listed = contents.entries
        write_pack(contents, path, Run(0, listed.record_count), jobs, tick, shard=shard)
        self._files += listed.record_count
        self._bytes += listed.byte_count


def _remove_sidecar(pack: str) -> None:
    sidecar = os.fsdecode(sidecar_paths(os.fsencode(pack))[0])
    with contextlib.suppress(OSError):  # a stale sidecar is ignored
        refuse_foreign(sidecar, is_pack_index, "an index")
        if os.path.isfile(sidecar):
            os.unlink(sidecar)
