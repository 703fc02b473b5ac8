"""Columns: the values of many records by feature, whatever features they have.

The native parser reads the features that are known so far, and skips others. So the features of
each record are counted, too, by a message that leaves them unparsed. If a record has more of them
than features with values were found, protobuf parses it: to learn new features, and always for
SequenceExamples, features without a value, and names that come twice. The result does not depend
on the features that were known before.

Not here: reading records (source.py), the use of columns (feature.py). Concurrency: one
thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from ffrfs._native import ExampleParser
from ffrfs.errors import FormatError
from ffrfs.tfrecord.examples.content import message_of
from ffrfs.tfrecord.examples.example import Feature, SequenceExample
from ffrfs.tfrecord.examples.features_found import FEATURE_LIMIT

if TYPE_CHECKING:
    from ffrfs._native import FeatureConfig

Kind = Literal["bytes", "float32", "int64"]
# The path of a feature is its name; that of a feature list is SEQUENCE and its name, as in TFDV.
Path: TypeAlias = tuple[str, ...]
Values: TypeAlias = "NDArray[Any] | list[bytes]"
Ints = NDArray[np.int64]

SEQUENCE = "##SEQUENCE##"

_KINDS: dict[str, Kind] = {"bytes_list": "bytes", "float_list": "float32", "int64_list": "int64"}
# The number of records that are parsed first to learn their features, before all of them are.
_LEARNED_AT_ONCE = 8
# The native parser takes memory for each known feature of each record, also where it lacks it: for
# more features than this, protobuf parses, which takes memory for existing features only.
_CELLS_MAX = 1 << 24


@dataclass
class Column:
    """The values of a feature. `kind`: None if no record has a value of it."""

    kind: Kind | None
    values: Values
    value_counts: Ints  # per record that has the feature
    # For a feature list: steps per record that has it, values per step, and the number of steps
    # without a list.
    step_counts: Ints | None = None
    step_value_counts: Ints | None = None
    missing_step_count: int = 0


class ColumnParser:
    """Makes columns of batches; remembers the features that it has seen."""

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}
        self._parser: ExampleParser | None = None

    def parse(self, records: Sequence[bytes]) -> Iterator[tuple[Path, Column]]:
        """Yield columns; a path may come twice, with the values of different records.

        Raises BadRecordError for a record that is no Example, or has a feature of another kind
        than before.
        """
        columns, slow = self._parse_known(records, _feature_counts(records))
        yield from columns
        if slow:
            builder = _Builder(self._kinds)
            for row in slow:
                builder.add(records[row], row)
            yield from builder.columns()
            if builder.sequence_count:
                counts = np.ones(builder.sequence_count, np.int64)
                yield (SEQUENCE,), Column(None, [], counts)

    def _parse_known(
        self, records: Sequence[bytes], counts: Ints
    ) -> tuple[list[tuple[Path, Column]], list[int]]:
        """Return the columns of the native parser, and the rows that protobuf must parse."""
        step = _LEARNED_AT_ONCE
        while True:
            if len(self._kinds) * len(records) > _CELLS_MAX:
                return [], list(range(len(records)))
            try:
                parsed = _parsed(self._parser, records) if self._parser is not None else []
            except FormatError:  # protobuf will find the bad record and the reason
                return [], list(range(len(records)))
            present = np.zeros(len(records), np.int64)
            for _, lengths in parsed:
                present += lengths > 0
            slow = np.flatnonzero(present != counts).tolist()
            if not slow:
                break
            if not self._learn(records, slow[:step]) and step >= len(slow):
                break
            step *= _LEARNED_AT_ONCE  # each turn parses all again, so let there be few
        is_known = present == counts
        columns: list[tuple[Path, Column]] = []
        for (name, kind), (values, lengths) in zip(self._kinds.items(), parsed, strict=True):
            there = lengths[is_known & (lengths > 0)]
            if len(there):
                kept = values[np.repeat(is_known, lengths)] if slow else values
                columns.append(((name,), Column(kind, kept, there)))
        return columns, slow

    def _learn(self, records: Sequence[bytes], rows: list[int]) -> bool:
        """Add the features of these records to the known ones; return False if none is new."""
        found: dict[str, Kind] = {}
        for row in rows:
            for name, feature in _message(records[row], row).context.feature.items():
                kind = feature.WhichOneof("kind")
                if kind and name not in self._kinds:
                    found.setdefault(name, _KINDS[kind])
        if not found:
            return False
        self._kinds |= found
        if len(self._kinds) > FEATURE_LIMIT:
            raise _too_many(rows[0])
        configs: list[FeatureConfig] = [
            (name, kind, "variable", (), None) for name, kind in self._kinds.items()
        ]
        self._parser = ExampleParser(configs)
        return True


class BadRecordError(Exception):
    """The record at `row` of a batch is bad. `is_damaged`: it is no Example at all."""

    def __init__(self, row: int, reason: str, *, is_damaged: bool = False) -> None:
        super().__init__(reason)
        self.row, self.reason, self.is_damaged = row, reason, is_damaged


def _too_many(row: int) -> BadRecordError:
    return BadRecordError(row, f"the records have more than {FEATURE_LIMIT:,} features")


@dataclass
class _Lists:
    """The lists from which a Column is made."""

    kind: Kind | None = None
    values: list[Any] = field(default_factory=list)
    value_counts: list[int] = field(default_factory=list)
    step_counts: list[int] | None = None
    step_value_counts: list[int] = field(default_factory=list)
    missing_step_count: int = 0

    def take(self, feature: Feature, name: str, row: int) -> int | None:
        """Take the values of a feature; return their number, or None if it has no list."""
        one = feature.WhichOneof("kind")
        if one is None:
            return None
        kind = _KINDS[one]
        if self.kind not in (None, kind):
            raise BadRecordError(row, kind_reason(name, kind, self.kind))
        self.kind = kind
        values = getattr(feature, one).value
        self.values.extend(values)
        return len(values)

    def column(self) -> Column:
        return Column(
            kind=self.kind,
            values=self.values
            if self.kind in (None, "bytes")
            else np.array(self.values, self.kind),
            value_counts=np.array(self.value_counts, np.int64),
            step_counts=None if self.step_counts is None else np.array(self.step_counts, np.int64),
            step_value_counts=np.array(self.step_value_counts, np.int64),
            missing_step_count=self.missing_step_count,
        )


def kind_reason(name: str, kind: str | None, before: str | None) -> str:
    return f'feature "{name}" is {kind} here, and {before} in an earlier record'


class _Builder:
    """Makes columns of the records that protobuf parses."""

    def __init__(self, kinds: dict[str, Kind]) -> None:
        self.sequence_count = 0
        self._kinds = kinds
        self._lists: dict[Path, _Lists] = {}

    def add(self, record: bytes, row: int) -> None:
        message = _message(record, row)
        for name, feature in message.context.feature.items():
            found = self._lists.setdefault((name,), _Lists(self._kinds.get(name)))
            count = found.take(feature, name, row)
            if count is not None:
                found.value_counts.append(count)
        feature_lists = message.feature_lists.feature_list
        self.sequence_count += bool(feature_lists)
        for name, feature_list in feature_lists.items():
            found = self._lists.setdefault((SEQUENCE, name), _Lists(step_counts=[]))
            counts = [found.take(step, name, row) for step in feature_list.feature]
            there = [count for count in counts if count is not None]
            found.missing_step_count += len(counts) - len(there)
            found.step_value_counts += there
            assert found.step_counts is not None
            found.step_counts.append(len(counts))
            found.value_counts.append(sum(there))
        if len(self._lists) > FEATURE_LIMIT:
            raise _too_many(row)

    def columns(self) -> Iterator[tuple[Path, Column]]:
        for path, found in self._lists.items():
            yield path, found.column()


def _message(record: bytes, row: int) -> SequenceExample:
    message = message_of(record)
    if message is None:
        raise BadRecordError(row, "is not an Example", is_damaged=True)
    return message


def _parsed(parser: ExampleParser, records: Sequence[bytes]) -> list[tuple[NDArray[Any], Ints]]:
    """Return the values of each feature, and their numbers by record."""
    # For one record, which may be large, the parser gives no rows, which take more memory than
    # numbers.
    count = len(records)
    is_one = count == 1
    columns = parser.parse_one(records[0]) if is_one else parser.parse(records)
    return [
        (values, np.array([len(values)]) if is_one else np.bincount(indices[:, 0], minlength=count))
        for indices, values, _ in cast("list[tuple[Ints, NDArray[Any], Ints]]", columns)
    ]


def _feature_counts(records: Sequence[bytes]) -> Ints:
    """Return the number of features of each record; -1 if protobuf must parse it.

    protobuf parses SequenceExamples, and records that are no message at all.
    """
    return np.fromiter(map(_feature_count, records), np.int64, len(records))


def _feature_count(record: bytes) -> int:
    try:
        found = _Unparsed.FromString(record)
    except DecodeError:
        return -1
    return -1 if found.feature_lists else len(found.features.feature)


def _unparsed_class() -> Any:  # noqa: ANN401 - made at run time
    """Return a class of Examples whose features, and feature lists, remain unparsed bytes."""
    one, many = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
    file = FileDescriptorProto(name="unparsed.proto", package="ffrfs", syntax="proto3")
    file.message_type.add(name="Features").field.add(
        name="feature", number=1, type=FieldDescriptorProto.TYPE_BYTES, label=many
    )
    example = file.message_type.add(name="Example")
    example.field.add(
        name="features",
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".ffrfs.Features",
        label=one,
    )
    example.field.add(
        name="feature_lists", number=2, type=FieldDescriptorProto.TYPE_BYTES, label=many
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("ffrfs.Example"))


_Unparsed = _unparsed_class()
