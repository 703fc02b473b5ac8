"""commit(): the end of a set. Its manifest is written when all shards are there, and last.

    .ffrfs-manifest.jsonl    a line of JSON for the set, then one for each shard

Names that begin with "." are no part of a set for those who read it.

Not here: making shards (pack_task.py). Concurrency: one process commits a plan.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import NamedTuple

from ffrfs._native import Pack, folder_files
from ffrfs.cluster.pack_task import existing_row, row_of_pack
from ffrfs.cluster.planned_set import Plan
from ffrfs.cluster.row import Missing, Row
from ffrfs.errors import PackError
from ffrfs.files.staged_file import StagedFile, sync_folder
from ffrfs.packing.pack_set_writer import locked_set, shard_name
from ffrfs.remote.bucket import put
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import is_url, parse_url

MANIFEST_NAME = ".ffrfs-manifest.jsonl"
VERSION = 1
_NAMED_MAX = 3


class SetSummary(NamedTuple):
    """What a plan's shards are together."""

    shard_count: int
    file_count: int
    byte_count: int  # of the files
    size: int  # of the shards
    missing_count: int  # files of the plan that are in no shard
    manifest: str  # its path or URL


def commit(plan: Plan, rows: Iterable[Row] | None = None) -> SetSummary:
    """Complete the set of `plan`; `rows`: of all its shards (None: they are looked at).

    Raises PackError, naming them, if shards are missing, and writes nothing; OSError, RemoteError.
    """
    found = {row.number: row for row in (_rows(plan) if rows is None else rows)}
    first = plan.header.first_number
    lacking = [n for n in range(first, first + len(plan)) if _is_lacking(found.get(n))]
    if lacking:
        named = ", ".join(str(number) for number in lacking[:_NAMED_MAX])
        more = len(lacking) - _NAMED_MAX
        raise PackError(
            f"{plan.target}: {len(lacking):,} of {len(plan):,} shards are missing: number {named}"
            f"{f' and {more:,} more' if more > 0 else ''}; run their tasks again"
        )
    ordered = [found[number] for number in sorted(found)]
    if plan.place != plan.target:
        ordered = [*_rows_before(plan), *ordered]
        _move(plan)
    text = "".join(_lines(plan, ordered)).encode()
    place = write_manifest(plan.target, text)
    return _summary(plan, ordered, place)


def _rows(plan: Plan) -> Iterator[Row]:
    for number in range(len(plan)):
        row = existing_row(plan.task(number, on_error="record"))
        if row is not None:
            yield row


def _is_lacking(row: Row | None) -> bool:
    return row is None or row.made is False


def _rows_before(plan: Plan) -> Iterator[Row]:
    """Of the shards that the set had before."""
    known = _rows_known(plan.target)
    for path in map(os.fsdecode, folder_files(os.fsencode(plan.target))[0]):
        pack = Pack(os.fsencode(path))
        if pack.shard is not None and pack.shard[1] < plan.header.first_number:
            row = row_of_pack(path, pack)
            yield known.get((row.number, row.name, row.size, row.checksum), row)


def _rows_known(target: str) -> dict[tuple[int, str, int, str], Row]:
    """What the manifest says that is there: also which files were left out."""
    found = {}
    with (
        contextlib.suppress(OSError, ValueError, TypeError, KeyError),
        open(os.path.join(target, MANIFEST_NAME), "rb") as file,
    ):
        next(file, None)
        for line in file:
            fields = json.loads(line)
            fields["missing"] = tuple(Missing(**one) for one in fields["missing"])
            row = Row(**fields, made=None)
            found[row.number, row.name, row.size, row.checksum] = row
    return found


def _move(plan: Plan) -> None:
    """Add the shards that wait to the set, in the order of their numbers, alone."""
    with locked_set(plan.target):
        _move_locked(plan)


def _move_locked(plan: Plan) -> None:
    first = plan.header.first_number
    names = [shard_name(number) for number in range(first, first + len(plan))]
    # The others were moved before, by a commit that was ended.
    waiting = [name for name in names if os.path.lexists(os.path.join(plan.place, name))]
    for name in waiting:
        place = os.path.join(plan.target, name)
        if os.path.lexists(place):
            raise PackError(f"{place}: exists already; nothing was added")
    for name in waiting:
        os.rename(os.path.join(plan.place, name), os.path.join(plan.target, name))
    sync_folder(plan.target)
    shutil.rmtree(plan.place, ignore_errors=True)


def _lines(plan: Plan, rows: Sequence[Row]) -> Iterator[str]:
    whole = {
        "format": "ffrfs-manifest",
        "version": VERSION,
        "set": plan.set_id.hex(),
        "shards": len(rows),
        "files": sum(row.file_count for row in rows),
        "bytes": sum(row.byte_count for row in rows),
        "missing": sum(len(row.missing) for row in rows),
    }
    yield json.dumps(whole) + "\n"
    for row in rows:
        fields = asdict(row)
        del fields["made"]
        fields["missing"] = [file._asdict() for file in row.missing]
        yield json.dumps(fields) + "\n"


def write_manifest(target: str, text: bytes) -> str:
    """Return its path or URL. Raises OSError, RemoteError."""
    if not is_url(target):
        place = os.path.join(target, MANIFEST_NAME)
        with StagedFile(place) as file:
            file.write(text)
            file.publish()
        return place
    url = parse_url(f"{target.rstrip('/')}/").child(MANIFEST_NAME)
    put(url, text, RemoteSettings.from_environment())
    return url.shown


def _summary(plan: Plan, rows: Sequence[Row], place: str) -> SetSummary:
    return SetSummary(
        shard_count=len(rows),
        file_count=sum(row.file_count for row in rows),
        byte_count=sum(row.byte_count for row in rows),
        size=sum(row.size for row in rows),
        missing_count=sum(len(row.missing) for row in rows),
        manifest=place,
    )
