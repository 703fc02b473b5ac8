"""Examples as the columns of a table: a column for each feature, null where a record lacks it.

    int64, float32 or bytes      a feature with one value in every record that has it
    a list of one of them        any other feature; a list may be empty
    a list of lists of them      a feature list of SequenceExamples: its steps

A feature without a list, which protobuf can have, is a list with one null. All records are read
once to find the columns, and once more to write them. A feature that no column can hold is an
error that names it. Not here: files (parquet.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ffrfs.convert.example_json import parse_record
from ffrfs.convert.json_lines import not_an_example
from ffrfs.convert.source import Record, UnfitRecordError, changed_source
from ffrfs.errors import PackError
from ffrfs.printable import quoted
from ffrfs.tfrecord.examples.content import FeatureKind, content, features_in
from ffrfs.tfrecord.examples.example import Feature, SequenceExample

# The limit of columns: readers of tables hold some memory for each, in every group of rows.
COLUMNS_MAX = 10_000
# Maps a feature to its value, its values, or the values of its steps.
Row: TypeAlias = dict[str, Any]


@dataclass
class Column:
    kind: FeatureKind | None = None  # None: no record has a list of it
    is_single: bool = True  # every record that has it has exactly one value
    is_steps: bool = False  # it is a feature list


@dataclass
class Columns:
    """The columns of all records of the source `path`."""

    path: str
    advice: str  # for values that no column can hold
    by_name: dict[str, Column] = field(default_factory=dict)
    count: int = 0  # number of records
    has_empty_lists: bool = False  # a SequenceExample has an empty map of feature lists
    has_examples: bool = False

    def row(self, record: Record) -> Row:
        """Return a record's row. Raises PackError if survey() has not read that record."""
        message = parse_record(record)
        row: Row = {}
        try:
            if message is None:
                raise KeyError
            features, lists = features_in(message)
            for name, feature in features.items():
                values = _values(feature, self.by_name[name])
                if self.by_name[name].is_single:
                    (row[name],) = values
                else:
                    row[name] = values
            for name, listed in lists.items():
                column = self.by_name[name]
                row[name] = [_values(step, column) for step in listed.feature]
        except (KeyError, ValueError):
            raise changed_source(self.path) from None
        return row

    def note(self, record: Record) -> None:
        """Make columns for a record's features. Raises UnfitRecordError if none can hold one."""
        message = parse_record(record)
        if message is None:
            raise not_an_example()
        features, lists = features_in(message)
        for name, feature in features.items():
            column = self._column(name, is_steps=False)
            kind, values = content(feature)
            self._note_kind(column, name, kind)
            column.is_single = column.is_single and kind != "none" and len(values) == 1
        for name, listed in lists.items():
            column = self._column(name, is_steps=True)
            for step in listed.feature:
                self._note_kind(column, name, content(step)[0])
        if not isinstance(message, SequenceExample):
            self.has_examples = True
        elif not lists:
            self.has_empty_lists = True
        if self.has_examples and self.has_empty_lists:
            raise self._refused("rows do not tell Examples from SequenceExamples without a list")
        self.count += 1

    def _column(self, name: str, is_steps: bool) -> Column:
        column = self.by_name.get(name)
        if column is None:
            if len(self.by_name) == COLUMNS_MAX:
                raise self._refused(f"has more features than a table has columns ({COLUMNS_MAX:,})")
            column = Column(is_single=not is_steps, is_steps=is_steps)
            self.by_name[name] = column
        if column.is_steps != is_steps:
            raise self._refused(f"{quoted(name)} is a feature and a feature list")
        return column

    def _note_kind(self, column: Column, name: str, kind: FeatureKind) -> None:
        if kind == "none":
            return
        if column.kind not in (None, kind):
            raise self._refused(
                f"feature {quoted(name)} is {kind}_list, and {column.kind}_list in records "
                "before it; a column has one type"
            )
        column.kind = kind

    def _refused(self, reason: str) -> UnfitRecordError:
        return UnfitRecordError(f"{reason}; {self.advice}")


def survey(path: str, records: Iterable[Record], *, is_flat: bool = False) -> Columns:
    """Return the columns of a table, or of flat lines, of the records of the source `path`.

    Raises UnfitRecordError for a record that is no Example, and for a feature of several types.
    """
    columns = Columns(path, "leave out --flat" if is_flat else "write .tfrecord or .jsonl")
    for record in records:
        columns.note(record)
    if columns.count and not columns.by_name and not is_flat:
        raise PackError(f"{path}: no record has a feature, so there is no column to write")
    return columns


def _values(feature: Feature, column: Column) -> list[Any]:
    kind, values = content(feature)
    if kind == "none":
        return [None]
    if kind != column.kind:
        raise KeyError(kind)
    return list(values)
