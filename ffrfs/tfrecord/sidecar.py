"""Sidecars: the index of a TFRecord file, for the next opening.

`ffrfs index` writes FILE.idx beside the file. A reader that finds none writes one into the
user's cache: a program that lists FILE* should find nothing but data.

It has a line per record, "offset size", the size with the 16 bytes of framing: the format of
DALI's and the PyPI package's tfrecord2idx; both sides can read each other's files. A sidecar
gets the modification time of its file, so that any later change of the file makes the
sidecar the older of the two.

Not here: reading one, and checking that it is sound (native core, sidecar.h).
Concurrency: any thread and process; the file appears whole, and the last writer wins.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Sequence

from ffrfs._native import TFRecords, cached_index_path
from ffrfs.errors import FormatError
from ffrfs.files import index_cache
from ffrfs.files.replacing import refuse_foreign
from ffrfs.files.staged_file import StagedFile
from ffrfs.remote.paths import let_urls_in
from ffrfs.remote.stream import open_stream, size_of
from ffrfs.remote.url import is_url
from ffrfs.tfrecord.framing import FRAME_SIZE

# Lines made at a time: at most 11 MB of text.
_STEP = 1 << 18


_FIRST_LINE = re.compile(rb"0 [0-9]{1,20}\n")
# A line of an index: two numbers of 64 bits are shorter.
_LINE_MAX = 64


def write_sidecar(path: str | os.PathLike[str]) -> str:
    """Index `path` again and write FILE.idx beside it, replacing an existing index.

    The index of a URL goes into the user's cache.

    Returns its path. Raises FormatError, TruncatedError for a file that is not sound,
    PackError if another kind of file is there, OSError.
    """
    name = os.fspath(path)
    let_urls_in([name])
    with contextlib.closing(TFRecords([os.fsencode(name)], sidecar=False)) as records:
        if is_url(name):
            return _write(records, 0, _cached_place(name))
        return _write_named(records, f"{name}.idx")


def create_index(tfrecord_file: str | os.PathLike[str], index_file: str | os.PathLike[str]) -> None:
    """Write the index of a TFRecord file to any path: the package's tfrecord2idx.

    Raises FormatError, TruncatedError for a file that is not sound; PackError if another kind of
    file is at `index_file`; OSError.
    """
    let_urls_in([os.fspath(tfrecord_file)])
    with contextlib.closing(TFRecords([os.fsencode(tfrecord_file)], sidecar=False)) as records:
        _write_named(records, os.fspath(index_file))


def check_index(
    index_file: str | os.PathLike[str], tfrecord_file: str | os.PathLike[str] | None
) -> int:
    """Read an index and return the number of its records.

    `tfrecord_file` must have the size that follows from the index; None: it is compressed.
    Raises FormatError if the file is no index, or another file's; OSError.
    """
    name, end, count = os.fspath(index_file), 0, 0
    with io.BufferedReader(open_stream(name)) as file:
        while line := file.readline(_LINE_MAX):
            try:
                offset, size = map(int, line.split())
            except ValueError:
                offset = size = -1
            if offset != end or size < FRAME_SIZE:
                raise FormatError.at(name, f"line {count + 1} is none of an index of records")
            end, count = offset + size, count + 1
    path = None if tfrecord_file is None else os.fspath(tfrecord_file)
    if path is not None and size_of(path) != end:
        raise FormatError.at(
            name, f"is not the index of {path}, or of an older state of it; write it again"
        )
    return count


def keep_sidecars(records: TFRecords, paths: Sequence[str]) -> None:
    """Write the sidecars into the cache that `records` did not find, or found not sound.

    Failures are ignored: the sidecars only speed up the next opening.
    """
    for shard, used in enumerate(records.used_sidecars):
        if not used and cached_index_path(os.fsencode(paths[shard])):
            with contextlib.suppress(OSError):
                _write(records, shard, _cached_place(paths[shard]))


def _cached_place(path: str) -> str:
    cached = cached_index_path(os.fsencode(path))
    if not cached:
        raise FormatError.at(path, "there is no cache directory for its index (set HOME)")
    index_cache.prepare_for(os.fsdecode(cached))
    return os.fsdecode(cached)


def _write_named(records: TFRecords, sidecar: str) -> str:
    refuse_foreign(sidecar, lambda begin: _FIRST_LINE.match(begin) is not None, "an index")
    return _write(records, 0, sidecar)


def _write(records: TFRecords, shard: int, sidecar: str) -> str:
    mtime_ns = records.mtimes_ns[shard]
    with StagedFile(sidecar, follow=False) as staged:
        first = 0
        while text := records.index_text(shard, first, _STEP):
            staged.write(text)
            first += _STEP
        os.utime(staged.fd, ns=(mtime_ns, mtime_ns))
        # A file that a crash has damaged is not sound, and is made again.
        staged.publish(sync=False)
    return sidecar
