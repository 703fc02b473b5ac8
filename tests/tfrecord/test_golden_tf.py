"""tf.io's functions: what TensorFlow 2.21 returned, recorded by tests/golden_tf/record.py."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from ffrfs import tfrecord
from ffrfs.tfrecord import RaggedFeature, RaggedValue, SparseValue
from tests.checkout import CHECKOUT

CASES = json.loads((CHECKOUT / "tests/golden_tf/cases.json").read_text())
FEATURE_NAMES = ("features", "context_features", "sequence_features")


def encoded(value: Any) -> Any:
    """As record.py encodes TensorFlow's values."""
    if isinstance(value, SparseValue):
        return {"sparse": [encoded(part) for part in value]}
    if isinstance(value, RaggedValue):
        return {"ragged": [encoded(value.values), encoded(value.row_splits)]}
    if isinstance(value, dict):
        return {name: encoded(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [encoded(item) for item in value]
    if isinstance(value, bytes):
        value = np.array(value, object)
    if value.dtype == object:
        strings = [{"b": base64.b64encode(item).decode()} for item in value.reshape(-1)]
        return {"strings": strings, "shape": list(value.shape)}
    if value.dtype.kind == "c":
        value = np.stack([value.real, value.imag], -1)
    flat = value.reshape(-1).tolist()
    return {"array": flat, "dtype": str(value.dtype), "shape": list(value.shape)}


def decoded(argument: Any) -> Any:
    if isinstance(argument, dict) and "b" in argument:
        return base64.b64decode(argument["b"])
    return [decoded(item) for item in argument] if isinstance(argument, list) else argument


def features_of(features: dict[str, Any]) -> dict[str, Any]:
    made = {}
    for name, (kind, given) in features.items():
        arguments = dict(given)
        if "partitions" in arguments:
            arguments["partitions"] = [
                getattr(RaggedFeature, of)(key) for of, key in arguments["partitions"]
            ]
        made[name] = getattr(tfrecord, kind)(**arguments)
    return made


def called(function: str, arguments: dict[str, Any]) -> Any:
    if function == "to_dense":
        part = arguments["values"]
        values = np.array(decoded(part["strings"]), object) if "strings" in part else None
        if values is None:
            values = np.array(part["array"], part["dtype"])
        sparse = SparseValue(np.array(arguments["indices"]), values, np.array(arguments["shape"]))
        return sparse.to_dense(decoded(arguments["default_value"]))
    if function == "serialize_tensor":
        return tfrecord.serialize_tensor(np.array(arguments["tensor"], arguments["dtype"]))
    decode = {name: features_of(of) for name, of in arguments.items() if name in FEATURE_NAMES}
    others = {name: decoded(of) for name, of in arguments.items() if name not in FEATURE_NAMES}
    return getattr(tfrecord, function)(**decode, **others)


@pytest.mark.parametrize("function", sorted({case[0] for case in CASES}))
def test_as_tensorflow(function: str) -> None:
    count = 0
    for number, (name, arguments, wanted) in enumerate(CASES):
        if name != function:
            continue
        try:
            found = encoded(called(function, arguments))
        except (ValueError, TypeError) as error:
            found = "error"
            assert wanted == "error", (number, arguments, wanted, error)
        assert found == wanted, (number, arguments)
        count += 1
    assert count > 10
