"""parse_example and its siblings: serialised Examples into NumPy arrays, as tf.io does it.

Numbers are dense int64 or float32 arrays; bytes are object arrays of `bytes`, as
TensorFlow's `.numpy()` gives them. Features that no name requests are not parsed.

Errors: FormatError, which names the feature, the example's place in the batch, the expected
and the actual values, or says that the bytes are no Example; ValueError for features that
cannot be requested.

Not here: the parsing itself (native/tfrecord/batch_parser.h), plans (plan.py), batches of
SequenceExamples (sequence.py), messages as objects (example.py). Concurrency: several threads
may call everything; the GIL is free while a batch is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ffrfs.errors import FormatError
from ffrfs.tfrecord.parsing.plan import (
    FeatureMap,
    Parsed,
    ParsingPlan,
    context_part,
    example_part,
    list_part,
    plan,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

Record: TypeAlias = "Buffer | NDArray[np.uint8]"
# Several records, or a single one.
Records: TypeAlias = Iterable[Record] | bytes | bytearray | memoryview


def parse_example(
    serialized: Records,
    features: FeatureMap,
    example_names: Sequence[str | bytes] | str | bytes | None = None,
    name: str | None = None,
) -> Parsed:
    """Parse a batch of serialised Examples, bytes-like objects each.

    Returns for each name in `features`, where n is the number of examples:
    FixedLenFeature: an array of shape [n, *shape]. FixedLenSequenceFeature: of shape
    [n, steps of the longest, *shape]. VarLenFeature: a SparseValue of dense shape
    [n, values of the longest]. SparseFeature: a SparseValue of dense shape [n, *size].
    RaggedFeature: a RaggedValue of n rows.

    A single record, as `bytes`, `bytearray` or memoryview, is parsed as by
    parse_single_example(). `example_names`: one for each record, for errors.
    """
    refuse_text(serialized)
    if isinstance(serialized, bytes | bytearray | memoryview):
        if example_names is not None and not isinstance(example_names, str | bytes):
            raise ValueError("example_names: one record has one name")
        return parse_single_example(serialized, features, example_names)
    wanted = _wanted(features)
    if example_names is None or are_none(example_names):
        return wanted.values(wanted.parser.parse(serialized), lambda row: f"example {row}, ")
    records, names = named_records(serialized, example_names)
    try:
        columns = wanted.parser.parse(records)
    except FormatError:
        for record, of in zip(records, names, strict=True):  # again, for an error with the name
            wanted.parser.parse_one(record, of)
        raise
    return wanted.values(columns, lambda row: f"{names[row]}: ")


def parse_single_example(
    serialized: Record,
    features: FeatureMap,
    example_names: str | bytes | None = None,
    name: str | None = None,
) -> Parsed:
    """Parse one serialised Example as parse_example() does, without the dimension of the batch.

    A FixedLenFeature of shape () becomes an array of that shape: `.item()` is its value. A
    RaggedFeature without partitions becomes an array. `example_names` or `name`: the name
    of the record, with which the text of an error begins.
    """
    wanted = _wanted(features)
    of = text(example_names or name or "")
    return wanted.values(wanted.parser.parse_one(serialized, of), place_in(of))


def parse_single_sequence_example(
    serialized: Record,
    context_features: FeatureMap | None = None,
    sequence_features: FeatureMap | None = None,
    example_name: str | bytes | None = None,
    name: str | None = None,
) -> tuple[Parsed, Parsed]:
    """Parse one serialised SequenceExample: (context, feature lists).

    The context is the result of parse_single_example(); it takes FixedLenFeature,
    VarLenFeature and RaggedFeature. In the feature lists a FixedLenSequenceFeature becomes
    an array of shape [steps, *shape], each step having exactly the values of `shape`; a
    VarLenFeature a SparseValue of dense shape [steps, values of the longest]; a
    RaggedFeature a RaggedValue with a row per step. `example_name` or `name`: for errors.
    """
    context, lists = sequence_plans(context_features, sequence_features)
    of = text(example_name or name or "")
    begin = f"{of}, " if of else ""
    return (
        context.values(context.parser.parse_context(serialized, of), place_in(of)),
        lists.values(lists.parser.parse_lists(serialized, of), lambda row: f"{begin}step {row}: "),
    )


def sequence_plans(
    context_features: FeatureMap | None, sequence_features: FeatureMap | None
) -> tuple[ParsingPlan, ParsingPlan]:
    """Return the plans of a SequenceExample's two parts. ValueError if no feature is requested."""
    if not context_features and not sequence_features:
        raise ValueError("neither context_features nor sequence_features name a feature")
    return plan(context_part, context_features or {}), plan(list_part, sequence_features or {})


def refuse_text(serialized: object) -> None:
    """Raise TypeError for a str, which is neither a record nor a batch."""
    if isinstance(serialized, str):
        raise TypeError("a record is bytes, not str")


def named_records(
    serialized: Iterable[Record], names: Sequence[str | bytes] | str | bytes
) -> tuple[list[Record], list[str]]:
    """Return the records of a batch and their names. ValueError if the numbers differ."""
    records = list(serialized)
    if isinstance(names, str | bytes) or len(names) != len(records):
        raise ValueError(f"example_names: there must be one for each of {len(records)} records")
    return records, [text(name) for name in names]


def are_none(names: Sequence[str | bytes] | str | bytes) -> bool:
    """Return whether there are no names: an empty list is like None, as in TensorFlow."""
    return not isinstance(names, str | bytes) and len(names) == 0


def text(name: str | bytes) -> str:
    """Return a name as text, for errors."""
    return name.decode(errors="replace") if isinstance(name, bytes) else name


def place_in(name: str) -> Any:  # noqa: ANN401 - a Place
    """Return a function for the beginning of an error about the record `name`."""
    begin = f"{name}: " if name else ""
    return lambda _row: begin


def _wanted(features: FeatureMap) -> ParsingPlan:
    if not features:
        raise ValueError("features is empty; name the features to read")
    return plan(example_part, features)
