"""The spellings of a dtype."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ffrfs import tfrecord
from ffrfs.tfrecord import FixedLenFeature, VarLenFeature, from_dict, parse_single_example
from ffrfs.tfrecord.parsing.dtypes import kind_of, numpy_dtype

RECORD = from_dict({"i": [1, 2], "f": 0.5, "b": [b"a\0"]}).SerializeToString()


class DType:
    """As tf.int64 looks from outside: a name, and a class of a module of TensorFlow."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"tf.{self.name}"


DType.__module__ = "tensorflow.python.framework.dtypes"


@pytest.mark.parametrize(
    ("kind", "spellings"),
    [
        ("int64", [np.int64, "int64", np.dtype("int64"), int, tfrecord.int64, DType("int64")]),
        (
            "float32",
            [np.float32, "float32", float, "float", tfrecord.float32, DType("float32")],
        ),
        (
            "bytes",
            [
                *[bytes, str, object, "string", "bytes", "S", np.object_, np.str_, np.bytes_],
                *[np.dtype("S3"), tfrecord.string, DType("string")],
            ],
        ),
    ],
)
def test_spellings(kind: str, spellings: list[object]) -> None:
    key = {"int64": "i", "float32": "f", "bytes": "b"}[kind]
    wanted = parse_single_example(RECORD, {key: VarLenFeature(spellings[0])})[key].values
    for spelling in spellings:
        assert kind_of(spelling, "x") == kind
        found = parse_single_example(RECORD, {key: VarLenFeature(spelling)})[key].values
        assert found.tolist() == wanted.tolist()
        assert found.dtype == wanted.dtype


@pytest.mark.parametrize(
    "wrong",
    [None, np.int32, "int32", np.float64, bool, "no such", 5, DType("int32"), DType("no such")],
    ids=repr,
)
def test_other_types_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r'feature "x": dtype is .*int64, float32 or bytes'):
        parse_single_example(RECORD, {"x": FixedLenFeature([], wrong)})


def test_other_types_of_numbers_are_numpys() -> None:
    assert numpy_dtype(DType("uint8")) == np.uint8
    assert numpy_dtype("half") == np.float16
    assert numpy_dtype(DType("resource")) is None


def test_tensorflow_is_not_imported() -> None:
    program = (
        "import sys; from ffrfs.tfrecord import VarLenFeature, parse_single_example as p; "
        "p(b'', {'x': VarLenFeature('int64')}); print('tensorflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False"]
