"""DatasetSummary: the summaries of all features over some records.

Not here: reading the records (source.py). Concurrency: one thread at a
time; summaries of other processes are merged in the order of the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ffrfs.errors import FormatError
from ffrfs.schema.columns import (
    BadRecordError,
    Column,
    ColumnParser,
    Path,
    kind_reason,
)
from ffrfs.schema.feature import FeatureSummary
from ffrfs.tfrecord.examples.content import message_of
from ffrfs.tfrecord.examples.features_found import FEATURE_LIMIT

# A record, behind its number in its file.
Numbered: TypeAlias = tuple[int, bytes]


class DatasetSummary:
    """Counts of Examples and SequenceExamples, and of damaged records; all features."""

    __slots__ = ("features", "record_count", "skipped_count")

    def __init__(self) -> None:
        self.record_count = self.skipped_count = 0
        self.features: dict[Path, FeatureSummary] = {}

    def add(self, parser: ColumnParser, records: Sequence[Numbered], file: str, skip: bool) -> None:
        """Add a batch of records of `file`.

        `skip`: count records that are no Examples, and leave them out. Otherwise FormatError
        for such a record; FormatError also for a feature of several kinds.
        """
        kept = list(records)
        while True:
            try:
                columns = list(parser.parse([record for _, record in kept]))
                break
            except BadRecordError as error:
                if not (skip and error.is_damaged):
                    number = kept[error.row][0]
                    reason = f"record {number:,}: {error.reason}"
                    raise FormatError.at(file, reason, number) from None
                kept = [one for one in kept if message_of(one[1]) is not None]
        self.record_count += len(kept)
        self.skipped_count += len(records) - len(kept)
        for path, column in columns:
            self._add_column(path, column, file)
        self._refuse_too_many(file)

    def _add_column(self, path: Path, column: Column, file: str) -> None:
        found = self.features.setdefault(path, FeatureSummary())
        _require_kind(path, column.kind, found, file)
        found.add(column)

    def merge(self, other: DatasetSummary, file: str) -> None:
        """Add the summary of later records, of `file`."""
        self.record_count += other.record_count
        self.skipped_count += other.skipped_count
        for path, summary in other.features.items():
            found = self.features.setdefault(path, FeatureSummary())
            _require_kind(path, summary.kind, found, file)
            found.merge(summary)
        self._refuse_too_many(file)

    def _refuse_too_many(self, file: str) -> None:
        if len(self.features) > FEATURE_LIMIT:
            raise FormatError.at(file, f"the records have more than {FEATURE_LIMIT:,} features")


def _require_kind(path: Path, kind: str | None, found: FeatureSummary, file: str) -> None:
    if kind and found.kind and kind != found.kind:
        raise FormatError.at(file, kind_reason(path[-1], kind, found.kind))
