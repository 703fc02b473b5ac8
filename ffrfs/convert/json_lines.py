"""JSON lines: an Example or SequenceExample per line, in the form of example_json.py or flat.

Not here: the forms of a line (example_json.py, flat_json.py), other files of records (source.py,
target.py).
Concurrency: one thread at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, cast

from ffrfs.convert.example_json import Json, from_json, parse_record, to_json
from ffrfs.convert.flat_json import FlatTypes, flat_values, is_flat
from ffrfs.convert.source import OnError, Record, RecordSource, UnfitRecordError, size_of
from ffrfs.errors import FormatError, parse_reason
from ffrfs.files.replacing import new_file

# Bytes of a line: hardly any program reads a longer one.
LINE_LIMIT = 1 << 30
_WRITE_SIZE = 1 << 20


def write_json_lines(
    path: str,
    records: Iterable[Record],
    *,
    row: Callable[[Record], dict[str, Any]] | None = None,
    force: bool = False,
) -> None:
    """Write a line for each record, flat if `row` gives the values of a record.

    Raises UnfitRecordError if it is no Example, or too large, or cannot be flat.
    """
    waiting = bytearray()
    with new_file(path, force=force) as staged:
        for record in records:
            waiting += _line(_value(record) if row is None else _flat(row(record)))
            if len(waiting) >= _WRITE_SIZE:
                staged.write(waiting)
                waiting = bytearray()
        staged.write(waiting)


def _value(record: Record) -> Json:
    message = parse_record(record)
    if message is None:
        raise not_an_example()
    return to_json(message)


def _flat(row: dict[str, Any]) -> Json:
    try:
        return flat_values(row)
    except ValueError as error:
        raise UnfitRecordError(f"{error}; leave out --flat") from None


def _line(value: Json) -> bytes:
    line = json.dumps(value, ensure_ascii=False).encode() + b"\n"
    if len(line) > LINE_LIMIT:
        raise UnfitRecordError(
            f"needs a line of {len(line):,} bytes, and a line has at most {LINE_LIMIT:,}; use "
            "another format"
        )
    return line


def not_an_example() -> UnfitRecordError:
    return UnfitRecordError(
        "not an Example; only Examples can be written in this format; use .tfrecord, .ffr or "
        "--to pack"
    )


class JsonLinesSource(RecordSource):
    """The Examples of a file of JSON lines; blank lines do not count.

    The bytes of a record are serialised again: names are sorted, so the same line gives the same
    bytes. A line that is no Example raises FormatError, or with "skip" is left out and counted.
    """

    def __init__(self, path: str, on_error: OnError) -> None:
        super().__init__(path, on_error)
        self.size_bytes = size_of(path)
        self._last = 0  # the line of the record that was yielded last

    def records(self) -> Iterator[Record]:
        self.skipped_count = 0
        types: FlatTypes | None = None
        for number, line in self._lines():
            try:
                value = parsed_json(line)
                if not is_flat(value):
                    message = from_json(value)
                else:
                    types = types or self._flat_types()
                    message = types.message(cast(Json, value))
            except FormatError:  # of another line
                raise
            except ValueError as error:
                if self._on_error == "raise":
                    raise FormatError.at(self.path, f"line {number}: {error}") from None
                self.skipped_count += 1
            else:
                self._last = number
                yield message.SerializeToString(deterministic=True)

    def place(self) -> str:
        return f"{self.path}: line {self._last}"

    def _flat_types(self) -> FlatTypes:
        types = FlatTypes()
        for number, line in self._lines():
            try:
                value = parsed_json(line)
                if is_flat(value):
                    types.note(cast(Json, value))
            except ValueError as error:
                if self._on_error == "raise":
                    raise FormatError.at(self.path, f"line {number}: {error}") from None
        return types

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        with open(self.path, "rb") as file:
            number = 0
            while line := file.readline(LINE_LIMIT + 1):
                number += 1
                if len(line) > LINE_LIMIT:
                    raise FormatError.at(self.path, f"line {number} is longer than 1 GiB")
                if not line.isspace():
                    yield number, line


def parsed_json(text: bytes) -> object:
    """Return the value. Raises ValueError for invalid JSON, and for names that come twice."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.pos + 1}") from None
    except ValueError as error:
        raise ValueError(parse_reason(error)) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice in an object")
    return found
