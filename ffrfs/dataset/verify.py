"""verify: reads a data set and compares its checksums; results have the keys of --json.

Not here: the checking (ffrfs/folder/verify.py, ffrfs/tfrecord/verify.py).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ffrfs.folder import verify as packs
from ffrfs.folder.progress import Progress
from ffrfs.folder.tree import PathType
from ffrfs.tfrecord.shards import is_tfrecord, shard_paths

if TYPE_CHECKING:  # importing it takes a sixth of the time of a small verification
    from ffrfs.tfrecord import verify as tfrecords


def verify(path: PathType, *, jobs: int = 0, progress: Progress | None = None) -> dict[str, Any]:
    """Read all of `path`: a pack, a TFRecord file of any compression, or a directory of either.

    Returns the keys of `ffrfs verify --json`: "good" is whether all is well, "bad" is a list of
    the damaged records: dicts with "record", "path" and "reason". For a directory of packs,
    "packs" has these keys for each. `jobs`: threads; 0: one per core. `progress`: called with
    records done, records in all, bytes done, bytes in all; 0 in all: unknown.

    Damage is in the result; raises FormatError or OSError for a file that cannot be opened or
    read at all.
    """
    name = os.fspath(path)
    if is_tfrecord(name):
        return tfrecord_fields(name, verify_tfrecord(name, progress))
    (report,) = packs.verify([name], progress, jobs)
    return report_fields(report)


def verify_tfrecord(path: str, progress: Progress | None) -> tfrecords.VerifyReport:
    from ffrfs.tfrecord import verify as tfrecords

    if progress is None:
        return tfrecords.verify(shard_paths(path))
    tell = progress
    return tfrecords.verify(shard_paths(path), lambda records, size: tell(records, 0, size, 0))


def report_fields(report: packs.VerifyReport) -> dict[str, Any]:
    if len(report.packs) == 1 and report.packs[0].file == report.file:
        return _pack_fields(report.packs[0])
    return {
        "file": report.file,
        "good": report.is_good,
        "records": report.record_count,
        "bytes": report.byte_count,
        "set_error": report.set_error,
        "packs": [_pack_fields(pack) for pack in report.packs],
    }


def _pack_fields(pack: packs.PackReport) -> dict[str, Any]:
    fields: dict[str, Any] = {"file": pack.file, "good": pack.is_good}
    if pack.error is not None:
        return {**fields, "error": pack.error}
    return {
        **fields,
        "records": pack.record_count,
        "bytes": pack.byte_count,
        "header_checksum": "good" if pack.header_verified else "missing",
        "index_error": pack.index_error,
        "bad": [bad._asdict() for bad in pack.bad],
    }


def tfrecord_fields(path: str, report: tfrecords.VerifyReport) -> dict[str, Any]:
    return {
        "file": path,
        "good": not report.bad,
        "records": report.record_count,
        "bytes": report.byte_count,
        "bad": [bad._asdict() for bad in report.bad],
    }
