"""tf.io's functions: TensorFlow 2.21's results, which tests/golden_tf/record.py recorded."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ffrfs import tfrecord
from ffrfs.tfrecord import (
    RaggedFeature,
    RaggedValue,
    SparseValue,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)
from tests.checkout import CHECKOUT

CASES = json.loads((CHECKOUT / "tests/golden_tf/cases.json").read_text())
FEATURE_NAMES = ("features", "context_features", "sequence_features")


def encoded(value: Any) -> Any:
    """Encode a value as record.py encodes TensorFlow's."""
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
    if function == "serialize_strings":
        strings = np.array(decoded(arguments["strings"]), object)
        return tfrecord.serialize_tensor(strings.reshape(arguments["shape"]))
    if function == "ragged":
        return ragged(arguments)
    if function == "serialize_tensor":
        return tfrecord.serialize_tensor(np.array(arguments["tensor"], arguments["dtype"]))
    decode = {name: features_of(of) for name, of in arguments.items() if name in FEATURE_NAMES}
    others = {name: decoded(of) for name, of in arguments.items() if name not in FEATURE_NAMES}
    return getattr(tfrecord, function)(**decode, **others)


def ragged(arguments: dict[str, Any]) -> dict[str, Any]:
    part = arguments["values"]
    strings = np.array(decoded(part["strings"]), object) if "strings" in part else None
    values = np.array(part["array"], part["dtype"]) if strings is None else strings
    found = RaggedValue(values, np.array(arguments["splits"]))
    return {
        "row_lengths": encoded(found.row_lengths()),
        "value_rowids": encoded(found.value_rowids()),
        "nrows": encoded(np.int64(found.nrows())),
        "to_list": [
            [
                {"b": base64.b64encode(one).decode()} if isinstance(one, bytes) else one
                for one in row
            ]
            for row in found.to_list()
        ],
    }


def differs(function: str, arguments: dict[str, Any]) -> bool:
    """Return whether TensorFlow refuses a call that ours accepts (see docs/compatibility.md)."""
    if function == "decode_raw":
        return arguments["out_type"] in ("uint32", "uint64")
    return function in ("parse_example", "parse_sequence_example") and not arguments["serialized"]


FUNCTIONS = {case[0] for case in CASES} - {"TFRecordWriter"}


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_results_are_those_of_tensorflow(function: str) -> None:
    count = 0
    for number, (name, arguments, wanted) in enumerate(CASES):
        if name != function:
            continue
        try:
            result = called(function, arguments)
            found = result if function == "ragged" else encoded(result)
            if differs(function, arguments) and wanted == "error":
                continue
        except (ValueError, TypeError) as error:
            found = "error"
            assert wanted == "error", (number, arguments, wanted, error)
        assert found == wanted, (number, arguments)
        count += 1
    assert count >= 4


def test_every_function_of_the_table_is_recorded() -> None:
    page = (CHECKOUT / "docs/compatibility.md").read_text()
    functions = set(re.findall(r"^\| `tf\.io\.([a-z_]+)\(", page, re.MULTILINE))
    assert len(functions) == 7
    assert functions <= FUNCTIONS


WRITTEN = [case[1:] for case in CASES if case[0] == "TFRecordWriter"]
# The size of the stream's header, in which zlib notes window and level.
HEADER_SIZES = {"GZIP": 10, "ZLIB": 2}


@pytest.mark.parametrize(("arguments", "wanted"), WRITTEN, ids=lambda each: str(each)[:70])
def test_files_are_written_as_by_tensorflow(tmp_path: Path, arguments: Any, wanted: Any) -> None:
    records = decoded(arguments["records"])
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.write_bytes(decoded(wanted))
    assert list(tf_record_iterator(theirs)) == records
    with TFRecordWriter(ours, TFRecordOptions(**arguments["options"])) as writer:
        for record in records:
            writer.write(record)
    assert list(tf_record_iterator(ours)) == records
    kind = arguments["options"].get("compression_type")
    header = slice(HEADER_SIZES.get(kind))
    assert ours.read_bytes()[header] == theirs.read_bytes()[header]
    assert ours.stat().st_size == pytest.approx(theirs.stat().st_size, rel=0.02)
