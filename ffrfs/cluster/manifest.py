"""commit(): the end of a set. Its manifest is written last, when all shards exist.

    .ffrfs-manifest.jsonl    a line of JSON for the set, then one for each shard

Readers of a set ignore names that begin with ".".

Not here: making shards (pack_task.py). Concurrency: one process commits a plan.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from ffrfs._native import Pack
from ffrfs.cluster.file_task import look, state_of
from ffrfs.cluster.pack_task import existing_row, header_of, row_of_pack
from ffrfs.cluster.planned_set import Plan
from ffrfs.cluster.row import Missing, Row
from ffrfs.errors import PackError, RemoteError
from ffrfs.files.own_folder import check_own
from ffrfs.files.staged_file import sync_folder
from ffrfs.packing.append_lock import AppendLock
from ffrfs.packing.places import MANIFEST_NAME, SHARD_NAME, locked_set
from ffrfs.packing.sources.existing_set import packs_in
from ffrfs.packing.target_folder import TargetFolder
from ffrfs.remote.bucket import copy
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import is_url, parse_url

VERSION = 1
_LINE_SIZE_MAX = 1 << 20
_SIZE_MAX = 1 << 30
_NAMED_MAX = 3
_WAIT_S = 5.0
# The errors of reading a manifest that is damaged or not ours.
_DAMAGE_ERRORS = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


class SetSummary(NamedTuple):
    """The totals of a plan's shards."""

    shard_count: int
    file_count: int
    byte_count: int  # of the files
    size: int  # of the shards
    missing_count: int  # files of the plan that are in no shard
    manifest: str  # its path or URL


def commit(plan: Plan, rows: Iterable[Row] | None = None) -> SetSummary:
    """Complete the set of `plan`; `rows`: those of all its shards (None: read the shards).

    Raises PackError, naming them, if shards are missing, and writes nothing; OSError, RemoteError.
    """
    found = {row.number: row for row in (_rows(plan) if rows is None else rows)}
    first = plan.header.first_number
    lacking = [n for n in range(first, first + len(plan)) if _is_lacking(found.get(n))]
    if lacking:
        raise PackError(
            f"{plan.target}: {len(lacking):,} of {len(plan):,} shards are missing: number "
            f"{named(lacking)}; run their tasks again"
        )
    ordered = [found[number] for number in sorted(found)]
    if plan.place == plan.target:
        if rows is not None:
            _refuse_replaced(plan, ordered)
        return _write(plan, ordered, [])
    is_remote = is_url(plan.target)
    # A command that begins has the lock for a moment, to see that nobody adds to the set.
    with _locked_bucket(plan) if is_remote else locked_set(plan.target, wait_s=_WAIT_S):
        before = [*_rows_before(plan)]
        (_copy if is_remote else _move)(plan)
        return _write(plan, [*before, *ordered], _keys(_first_line(plan.target)))


class PlanProgress(NamedTuple):
    """How much of a plan exists."""

    missing: list[int]  # the shards of the plan that do not exist, counted from 0
    is_complete: bool  # the set: its manifest is written


def progress_of(plan: Plan) -> PlanProgress:
    """Return how much of `plan` exists. Raises PackError, OSError, RemoteError."""
    first = plan.header.first_number
    there = {row.number - first for row in _rows(plan)}
    missing = [number for number in range(len(plan)) if number not in there]
    completed = completed_set(plan.target)
    is_complete = completed is not None and plan.key in completed.keys
    return PlanProgress(missing, is_complete and not missing)


def named(numbers: Sequence[int]) -> str:
    """Return "0, 1, 2 and 5 more"."""
    more = len(numbers) - _NAMED_MAX
    text = ", ".join(map(str, numbers[:_NAMED_MAX]))
    return f"{text} and {more:,} more" if more > 0 else text


def _refuse_replaced(plan: Plan, rows: Sequence[Row]) -> None:
    """Raise PackError if another plan's shard has taken the place of one since it was made."""
    places = [f"{plan.target.rstrip('/')}/{row.name}" for row in rows]
    for place, row, header in zip(places, rows, look(header_of, places), strict=True):
        if header != (row.size, row.checksum):
            raise PackError(f"{place}: was replaced by another command; write the shards elsewhere")


class CompletedSet(NamedTuple):
    """A set that is complete, as far as the names of its shards show."""

    keys: list[str]  # of the requests that made it: Request.key()
    text: str
    missing_count: int


def completed_set(target: str) -> CompletedSet | None:
    """Return the complete set in `target`. Raises RemoteError."""
    first = _first_line(target)
    there = filter(SHARD_NAME.fullmatch, TargetFolder(target).names()) if _keys(first) else ()
    if not _keys(first) or sum(1 for _ in there) < first["shards"]:
        return None
    counts = [f"{first[name]:,} {name}" for name in ("files", "bytes", "shards")]
    left_out = [f"{first['missing']:,} left out"] if first["missing"] else []
    text = f"{target}: complete already: {', '.join([*counts, *left_out])}"
    return CompletedSet(_keys(first), text, first["missing"])


def _first_line(target: str) -> dict[str, Any]:
    """Return the manifest's line about the set; {}: there is none, or it is damaged."""
    with contextlib.suppress(*_DAMAGE_ERRORS):
        begin = TargetFolder(target).read(MANIFEST_NAME, _LINE_SIZE_MAX) or b""
        first = json.loads(begin.partition(b"\n")[0])
        if all(type(first[name]) is int for name in ("shards", "files", "bytes", "missing")):
            return dict(first)
    return {}


def _keys(first: Mapping[str, Any]) -> list[str]:
    """Return the keys of the requests that made the set."""
    keys = first.get("requests")
    return [str(key) for key in keys] if isinstance(keys, list) else []


def _rows(plan: Plan) -> Iterator[Row]:
    for number in range(len(plan)):
        row = existing_row(plan.task(number, on_error="record"))
        if row is not None:
            yield row


def _is_lacking(row: Row | None) -> bool:
    return row is None or row.made is False


def _rows_before(plan: Plan) -> Iterator[Row]:
    """Return the rows of the shards that the set had before."""
    known = _rows_known(plan.target)
    for path in packs_in(plan.target):
        pack = Pack(os.fsencode(path))
        if pack.shard is not None and pack.shard[1] < plan.header.first_number:
            if pack.shard[0] != plan.set_id:
                raise PackError(f"{path}: is of another set by now; nothing was added; plan anew")
            row = row_of_pack(path, pack)
            yield known.get((row.number, row.name, row.size, row.checksum), row)


def _rows_known(target: str) -> dict[tuple[int, str, int, str], Row]:
    """Return the rows of the existing manifest, with the files that were left out."""
    found = {}
    with contextlib.suppress(*_DAMAGE_ERRORS):
        text = TargetFolder(target).read(MANIFEST_NAME, _SIZE_MAX) or b""
        for line in text.splitlines()[1:]:
            fields = json.loads(line)
            fields["missing"] = tuple(Missing(**one) for one in fields["missing"])
            row = Row(**fields, made=None)
            if type(row.file_count) is int and type(row.byte_count) is int:
                found[row.number, row.name, row.size, row.checksum] = row
    return found


def _move(plan: Plan) -> None:
    """Add the shards that wait to the set, which is locked, in the order of their numbers."""
    if waiting := _waiting(plan):
        check_own(plan.place)
    for waits, place in waiting:
        os.rename(waits, place)
    sync_folder(plan.target)
    shutil.rmtree(plan.place, ignore_errors=True)


def _copy(plan: Plan) -> None:
    """Do as _move() in a bucket, where an equal command may do the same at the same time."""
    settings = RemoteSettings.from_environment()
    for waits, place in _waiting(plan):
        try:
            made = header_of(waits)
            copy(parse_url(waits), parse_url(place), settings)
        except (PackError, RemoteError):
            if _waiting(plan):
                raise
            break  # all were copied
        if header_of(place) != made:
            raise PackError(f"{place}: is not what was copied there; remove it, and try again")
    remove_waiting(plan)


def remove_waiting(plan: Plan) -> None:
    """Remove the shards that wait in a bucket."""
    folder = TargetFolder(plan.place)
    for name in folder.names():
        folder.remove(name)


def _waiting(plan: Plan) -> list[tuple[str, str]]:
    """Return where shards wait, and where they go. Raises PackError if a target exists.

    A commit that was ended may have moved the others before.
    """
    found = []
    for number in range(len(plan)):
        waits, place = plan.task(number, on_error="skip").target, plan.moved(number)
        if waits == place:
            continue
        if state_of(place) is not None:
            raise PackError(
                f"{place}: was added by another command meanwhile; nothing was added; plan anew "
                "(the same command with --executor does)"
            )
        found.append((waits, place))
    return found


@contextlib.contextmanager
def _locked_bucket(plan: Plan) -> Iterator[None]:
    """Lock the set in a bucket; an equal command, which does the same, shares the lock."""
    with AppendLock(plan.target, plan.own_id.hex()) as lock:
        lock.take()
        yield


def _write(plan: Plan, rows: Sequence[Row], keys: Iterable[str]) -> SetSummary:
    folder = TargetFolder(plan.target)
    summary = SetSummary(
        shard_count=len(rows),
        file_count=sum(row.file_count for row in rows),
        byte_count=sum(row.byte_count for row in rows),
        size=sum(row.size for row in rows),
        missing_count=sum(len(row.missing) for row in rows),
        manifest=folder.place(MANIFEST_NAME),
    )
    whole = {
        "format": "ffrfs-manifest",
        "version": VERSION,
        "set": plan.set_id.hex(),
        "shards": summary.shard_count,
        "files": summary.file_count,
        "bytes": summary.byte_count,
        "missing": summary.missing_count,
        "requests": [*dict.fromkeys((*keys, plan.key))],
    }
    lines = (json.dumps(fields) + "\n" for fields in (whole, *map(_fields, rows)))
    folder.write_manifest("".join(lines).encode())
    return summary


def _fields(row: Row) -> dict[str, Any]:
    fields = asdict(row)
    del fields["made"]
    fields["missing"] = [file._asdict() for file in row.missing]
    return fields
