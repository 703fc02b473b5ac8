"""`ffr://`: the files of a pack as a file system of fsspec, for pandas, pyarrow, xarray, zarr …

    fsspec.open("ffr://train/a.jpeg::/data/x.ffr")
    fsspec.filesystem("ffr", fo="s3://bucket/x.ffr", target_options={"anon": True})

A pack at a URL goes through ffrfs's own fetcher and cache, and through no other file system.
A pack stays open, as it was, as long as fsspec keeps the instance.

Not here: reading and verifying (ffrfs.folder). Only this file and upath.py import fsspec.
Concurrency: that of PackTree: any thread, and the child of a fork().
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, NoReturn

from ffrfs.errors import FormatError, MissingPackageError, OptionError
from ffrfs.files.batches import in_batches
from ffrfs.folder.packed_file import open_packed
from ffrfs.folder.read_each import Bad, read_each
from ffrfs.folder.tree import PackTree, PathType
from ffrfs.remote.named_store import StoreKeywords, in_store

with MissingPackageError.instead("fsspec", "ffr:// needs the package fsspec", "fsspec"):
    from fsspec import AbstractFileSystem, register_implementation
    from fsspec.utils import read_block, tokenize

if TYPE_CHECKING:
    from ffrfs._native import Attributes

__all__ = ["PackFileSystem"]

_LARGE_SIZE = 4 << 20  # parts of larger files are read alone: a batch has whole files
_BATCH_SIZE = 64 << 20  # bytes of the files of a batch, which are in memory until it is cut
# Names that fsspec has for clouds, and ours.
_CLOUDS = {"s3": "s3://", "s3a": "s3://", "gs": "gs://", "gcs": "gs://"}
_CLOUDS |= {"az": "az://", "abfs": "az://", "abfss": "az://"}


class PackFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The tree of the pack `fo`: a path, or a URL that ffrfs knows. A set's URL ends in "/".

    `target_protocol`: what `fo` is a path of; a chained URL gives it. `target_options`: the
    store's options as PackedFolder takes them (`storage_options=`).

    Links are followed inside the pack, and those to nothing are left out. In a listing, one to a
    directory has the type "link", so `find`, `glob` and `walk` do not enter it.

    Raises FileNotFoundError, IsADirectoryError, NotADirectoryError; ChecksumError for a damaged
    file; OSError (EROFS) for all that writes.
    """

    protocol = "ffr"
    root_marker = ""

    def __init__(
        self,
        fo: PathType | Sequence[PathType] = "",
        target_protocol: str | None = None,
        target_options: Mapping[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 - fsspec's own
    ) -> None:
        if self._cached:
            return
        super().__init__(fo, target_protocol, target_options, **options)
        if not fo:
            raise OptionError("ffr:// needs a pack: ffr://PATH::PACK, or fo=PACK")
        packs = [fo] if isinstance(fo, str | os.PathLike) else fo
        names = [_pack_name(os.fspath(pack), target_protocol) for pack in packs]
        store: StoreKeywords = {"storage_options": target_options} if target_options else {}
        self._tree = PackTree(in_store(names, store))
        volume = self._tree.volume
        if not volume.is_folder and not volume.is_examples:
            raise FormatError.at(self._tree.file, "is a plain FFRecord file: it has no names")

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:  # noqa: ANN401 - one, or a list
        stripped = super()._strip_protocol(path)
        return stripped if isinstance(stripped, list) else stripped.lstrip("/")

    def _info(self, path: str, found: Attributes, is_link: bool) -> dict[str, Any]:
        is_folder = stat.S_ISDIR(found.mode)
        return {
            "name": path,
            "size": 0 if is_folder else found.size,
            "type": "directory" if is_folder else "file",
            "mtime": found.mtime_ns / 10**9,
            "mode": found.mode,
            "ino": found.ino,
            "islink": is_link,
        }

    def info(self, path: str, **_: object) -> dict[str, Any]:
        path = self._strip_protocol(path)
        found = self._tree.attributes(path, follow_links=True)
        return self._info(path, found, self._tree.find(path) not in (0, found.ino))

    def _below(self, path: str, recursive: bool = False) -> Iterator[dict[str, Any]]:
        found = self._tree.followed(path, self._tree.folder_ino(path), recursive)
        for entry, is_link in found:
            name = f"{path}/{entry.path}" if path else entry.path
            info = self._info(name, entry.attributes, is_link)
            # A walk over all files must not enter such a link.
            is_way_out = is_link and entry.is_folder
            yield {**info, "type": "link"} if is_way_out else info

    def ls(self, path: str, detail: bool = True, **_: object) -> list[Any]:
        path = self._strip_protocol(path)
        found = self.info(path)
        listed = [found] if found["type"] == "file" else [*self._below(path)]
        return listed if detail else [one["name"] for one in listed]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **options: object,
    ) -> Any:  # noqa: ANN401 - a list, or a dict
        path = self._strip_protocol(path)
        if maxdepth is not None:
            found = super().find(path, maxdepth, withdirs, detail=True, **options)
        elif not self.isdir(path):
            found = {path: self.info(path)} if self.exists(path) else {}
        else:
            found = {one["name"]: one for one in self._below(path, recursive=True)}
            if path:
                found[path] = self.info(path)
        if not withdirs:
            kept = (None, "file")  # None: fsspec's, of `path` itself
            found = {name: one for name, one in found.items() if one.get("type") in kept}
        return {name: found[name] for name in sorted(found)} if detail else sorted(found)

    def _open(self, path: str, mode: str = "rb", **_: object) -> IO[bytes]:
        if mode != "rb":
            self._refuse(path)
        return open_packed(self._tree, path, mode, -1, None, None, None)  # type: ignore[return-value]

    def read_block(
        self, fn: str, offset: int, length: int | None, delimiter: bytes | None = None
    ) -> bytes:
        """Do the same as fsspec's method, which asks the open file for its size."""
        left = self.info(fn)["size"] - offset
        with self.open(fn) as file:
            size = left if length is None else min(length, left)
            return bytes(read_block(file, offset, size, delimiter))

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: object
    ) -> bytes:
        ino, size, span = self._span(path, start, end)
        is_whole = span.stop - span.start == size
        return self._tree.read_whole(ino) if is_whole else self._part(ino, span)

    def _span(self, path: str, start: int | None, end: int | None) -> tuple[int, int, slice]:
        """Return a file's inode and size, and the range as places in it."""
        path = self._strip_protocol(path)
        ino, size = self._tree.file_ino(path), self.info(path)["size"]
        return ino, size, slice(*slice(start, end).indices(size)[:2])

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        on_error: str = "return",
        **_: object,
    ) -> list[bytes | Exception]:
        """Return the ranges. Files are read and verified in batches, parts of large ones alone."""
        count = len(paths)
        begins = [starts] * count if starts is None or isinstance(starts, int) else starts
        limits = [ends] * count if ends is None or isinstance(ends, int) else ends
        out: list[bytes | Exception] = [b""] * count
        spans: dict[int, list[tuple[int, slice]]] = {}
        sizes: dict[int, int] = {}
        for i, (path, begin, limit) in enumerate(zip(paths, begins, limits, strict=True)):
            try:
                ino, size, span = self._span(path, begin, limit)
                if size > _LARGE_SIZE and span.stop - span.start < size:
                    out[i] = self._part(ino, span)
                else:
                    sizes[ino] = size
                    spans.setdefault(ino, []).append((i, span))
            except Exception as failed:
                if on_error == "raise":
                    raise
                out[i] = failed
        for inos in in_batches(sizes, sizes.__getitem__, _BATCH_SIZE, len(sizes)):
            self._cut({ino: spans[ino] for ino in inos}, on_error, out)
        return out

    def _cut(
        self,
        spans: Mapping[int, list[tuple[int, slice]]],
        on_error: str,
        out: list[bytes | Exception],
    ) -> None:
        """Read whole files as one verified batch, and put the spans into their places of `out`."""
        found = read_each([*spans], self._tree.read_files, lambda _: on_error != "raise")
        for places, data in zip(spans.values(), found, strict=True):
            for i, span in places:
                out[i] = data.error if isinstance(data, Bad) else data[span].tobytes()

    def _part(self, ino: int, span: slice) -> bytes:
        steps = range(span.start, span.stop, _LARGE_SIZE)
        return b"".join(
            bytes(self._tree.read_at(ino, at, min(_LARGE_SIZE, span.stop - at))) for at in steps
        )

    def cat(
        self,
        path: str | list[str],
        recursive: bool = False,
        on_error: str = "raise",
        **options: object,
    ) -> Any:  # noqa: ANN401 - bytes, or a dict
        paths = self.expand_path(path, recursive=recursive, **options)
        if recursive:
            paths = [one for one in paths if not self.isdir(one)]
        if isinstance(path, str) and paths == [self._strip_protocol(path)]:
            return self.cat_file(path)
        found = zip(paths, self.cat_ranges(paths, None, None, on_error=on_error), strict=True)
        return {
            one: data
            for one, data in found
            if on_error != "omit" or not isinstance(data, Exception)
        }

    def ukey(self, path: str) -> str:
        """Return a key that changes with the file's bytes, as far as their checksum tells."""
        volume, ino = self._tree.volume, self._tree.file_ino(self._strip_protocol(path))
        return str(tokenize(self._tree.packs, volume.attributes(ino), volume.record(ino)))

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    def _refuse(self, *args: Any, **_: Any) -> NoReturn:  # noqa: ANN401
        raise OSError(errno.EROFS, "packs are read-only", str(args[0]) if args else None)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Pass if there is nothing to do: fsspec asks for the parent of what it opens to write."""
        if not (exist_ok and self.isdir(path)):
            self._refuse(path)

    mkdir = rmdir = rm = rm_file = _rm = cp_file = copy = mv = touch = _refuse
    pipe = pipe_file = put = put_file = write_text = _refuse


def _pack_name(name: str, protocol: str | None) -> str:
    """Return the name that ffrfs opens for a path of fsspec's `protocol`. Raises OptionError."""
    scheme, begin, rest = name.partition("://")
    if begin:
        protocol, name = scheme, rest if scheme in _CLOUDS else name
    if not protocol or protocol in ("file", "local", "http", "https"):
        return name
    if protocol not in _CLOUDS:
        raise OptionError(
            f"{name}: ffr:// opens packs by itself, and caches blocks of remote ones: it takes a "
            f"path, file://, s3://, gs://, az://, http:// and https://, and not {protocol}://"
        )
    return _CLOUDS[protocol] + name


# Registers the class even where the entry point is missing. It must be known before
# universal_pathlib looks it up: otherwise that warns.
register_implementation("ffr", PackFileSystem, clobber=True)
