"""pack_folder, pack_archive, repack: a tree into one FFRecord file, or into a set of them.

Not here: which files (source.py, archive.py, pack_source.py), the packing itself (pack_job.py).
Concurrency: call it from any thread; what comes out is complete or is not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, get_args

from ffrfs.errors import PackError
from ffrfs.folder.progress import Progress, ProgressBar
from ffrfs.packing.pack_job import (
    Listing,
    PackOptions,
    PackSummary,
    fixed_time_ns,
    job_count,
    make_target,
    run_job,
)
from ffrfs.packing.pack_kind import holds_packs
from ffrfs.packing.sources.contents import Contents, Symlinks
from ffrfs.packing.sources.existing_set import ExistingSet
from ffrfs.packing.sources.order import Order
from ffrfs.packing.sources.path_list import PathList
from ffrfs.packing.sources.selection import Selection
from ffrfs.packing.sources.source import FolderIdentity, Source
from ffrfs.remote.url import is_url, parse_url

if TYPE_CHECKING:
    from ffrfs.folder.tree import OnConflict

PathType: TypeAlias = str | os.PathLike[str]
Files: TypeAlias = Iterable[PathType] | PathList


def pack_folder(  # noqa: PLR0913 - the reference's three, and what ours adds
    folder: PathType,
    out_file: PathType,
    verbose: bool = False,
    *,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    files: Files | None = None,
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
    tmp_dir: PathType | None = None,
    dry_run: bool = False,
    listing: Listing | None = None,
) -> PackSummary:
    """Pack all files below `folder` into `out_file`, which then holds them or is not made.

    `include` and `exclude` are shell patterns, for a name or, with a slash, for a path below
    `folder`; an excluded directory is not entered, an included one is taken whole, and each
    pattern to include must match something. `files`: only these paths, in this order; a directory
    means what is below it, and each must be there. `jobs` threads read. `verbose`: a bar.

    `symlinks`: "inside" follows links that stay inside `folder`, and links that lead out of it
    are an error; "follow" follows all; "keep" packs the links; "skip" leaves them out.

    `dedup` stores files that are equal byte for byte once. `order` of the records: "path" (the
    default), "size" (the smallest first), or a file listing one path per line; unlisted files
    follow. `reproducible`, or SOURCE_DATE_EPOCH in the environment, makes packing
    deterministic: files get that time, or 1970, and permissions 0644 or 0755.

    With `shards` (how many) or `shard_size` (bytes) `out_file` is a new directory of packs, each
    of which can be read alone. `append` adds packs to such a directory (one, or as many as
    `shards` or `shard_size` ask for); none of their paths may be there already.

    A file at `out_file`, also a pack, is replaced with `force` alone. `out_file` may be a URL
    (s3://, gs://, az://): each pack is made in `tmp_dir` ($TMPDIR, /tmp), where there must be room
    for two, then uploaded and removed. It appears there when it is whole. `dry_run`: do all but
    write. `listing` is called with the files' paths in their order.

    Raises PackError, naming the file: one that changes meanwhile, a link that leads out,
    nowhere or in a loop; sockets, FIFOs, devices and names that are not UTF-8, unless
    `skip_special` leaves those out. Raises OSError for what cannot be read or written.
    """

    def open_folder(forbidden: FolderIdentity, existing: ExistingSet | None) -> Contents:
        return Source(
            _checked_folder(os.fspath(folder)),
            selection=Selection(include, exclude, _listed(files)),
            symlinks=_checked(symlinks),
            skip_special=skip_special,
            forbidden=forbidden,
            existing=existing,
        )

    target = make_target(out_file, shards, shard_size, append, force, tmp_dir)
    fixed_ns = fixed_time_ns(reproducible)
    options = PackOptions(job_count(jobs), order, dedup, fixed_ns, dry_run, listing, bool(exclude))
    with ProgressBar(target.path, shown=verbose) as bar:
        return run_job(open_folder, target, options, [bar, *_given(progress)])


def pack_archive(  # noqa: PLR0913 - as pack_folder
    archive: PathType,
    out_file: PathType,
    verbose: bool = False,
    *,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    files: Files | None = None,
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
    tmp_dir: PathType | None = None,
    dry_run: bool = False,
    listing: Listing | None = None,
) -> PackSummary:
    """Pack all files of a tar or zip archive, as pack_folder() does; nothing is unpacked to disk.

    `archive`: a tar file, also one compressed by gzip, bzip2, xz or (with the package
    zstandard) Zstandard, a zip file, or "-", standard input. Its content shows which. What
    cannot be read twice is first copied to a file without a name beside `out_file`. Records
    stand in the order of the archive, also with `files`. A file at `out_file` is replaced with
    `force` alone. Links are followed within it ("inside"
    and "follow" mean the same), kept or left out.

    Raises PackError, naming the member: names that cannot stand below a directory, or stand
    twice, links that lead out of it, encrypted and damaged members; devices, FIFOs and names
    that are not UTF-8, unless `skip_special` leaves those out.
    """

    # Decompressors and the like, which nothing else needs.
    from ffrfs.packing.sources.archive import ArchiveSource
    from ffrfs.packing.sources.archive_progress import ArchiveProgress

    target = make_target(out_file, shards, shard_size, append, force, tmp_dir)
    fixed_ns = fixed_time_ns(reproducible)
    options = PackOptions(job_count(jobs), None, dedup, fixed_ns, dry_run, listing, bool(exclude))
    with ProgressBar(target.path, shown=verbose) as bar:
        whole = ArchiveProgress(bar)

        def open_archive(_: FolderIdentity, existing: ExistingSet | None) -> Contents:
            return ArchiveSource(
                os.fspath(archive),
                selection=Selection(include, exclude, _listed(files)),
                symlinks=_checked(symlinks),
                skip_special=skip_special,
                digests=dedup,
                existing=existing,
                target=target.spool_place,
                progress=whole,
            )

        return run_job(open_archive, target, options, [whole, *_given(progress)])


def repack(  # noqa: PLR0913 - as pack_folder
    packs: PathType | Sequence[PathType],
    out_file: PathType,
    verbose: bool = False,
    *,
    include: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    files: Files | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    skip_special: bool = False,
    symlinks: Symlinks = "keep",
    on_conflict: OnConflict = "error",
    allow_missing: bool = False,
    dedup: bool = False,
    order: Order | None = None,
    reproducible: bool = False,
    shards: int | None = None,
    shard_size: int | None = None,
    append: bool = False,
    force: bool = False,
    tmp_dir: PathType | None = None,
    dry_run: bool = False,
    listing: Listing | None = None,
) -> PackSummary:
    """Pack all files of `packs`, as pack_folder() does: a pack, a directory of packs, or several.

    Every byte is verified before it is written. Files keep their permissions and times, links
    stay links (`symlinks` "keep"; "inside" and "follow" follow them within the packs), and equal
    files that were stored once still are. `order`: None is the order of the packs' own records.
    `on_conflict`, `allow_missing`: as PackedFolder.

    `out_file` may be the one pack that is read; any other file is replaced with `force` alone.

    Raises FormatError, ChecksumError for a pack that is damaged, naming the file in it, PackError.
    """
    from ffrfs.packing.sources.pack_source import PackSource

    given = [packs] if isinstance(packs, str | os.PathLike) else packs
    names = [os.fspath(pack) for pack in given]

    def open_packs(forbidden: FolderIdentity, existing: ExistingSet | None) -> Contents:
        return PackSource(
            names,
            selection=Selection(include, exclude, _listed(files)),
            symlinks=_checked(symlinks),
            skip_special=skip_special,
            on_conflict=on_conflict,
            allow_missing=allow_missing,
            forbidden=forbidden,
            existing=existing,
        )

    if len(names) == 1 and _are_same(names[0], os.fspath(out_file)):
        force = True
    target = make_target(out_file, shards, shard_size, append, force, tmp_dir)
    fixed_ns = fixed_time_ns(reproducible)
    options = PackOptions(job_count(jobs), order, dedup, fixed_ns, dry_run, listing, bool(exclude))
    with ProgressBar(target.path, shown=verbose) as bar:
        return run_job(open_packs, target, options, [bar, *_given(progress)])


def _given(progress: Progress | None) -> list[Progress]:
    return [progress] if progress else []


def _listed(files: Files | None) -> PathList | None:
    return files if files is None or isinstance(files, PathList) else PathList(files)


def _are_same(source: str, target: str) -> bool:
    if is_url(source) or is_url(target):
        return is_url(source) and is_url(target) and parse_url(source) == parse_url(target)
    return os.path.exists(target) and os.path.samefile(source, target)


def _checked_folder(path: str) -> str:
    """Name the function that packs what is no directory."""
    if os.path.isfile(path):
        if holds_packs(path):
            raise PackError(f"{path}: is a pack already, not a directory; for packs see repack()")
        raise PackError(f"{path}: is not a directory; for archives see pack_archive()")
    return path


def _checked(symlinks: Symlinks) -> Symlinks:
    known = get_args(Symlinks)
    if symlinks not in known:
        raise ValueError(f"symlinks must be one of {', '.join(known)}, not {symlinks!r}")
    return symlinks
