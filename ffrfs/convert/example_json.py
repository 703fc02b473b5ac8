"""Converts an Example or SequenceExample to JSON, with all of its values, and back.

The form is that of the file example.json in a mount, but bytes are base64, without a description:

    {"features": {"image": {"bytes_list": ["/9j/4A=="]}, "label": {"int64_list": [7]}}}
    {"context": {…}, "feature_lists": {"frames": [{"float_list": [0.5, "NaN"]}, …]}}

A feature without a list is {}. Names are sorted. Floats have as many digits as a float32 needs.
Not here: files (ffrfs.convert), texts for people (ffrfs.cli). No state: safe from any thread.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ffrfs.tfrecord.examples.content import content, features_in, message_of
from ffrfs.tfrecord.examples.example import (
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    SequenceExample,
    feature_name,
    make_feature,
)

Json: TypeAlias = dict[str, Any]
# Convert a bytes value of a feature to JSON, and back; base64 unless the bytes are stored
# elsewhere.
Encode: TypeAlias = Callable[[str, bytes], object]
Decode: TypeAlias = Callable[[object], bytes]

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
# Numbers from here on round to infinity; the shortest text of the largest float32 is below it.
_FLOAT32_LIMIT = (2 - 2**-24) * 2.0**127
_FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def parse_record(record: bytes | memoryview) -> Example | SequenceExample | None:
    """Return the message of a record; None if it is neither kind, or has unknown fields."""
    data = bytes(record)
    message = message_of(data)
    if message is None:
        return None
    size = message.ByteSize()
    message.DiscardUnknownFields()
    if message.ByteSize() != size:
        return None
    return message if message.HasField("feature_lists") else Example.FromString(data)


def encode_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def decode_base64(value: object) -> bytes:
    """Return the bytes of a base64 text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"bytes are base64 in a string, not {type(value).__name__}")
    return base64.b64decode(value, validate=True)


def to_json(
    message: Example | SequenceExample, encode: Encode = lambda _, value: encode_base64(value)
) -> Json:
    """Return a value for json.dumps()."""
    features, lists = features_in(message)
    context = {name: _feature_to_json(name, features[name], encode) for name in sorted(features)}
    if isinstance(message, Example):
        return {"features": context}
    return {
        "context": context,
        "feature_lists": {
            name: [_feature_to_json(name, step, encode) for step in lists[name].feature]
            for name in sorted(lists)
        },
    }


def from_json(value: object, decode: Decode = decode_base64) -> Example | SequenceExample:
    """Return the message of a value of to_json(). Raises ValueError."""
    fields = _object(value, "a record")
    if fields.keys() == {"features"}:
        return Example(features=_features_from_json(fields["features"], decode))
    if fields.keys() != {"context", "feature_lists"}:
        raise ValueError('neither {"features": …} nor {"context": …, "feature_lists": …}, nor flat')
    lists = _object(fields["feature_lists"], "feature_lists").items()
    return SequenceExample(
        context=_features_from_json(fields["context"], decode),
        feature_lists=FeatureLists(
            feature_list={
                feature_name(name): _steps_from_json(name, steps, decode) for name, steps in lists
            }
        ),
    )


def float_text(value: float) -> str:
    """Return the shortest text that gives this float32 again."""
    return str(np.float32(value))


def _feature_to_json(name: str, feature: Feature, encode: Encode) -> Json:
    kind, values = content(feature)
    if kind == "none":
        return {}
    if kind == "bytes":
        return {"bytes_list": [encode(name, value) for value in values]}
    if kind == "float":
        return {"float_list": list(map(_float_to_json, values))}
    return {"int64_list": list(values)}


def _float_to_json(value: float) -> float | str:
    if math.isfinite(value):
        return float(float_text(value))
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _steps_from_json(name: str, steps: object, decode: Decode) -> FeatureList:
    found = _list(steps, f'feature list "{name}"')
    return FeatureList(
        feature=[_feature_from_json(f"{name}[{i}]", step, decode) for i, step in enumerate(found)]
    )


def _features_from_json(value: object, decode: Decode) -> Features:
    found = _object(value, "features").items()
    return Features(
        feature={
            feature_name(name): _feature_from_json(name, feature, decode) for name, feature in found
        }
    )


def _feature_from_json(name: str, value: object, decode: Decode) -> Feature:
    fields = _object(value, f'feature "{name}"')
    if not fields:
        return Feature()
    if len(fields) > 1:
        raise ValueError(f'feature "{name}" has more than one list')
    ((kind, listed),) = fields.items()
    values = _list(listed, f'feature "{name}"')
    converters = {"bytes_list": decode, "float_list": to_float, "int64_list": to_int}
    if kind not in converters:
        raise ValueError(f'feature "{name}": "{kind}" is not bytes_list, float_list or int64_list')
    try:
        return make_feature(kind, list(map(converters[kind], values)))
    except ValueError as error:
        raise ValueError(f'feature "{name}": {error}') from None


def to_int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r:.40} is not an integer")
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise ValueError("an integer does not fit into an int64")
    return value


def to_float(value: object) -> float:
    if isinstance(value, str) and value in _FLOATS:
        return _FLOATS[value]
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{value!r:.40} is not a number")
    if abs(value) >= _FLOAT32_LIMIT:
        raise ValueError("a number does not fit into a float32")
    return float(np.float32(value))


def _object(value: object, name: str) -> Json:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name}: not a list of values")
    return value
