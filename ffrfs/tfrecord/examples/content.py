"""The message of a record, its features by name, and the kind and values of one. No state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from google.protobuf.message import DecodeError

from ffrfs.tfrecord.examples.example import Example, Feature, FeatureList, SequenceExample

# "none": the feature has none of the three lists.
FeatureKind: TypeAlias = Literal["bytes", "float", "int64", "none"]

_KINDS: dict[str, FeatureKind] = {
    "bytes_list": "bytes",
    "float_list": "float",
    "int64_list": "int64",
}


def content(feature: Feature) -> tuple[FeatureKind, Sequence[Any]]:
    """Return the kind of a feature, and its values, which are the message's: slices are lists."""
    field = feature.WhichOneof("kind")
    return (_KINDS[field], getattr(feature, field).value) if field else ("none", [])


def message_of(record: bytes) -> SequenceExample | None:
    """Return the message of a record, or None. An Example parses, too, without feature lists."""
    try:
        return SequenceExample.FromString(record)
    except DecodeError:
        return None


def features_in(
    message: Example | SequenceExample,
) -> tuple[Mapping[str, Feature], Mapping[str, FeatureList]]:
    """Return the features (of a SequenceExample the context), and the feature lists."""
    if isinstance(message, Example):
        return message.features.feature, {}
    return message.context.feature, message.feature_lists.feature_list
