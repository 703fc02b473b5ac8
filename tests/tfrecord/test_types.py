"""A type checker's verdict on programs that use ffrfs.tfrecord."""

from __future__ import annotations

from pathlib import Path

from tests.checkout import CHECKOUT
from tests.interpreter import python

# A program that first puts features in a variable, as TensorFlow programs do. Strict mypy also
# refuses an "ignore" on a line without an error.
PROGRAM = """\
import numpy as np
from ffrfs.tfrecord import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature
from ffrfs.tfrecord import parse_example, parse_single_example, parse_single_sequence_example

a, b = FixedLenFeature([], np.int64), VarLenFeature(np.float32)
c = FixedLenSequenceFeature([], bytes, allow_missing=True)
alike = {"b": b}
two = {"a": FixedLenFeature([], np.int64), "b": VarLenFeature(np.float32)}
three = {**two, "c": c}
for features in (two, three):
    parse_example([b""], features)
parse_example([b""], alike)
parse_single_example(b"", {name: a for name in "xy"})
steps = {"b": b, "c": c}
parse_single_sequence_example(b"", two, steps)
shape: tuple[int, ...] = a.shape

from ffrfs.tfrecord import RaggedFeature, SparseFeature, int64, parse_sequence_example, string
mixed = {
    "a": FixedLenFeature(1, int64),
    "s": SparseFeature("i", "v", string, 4),
    "r": RaggedFeature("int64", "r", [RaggedFeature.RowLengths("l")]),
}
parse_example(b"", mixed)
_, lists, lengths = parse_sequence_example([b""], None, {"r": mixed["r"]}, ["name"])
parse_example("text", mixed)  # type: ignore[arg-type]

words = {"a": "int"}
parse_example([b""], words)  # type: ignore[arg-type]
parse_example([b""], {"a": ([], np.int64)})  # type: ignore[dict-item]
"""


def test_mypy_accepts_features_in_a_variable(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # In the checkout mypy finds its settings and its cache, so that it need not check NumPy again.
    done = python("-m", "mypy", "--strict", program, cwd=CHECKOUT, timeout=100)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
