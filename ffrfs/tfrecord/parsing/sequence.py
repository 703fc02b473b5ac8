"""parse_sequence_example: a batch of SequenceExamples, as tf.io does it.

Each record is parsed alone, and the columns are joined. Not here: a single record
(parse.py). Concurrency: several threads may call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ffrfs.errors import FormatError
from ffrfs.tfrecord.parsing.features import FixedLenSequenceFeature, RaggedFeature
from ffrfs.tfrecord.parsing.parse import (
    are_none,
    named_records,
    parse_single_sequence_example,
    refuse_text,
    sequence_plans,
    text,
)
from ffrfs.tfrecord.parsing.ragged import partition_keys, ragged_value, splits_dtype, splits_of
from ffrfs.tfrecord.parsing.values import RaggedValue, SparseValue

if TYPE_CHECKING:
    from ffrfs.tfrecord.parsing.parse import Records
    from ffrfs.tfrecord.parsing.plan import FeatureMap, Parsed, ParsingPlan

Lengths: TypeAlias = dict[str, NDArray[np.int64]]


def parse_sequence_example(
    serialized: Records,
    context_features: FeatureMap | None = None,
    sequence_features: FeatureMap | None = None,
    example_names: Sequence[str | bytes] | str | bytes | None = None,
    name: str | None = None,
) -> tuple[Parsed, Parsed, Lengths]:
    """Parse a batch of SequenceExamples: (context, feature lists, lengths).

    The context is that of parse_example(); it takes FixedLenFeature, VarLenFeature and
    RaggedFeature. In the feature lists, where n is the number of records, a
    FixedLenSequenceFeature becomes an array of shape [n, steps of the longest, *shape],
    padded with 0 or b"", and `lengths` has the steps of each record: int64 [n]. A
    VarLenFeature becomes a SparseValue of dense shape [n, steps, values], a RaggedFeature a
    RaggedValue of n rows of steps. A single record lacks the dimension n everywhere.
    """
    refuse_text(serialized)
    if isinstance(serialized, bytes | bytearray | memoryview):
        given = text(example_names) if isinstance(example_names, str | bytes) else name
        context, lists = parse_single_sequence_example(
            serialized, context_features, sequence_features, given
        )
        return context, lists, _single_lengths(lists, sequence_features or {})
    context_plan, list_plan = sequence_plans(context_features, sequence_features)
    if example_names is None or are_none(example_names):
        records = list(serialized)
        names = [f"example {row}" for row in range(len(records))]
    else:
        records, names = named_records(serialized, example_names)

    contexts = [
        context_plan.parser.parse_context(record, of)
        for record, of in zip(records, names, strict=True)
    ]
    columns = [
        _joined([found[i] for found in contexts], context_plan, key)
        for i, key in enumerate(context_plan.keys)
    ]
    found = [
        list_plan.parser.parse_lists(record, of) for record, of in zip(records, names, strict=True)
    ]
    lists, lengths = _lists(list_plan, found, names)
    return context_plan.values(columns, lambda row: f"{names[row]}: "), lists, lengths


def _single_lengths(lists: Parsed, features: FeatureMap) -> Lengths:
    return {
        name: np.array(len(lists[name]), np.int64)
        for name, feature in features.items()
        if isinstance(feature, FixedLenSequenceFeature)
    }


def _empty(plan: ParsingPlan, key: str) -> Any:  # noqa: ANN401 - a column
    """Return the column of a batch without records."""
    return plan.parser.parse([])[plan.keys.index(key)]


def _joined(columns: list[Any], plan: ParsingPlan, key: str) -> Any:  # noqa: ANN401 - a column
    """Return the column of a batch from the columns of its examples."""
    if not columns:
        return _empty(plan, key)
    if not isinstance(columns[0], tuple):
        return np.stack(columns)
    counts = np.array([len(values) for _, values, _ in columns])
    positions = np.concatenate([indices[:, 0] for indices, _, _ in columns])
    indices = np.column_stack([np.repeat(np.arange(len(columns)), counts), positions])
    values = np.concatenate([values for _, values, _ in columns])
    return indices, values, np.array([len(columns), counts.max()])


def _lists(plan: ParsingPlan, found: list[list[Any]], names: list[str]) -> tuple[Parsed, Lengths]:
    columns: dict[str, Any] = {}
    splits: dict[str, NDArray[np.int64]] = {}  # of the steps of each record
    for i, key in enumerate(plan.keys):
        parts = [record[i] for record in found]
        steps = [int(part[2][0]) if isinstance(part, tuple) else len(part) for part in parts]
        splits[key] = splits_of(np.array(steps, np.int64))
        columns[key] = _joined_steps(parts, splits[key], plan, key)

    lists: Parsed = {}
    lengths: Lengths = {}
    for name, feature in plan.features.items():
        if isinstance(feature, RaggedFeature):
            lists[name] = _ragged(name, feature, columns, splits, names)
            continue
        column, ends = columns[name], splits[name]
        if isinstance(column, SparseValue):
            lists[name] = _by_record(column, ends)
        else:
            lists[name], lengths[name] = _padded(column, ends), np.diff(ends)
    return lists, lengths


def _joined_steps(
    parts: list[Any], splits: NDArray[np.int64], plan: ParsingPlan, key: str
) -> NDArray[Any] | SparseValue:
    """Return the steps of all records, one after another."""
    if not parts:
        empty = _empty(plan, key)
        return SparseValue(*empty) if isinstance(empty, tuple) else empty
    if not isinstance(parts[0], tuple):
        return np.concatenate(parts)
    counts = [len(values) for _, values, _ in parts]
    indices = np.concatenate([indices for indices, _, _ in parts])
    indices[:, 0] += np.repeat(splits[:-1], counts)
    longest = max(int(shape[1]) for _, _, shape in parts)
    values = np.concatenate([values for _, values, _ in parts])
    return SparseValue(indices, values, np.array([splits[-1], longest]))


def _ragged(
    name: str,
    feature: RaggedFeature,
    columns: dict[str, Any],
    splits: dict[str, NDArray[np.int64]],
    names: list[str],
) -> RaggedValue:
    ends = splits[feature.value_key or name]
    for key in partition_keys(feature):
        wrong = np.diff(splits[key]) != np.diff(ends)
        if wrong.any():
            row = int(wrong.argmax())
            raise FormatError(
                f'{names[row]}: feature list "{name}": {np.diff(ends)[row]} steps, but '
                f'{np.diff(splits[key])[row]} in "{key}"'
            )

    def place(step: int) -> str:
        return f"{names[int(np.searchsorted(ends, step, 'right')) - 1]}: "

    value = ragged_value(columns, name, feature, place)
    return RaggedValue(value, ends.astype(splits_dtype(feature, name)))


def _by_record(steps: SparseValue, splits: NDArray[np.int64]) -> SparseValue:
    """Return indices (record, step of the record, position) for those by (step, position)."""
    step, position = steps.indices.T
    counts = np.diff(splits)
    record = np.repeat(np.arange(len(counts)), counts)[step]
    indices = np.column_stack([record, step - splits[record], position])
    shape = np.array([len(counts), counts.max(initial=0), steps.dense_shape[1]])
    return SparseValue(indices, steps.values, shape)


def _padded(steps: NDArray[Any], splits: NDArray[np.int64]) -> NDArray[Any]:
    """Return the steps of each record, padded to the longest."""
    counts = np.diff(splits)
    fill = b"" if steps.dtype == object else 0
    padded = np.full((len(counts), counts.max(initial=0), *steps.shape[1:]), fill, steps.dtype)
    padded[np.arange(padded.shape[1]) < counts[:, None]] = steps
    return padded
