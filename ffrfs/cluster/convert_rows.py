"""What a conversion has made so far: a row for each file, until the manifest takes their place.

    DST/.ffrfs-rows.jsonl          a directory: a line for each, by the driver
    DST/.ffrfs-rows/NAME.json      a bucket: an object for each, by the task; nothing can be
                                   added to an object

Not here: making the files (converting.py). Concurrency: one thread, in the driver; put_row() is
for any task.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

from ffrfs.cluster.file_task import FileState
from ffrfs.cluster.manifest import write_manifest
from ffrfs.errors import PackError
from ffrfs.packing.bucket_target import BucketTarget
from ffrfs.remote.bucket import objects_in, put, remove, whole_objects
from ffrfs.remote.origin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import is_url, parse_url

ROWS_NAME = ".ffrfs-rows.jsonl"
_FOLDER_NAME = ".ffrfs-rows/"
_BEGUN_NAME = "begun"  # files may be there before the first row is
_SUFFIX = ".json"
_ROW_SIZE_MAX = 1 << 16


@dataclass(frozen=True)
class ConvertRow:
    """A file that was made, and of what."""

    source: str  # name
    source_size: int
    source_mtime_ns: int
    source_etag: str
    name: str
    size: int
    etag: str
    records: int
    skipped: int

    @property
    def source_state(self) -> FileState:
        return FileState(self.source_size, self.source_mtime_ns, self.source_etag)


class ConvertRows(Protocol):
    """`found`: the rows of before, by the names of the files."""

    found: dict[str, ConvertRow]
    is_begun: bool  # so the files that are there are ours

    def names(self) -> set[str]:
        """What is in the directory; no hidden names."""
        ...

    def add(self, row: ConvertRow) -> None: ...

    def finish(self, manifest: bytes) -> None:
        """Write the manifest, the last of all files; no row is left."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def rows_at(target: str) -> ConvertRows:
    """Nothing is written until the first row. Raises OSError, RemoteError."""
    return BucketRows(target) if is_url(target) else FolderRows(target)


class FolderRows:
    """Of a local directory."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._place = os.path.join(target, ROWS_NAME)
        self.found: dict[str, ConvertRow] = {}
        self.is_begun = os.path.lexists(self._place)
        try:
            with open(self._place, encoding="utf-8", errors="replace") as log:
                while line := log.readline(_ROW_SIZE_MAX):
                    _keep(self.found, line)
        except FileNotFoundError:
            pass

    def names(self) -> set[str]:
        try:
            return {name for name in os.listdir(self._target) if not name.startswith(".")}
        except FileNotFoundError:
            return set()

    def __enter__(self) -> Self:
        os.makedirs(self._target, exist_ok=True)
        self._log = open(self._place, "a", encoding="utf-8")
        return self

    def add(self, row: ConvertRow) -> None:
        self._log.write(line_of(row))
        self._log.flush()

    def finish(self, manifest: bytes) -> None:
        write_manifest(self._target, manifest)
        os.unlink(self._place)

    def __exit__(self, *_: object) -> None:
        self._log.close()


class BucketRows:
    """Of a directory of a bucket. Raises PackError for what cannot be written to, RemoteError."""

    def __init__(self, target: str) -> None:
        self._target = target
        place = BucketTarget(target, is_set=True, tmp_dir=None, as_in="")
        self._folder, self._settings = place.url, place.settings
        self._above = self._folder.child(_FOLDER_NAME)
        objects, _ = objects_in(self._above, self._settings)
        self.is_begun = bool(objects)
        self._names = {found.name for found in objects}
        pins = [
            Pin(self._above.child(found.name), found.size, found.etag or None, None, found.mtime_ns)
            for found in objects
            if found.size <= _ROW_SIZE_MAX and found.name.endswith(_SUFFIX)
        ]
        self.found: dict[str, ConvertRow] = {}
        for content in whole_objects(pins, self._settings):
            _keep(self.found, b"".join(map(bytes, content)).decode(errors="replace"))

    def names(self) -> set[str]:
        objects, _ = objects_in(self._folder, self._settings)
        return {found.name for found in objects if not found.name.startswith(".")}

    def __enter__(self) -> Self:
        put(self._above.child(_BEGUN_NAME), b"", self._settings)
        return self

    def add(self, row: ConvertRow) -> None:
        """The task has written it."""
        self._names.add(row.name + _SUFFIX)

    def finish(self, manifest: bytes) -> None:
        write_manifest(self._target, manifest)
        # While one is left, the same command finishes this.
        for name in (*sorted(self._names - {_BEGUN_NAME}), _BEGUN_NAME):
            remove(self._above.child(name), self._settings)

    def __exit__(self, *_: object) -> None:
        pass


def put_row(target: str, row: ConvertRow) -> None:
    """Write the row of the file that was made at the URL `target`. Raises RemoteError."""
    folder = parse_url(target.removesuffix(row.name)).child(_FOLDER_NAME)
    place = folder.child(row.name + _SUFFIX)
    put(place, line_of(row).encode(), RemoteSettings.from_environment())


def line_of(row: ConvertRow) -> str:
    return json.dumps(asdict(row)) + "\n"


def refuse_others(target: str, rows: ConvertRows, names: Iterable[str]) -> None:
    """Raise PackError if the directory has files that this conversion does not make."""
    there = rows.names()
    if there and (not rows.is_begun or there - set(names)):
        raise PackError(f"{target}: is not empty; write to another directory")


def _keep(found: dict[str, ConvertRow], line: str) -> None:
    """Unless the line was cut off, or is not ours: then the file is made again."""
    try:
        values: dict[str, Any] = json.loads(line)
        row = ConvertRow(**values)
    except (ValueError, TypeError, RecursionError):
        return
    texts: Sequence[object] = (row.source, row.source_etag, row.name, row.etag)
    numbers = (row.source_size, row.source_mtime_ns, row.size, row.records, row.skipped)
    if all(type(text) is str for text in texts) and all(type(n) is int for n in numbers):
        found[row.name] = row
