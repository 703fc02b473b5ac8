"""The rows of a conversion: one for each finished file, until the manifest replaces them.

    DST/.ffrfs-rows/NAME.json    with a digest of a NAME that leaves no room for ".json"

Not here: making the files (convert_files.py). Concurrency: put_row() is for any task; the rest for
one thread, in the driver.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from ffrfs.cluster.file_task import FileState
from ffrfs.errors import PackError
from ffrfs.packing.bucket_target import refuse_unwritable
from ffrfs.packing.target_folder import TargetFolder

ROWS_NAME = ".ffrfs-rows"
_BEGUN_NAME = "begun"  # files may exist before the first row does
_SUFFIX = ".json"
_STAGING_SUFFIX = ".partial"  # of a row that a killed task was writing
_ROW_SIZE_MAX = 1 << 16
NAME_SIZE_MAX = 255  # NAME_MAX, in bytes


@dataclass(frozen=True)
class ConvertRow:
    """A file that was made, and its source."""

    source: str  # its name
    source_size: int
    source_mtime_ns: int
    source_etag: str
    name: str
    size: int
    etag: str
    records: int
    skipped: int
    options: str  # those by which it was made

    @property
    def source_state(self) -> FileState:
        return FileState(self.source_size, self.source_mtime_ns, self.source_etag)


class ConvertRows:
    """The rows in the directory `target`. `found`: those of earlier runs, by the names of files.

    Raises PackError if the directory cannot be written to, OSError, RemoteError.
    """

    def __init__(self, target: str) -> None:
        self._target = TargetFolder(target)
        if self._target.url is not None:
            refuse_unwritable(self._target.url, is_set=True)
        self._rows = TargetFolder(self._target.place(ROWS_NAME), is_own=True)
        self._is_begun = bool(self._rows.names())
        self.found: dict[str, ConvertRow] = {}
        for content in self._rows.contents(_ROW_SIZE_MAX):
            _keep(self.found, content.decode(errors="replace"))

    def begin(self, names: Iterable[str]) -> None:
        """Raise PackError if the directory has files that this conversion does not make."""
        there = {name for name in self._target.names() if not name.startswith(".")}
        if there and (not self._is_begun or there - set(names)):
            raise PackError(f"{self._target.path}: is not empty; write to another directory")
        if self._target.url is None:
            os.makedirs(self._rows.path, exist_ok=True)
        self._rows.write(_BEGUN_NAME, b"")

    def finish(self, manifest: bytes) -> None:
        """Write the manifest, the last of all files, and remove the rows."""
        self._target.write_manifest(manifest)
        # While a row is left, the same command finishes the removal.
        for name in sorted(self._rows.names(), key=lambda name: (name == _BEGUN_NAME, name)):
            if name == _BEGUN_NAME or name.endswith((_SUFFIX, _STAGING_SUFFIX)):
                self._rows.remove(name)
        if self._target.url is None:
            os.rmdir(self._rows.path)


def put_row(target: str, row: ConvertRow) -> None:
    """Write the row of the file that was made at `target`. Raises OSError, RemoteError."""
    rows = TargetFolder(target.removesuffix(row.name) + ROWS_NAME, is_own=True)
    name = os.fsencode(row.name)
    short = sha256(name).hexdigest() if len(name + _SUFFIX.encode()) > NAME_SIZE_MAX else row.name
    rows.write(short + _SUFFIX, line_of(row).encode(), sync=False)


def line_of(row: ConvertRow) -> str:
    return json.dumps(asdict(row)) + "\n"


def _keep(found: dict[str, ConvertRow], line: str) -> None:
    """Keep the row, unless its line is damaged: then the file is made again."""
    try:
        values: dict[str, Any] = json.loads(line)
        row = ConvertRow(**values)
    except (ValueError, TypeError, RecursionError):
        return
    texts: Sequence[object] = (row.source, row.source_etag, row.name, row.etag, row.options)
    numbers = (row.source_size, row.source_mtime_ns, row.size, row.records, row.skipped)
    if all(type(text) is str for text in texts) and all(type(n) is int for n in numbers):
        found[row.name] = row
