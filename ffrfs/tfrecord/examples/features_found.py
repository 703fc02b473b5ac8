"""infer_schema: the features that the Examples of a TFRecord file have, and their values.

It finds what tensorflow_data_validation finds: for each feature its kind, the number of
records that have it, the number of its values there, and the range of the values.

Not here: reading the file (iterator.py), how a schema is shown (ffrfs.cli). Concurrency:
one thread at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, get_args

from ffrfs.errors import FormatError
from ffrfs.tfrecord.examples.content import FeatureKind, content, features_in, message_of
from ffrfs.tfrecord.examples.example import Feature

# The limit of names in a file; more would fill the memory, and no data set has as many.
FEATURE_LIMIT = 100_000
_VALUES_AT_ONCE = 1 << 16


class Range(NamedTuple):
    """A range that includes both bounds."""

    min: float
    max: float


class FeatureSchema(NamedTuple):
    """A feature of one kind; a name that comes with several kinds has several of these."""

    name: str
    kind: FeatureKind
    is_sequence: bool  # a feature list of a SequenceExample; else of an Example or a context
    present_count: int  # records that have it
    steps: Range | None  # steps per record, for a feature list
    values: Range | None  # values per record, or per step; None: there was no step
    # The values of ints and floats, without NaN; the sizes of bytes. None: there was no value.
    domain: Range | None
    nan_count: int  # values that are NaN


class Schema(NamedTuple):
    example_count: int  # without feature lists
    sequence_example_count: int
    other_count: int  # records that are neither
    features: list[FeatureSchema]  # by name, feature lists last

    @property
    def record_count(self) -> int:
        """The number of Examples and SequenceExamples; present_count counts some of them."""
        return self.example_count + self.sequence_example_count


def infer_schema(records: Iterable[bytes], name: str) -> Schema:
    """Return the schema of all records of `name`, which errors name.

    Raises FormatError if there are over FEATURE_LIMIT features.
    A SequenceExample without feature lists cannot be distinguished from an Example, and counts as
    one. A record that is no protobuf message, or one without any feature, is neither.
    """
    builder = _SchemaBuilder(name)
    for record in records:
        builder.add(record)
    return builder.schema()


class _Span:
    """A Range that grows."""

    __slots__ = ("least", "most")

    def __init__(self) -> None:
        self.least, self.most = math.inf, -math.inf

    def add(self, least: float, most: float) -> None:
        self.least = min(self.least, least)
        self.most = max(self.most, most)

    def range(self) -> Range | None:
        return Range(self.least, self.most) if self.least <= self.most else None


class _Statistics:
    """The statistics of one feature of one kind."""

    def __init__(self) -> None:
        self.present_count = self.nan_count = 0
        self.steps, self.values, self.domain = _Span(), _Span(), _Span()

    def add(self, kind: FeatureKind, values: Sequence[Any]) -> None:
        count = len(values)
        self.values.add(count, count)
        if count == 0:
            return
        if kind == "bytes":
            values = [len(value) for value in values]
        for first in range(0, count, _VALUES_AT_ONCE):
            part = values[first : first + _VALUES_AT_ONCE]  # a list, which is fast
            if kind == "float":
                part = self._without_nan(part)
            if part:
                self.domain.add(min(part), max(part))

    def _without_nan(self, values: Sequence[float]) -> Sequence[float]:
        if not math.isnan(sum(values)):  # true for infinities of both signs, too
            return values
        numbers = [value for value in values if not math.isnan(value)]
        self.nan_count += len(values) - len(numbers)
        return numbers


class _SchemaBuilder:
    def __init__(self, name: str) -> None:
        self._name = name
        self._example_count = self._sequence_example_count = self._other_count = 0
        self._features: dict[tuple[bool, str, FeatureKind], _Statistics] = {}
        # Feature lists without a step have no kind: this counts the records by name.
        self._empty_lists: Counter[str] = Counter()

    def add(self, record: bytes) -> None:
        message = message_of(record)
        if message is None:
            self._other_count += 1
            return
        features, lists = features_in(message)
        if lists:
            self._sequence_example_count += 1
        elif features:
            self._example_count += 1
        else:
            self._other_count += 1
        for name, feature in features.items():
            kind, values = content(feature)
            statistics = self._statistics(False, name, kind)
            statistics.present_count += 1
            statistics.add(kind, values)
        for name, feature_list in lists.items():
            self._add_list(name, feature_list.feature)

    def _add_list(self, name: str, steps: Sequence[Feature]) -> None:
        if not steps:
            if name not in self._empty_lists:
                self._require_room()
            self._empty_lists[name] += 1
            return
        contents = [content(step) for step in steps]
        for kind in {kind for kind, _ in contents}:
            statistics = self._statistics(True, name, kind)
            statistics.present_count += 1
            statistics.steps.add(len(steps), len(steps))
        for kind, values in contents:
            self._statistics(True, name, kind).add(kind, values)

    def _statistics(self, is_sequence: bool, name: str, kind: FeatureKind) -> _Statistics:
        key = is_sequence, name, kind
        found = self._features.get(key)
        if found is None:
            self._require_room()
            found = self._features[key] = _Statistics()
        return found

    def _require_room(self) -> None:
        if len(self._features) + len(self._empty_lists) >= FEATURE_LIMIT:
            raise FormatError(
                f"{self._name}: the records have more than {FEATURE_LIMIT} different features"
            )

    def _add_empty_lists(self) -> None:
        """Count empty feature lists in all kinds that other lists of the name have."""
        for name, count in self._empty_lists.items():
            known = [kind for kind in get_args(FeatureKind) if (True, name, kind) in self._features]
            for kind in known or ["none"]:
                statistics = self._features.setdefault((True, name, kind), _Statistics())
                statistics.present_count += count
                statistics.steps.add(0, 0)
        self._empty_lists.clear()

    def schema(self) -> Schema:
        self._add_empty_lists()
        features = [
            FeatureSchema(
                name=name,
                kind=kind,
                is_sequence=is_sequence,
                present_count=found.present_count,
                steps=found.steps.range(),
                values=found.values.range(),
                domain=found.domain.range(),
                nan_count=found.nan_count,
            )
            for (is_sequence, name, kind), found in sorted(
                self._features.items(), key=lambda item: item[0]
            )
        ]
        return Schema(
            self._example_count, self._sequence_example_count, self._other_count, features
        )
