"""pack_folder, pack_archive, repack: pack a tree into one FFRecord file, or into a set of them.

Not here: which files (ffrfs.packing.sources), writing packs (shards.py), where they appear
(places.py, bucket_place.py).
Concurrency: any thread; the pack or set is complete, or absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Unpack, cast

from ffrfs._native import EntryList
from ffrfs.errors import PackError
from ffrfs.folder.progress import Progress, ProgressBar
from ffrfs.packing.cuts import runs_of, set_id_of
from ffrfs.packing.pack_kind import holds_packs
from ffrfs.packing.places import FilePlace, FolderPlace, Place, SamePlace
from ffrfs.packing.shards import write_shards
from ffrfs.packing.sources.archive_progress import ArchiveProgress
from ffrfs.packing.sources.contents import Contents
from ffrfs.packing.sources.opening import Kind, open_contents
from ffrfs.packing.sources.options import PackKeywords, PackOptions, PathType
from ffrfs.packing.sources.order import batches
from ffrfs.remote.url import is_url, parse_url

if TYPE_CHECKING:
    from ffrfs.packing.sources.archive import ArchiveSource


class PackSummary(NamedTuple):
    file_count: int
    folder_count: int
    byte_count: int
    skipped: list[str]  # paths that skip_special left out
    link_count: int = 0  # links that were kept
    shared_count: int = 0  # files that share the record of another
    stored_byte_count: int = 0  # bytes of the files that were stored, each once
    shard_count: int = 0  # packs that were written as shards; 0: one pack
    followed_link_count: int = 0
    left_out_link_count: int = 0


def pack_folder(
    folder: PathType, out_file: PathType, verbose: bool = False, **options: Unpack[PackKeywords]
) -> PackSummary:
    """Pack all files below `folder` into `out_file`, or leave no file there.

    `verbose`: show a progress bar. `options`: those of PackOptions. With `shards` or
    `shard_size` `out_file` is a new directory of packs, each of which can be read alone. A file
    at `out_file`, also a pack, is replaced with `force` alone. `out_file` may be a URL (s3://,
    gs://, az://): each pack is made in `tmp_dir`, then uploaded and removed. It appears there
    when it is whole.

    Raises PackError, naming the file: one that changes meanwhile, a link that leads out,
    nowhere or in a loop; sockets, FIFOs, devices and names that are not UTF-8, unless
    `skip_special` leaves those out. Raises OSError if a file cannot be read or written.
    """
    name = os.fspath(folder)
    if os.path.isfile(name):  # name the function that packs it
        if holds_packs(name):
            raise PackError(f"{name}: is a pack already, not a directory; for packs see repack()")
        raise PackError(f"{name}: is not a directory; for archives see pack_archive()")
    return pack_any("folder", [name], os.fspath(out_file), PackOptions(**options), verbose=verbose)


def pack_archive(
    archive: PathType, out_file: PathType, verbose: bool = False, **options: Unpack[PackKeywords]
) -> PackSummary:
    """Pack all files of a tar or zip archive, as pack_folder() does; nothing is unpacked to disk.

    `archive`: a tar file, also one compressed by gzip, bzip2, xz or (with the package
    zstandard) Zstandard, a zip file, or "-", standard input. Its content shows which. A
    pipe is first copied to a file without a name beside `out_file`. Records
    are in the order of the archive, also with `files`; `order` is an error. Links are followed
    within it ("inside" and "follow" mean the same), kept or left out.

    Raises PackError, naming the member: names that cannot be below a directory, or that occur
    twice, links that lead out of it, encrypted and damaged members; devices, FIFOs and names
    that are not UTF-8, unless `skip_special` leaves those out.
    """
    name = os.fspath(archive)
    return pack_any("archive", [name], os.fspath(out_file), PackOptions(**options), verbose=verbose)


def repack(
    packs: PathType | Sequence[PathType],
    out_file: PathType,
    verbose: bool = False,
    **options: Unpack[PackKeywords],
) -> PackSummary:
    """Pack all files of `packs`, as pack_folder() does: a pack, a directory of packs, or several.

    Every byte is verified before it is written. Files keep their permissions and times, links
    stay links (`symlinks` "inside" and "follow" follow them within the packs), and equal files
    that were stored once still are. `out_file` may be the one pack that is read; any other file
    is replaced with `force` alone.

    Raises FormatError, ChecksumError for a pack that is damaged, naming the file in it, PackError.
    """
    given = [packs] if isinstance(packs, str | os.PathLike) else packs
    names, target = [os.fspath(name) for name in given], os.fspath(out_file)
    return pack_any("packs", names, target, PackOptions(**options), verbose=verbose)


def pack_any(
    kind: Kind, sources: Sequence[str], target: str, options: PackOptions, *, verbose: bool
) -> PackSummary:
    """Pack `sources`, by threads of this process. Raises as pack_folder() and its like."""
    for name in (*sources, target):
        if not isinstance(name, str):
            raise TypeError(f"paths are text, not {name!r}")
    place_of: Callable[[str, PackOptions], Place] = _place_of
    if kind == "packs" and len(sources) == 1 and _are_same(sources[0], target):
        options = replace(options, force=True)
        if os.path.isfile(target):
            place_of = SamePlace
    time_ns = options.time_ns
    with ProgressBar(target, shown=verbose) as bar, place_of(target, options) as place:
        place.say = bar.say
        archive = ArchiveProgress(bar) if kind == "archive" else None
        contents = open_contents(
            kind,
            sources,
            options,
            spool=place.spool,
            forbidden=place.identity,
            existing=place.existing,
            progress=archive,
        )
        with closing(contents):
            listed = contents.entries
            stored = _stored_byte_count(listed)
            watchers: list[Progress | None] = [archive or bar, options.progress]

            def tick(files: int, size: int) -> None:
                for watcher in watchers:
                    if watcher is not None:
                        watcher(files, listed.record_count, size, stored)

            runs = runs_of(listed, options)
            set_id = set_id_of(listed, options) if options.is_set else b""
            if time_ns is not None:
                listed.normalize(time_ns)
            if not options.dry_run:
                if kind == "archive" and place.at_a_time is None:  # all packs are kept there
                    cast("ArchiveSource", contents).refuse_too_large(stored)
                write_shards(contents, runs, place, set_id, options.threads, tick)
            return _summary(contents, stored, len(runs) if options.is_set else 0)


def _place_of(path: str, options: PackOptions) -> Place:
    """Return where packs appear. Raises PackError, RemoteError, OSError."""
    if is_url(path):
        from ffrfs.packing.bucket_place import BucketPlace

        return BucketPlace(path, options)
    return FolderPlace(path, options) if options.is_set else FilePlace(path, options)


def _summary(contents: Contents, stored_byte_count: int, shard_count: int) -> PackSummary:
    listed = contents.entries
    return PackSummary(
        listed.file_count,
        listed.folder_count,
        listed.byte_count,
        contents.skipped,
        listed.link_count,
        listed.file_count - listed.record_count,
        stored_byte_count,
        shard_count,
        contents.links.followed,
        contents.links.left_out,
    )


def _stored_byte_count(listed: EntryList) -> int:
    if listed.record_count == listed.file_count:
        return listed.byte_count
    sizes = listed.sizes()
    return sum(int(sizes[files].sum()) for files in batches(listed))


def _are_same(source: str, target: str) -> bool:
    if is_url(source) or is_url(target):
        return is_url(source) and is_url(target) and parse_url(source) == parse_url(target)
    return os.path.exists(target) and os.path.samefile(source, target)
