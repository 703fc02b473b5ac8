"""Record what TensorFlow's tf.io returns for a few hundred small cases, into cases.json.

    python tests/golden_tf/record.py        # with TensorFlow, which ffrfs does not need

A case is [function, arguments, result or "error"]. Bytes are base64 in {"b": …}; arrays, sparse
and ragged tensors are encoded by encode(). The cases are random, by a fixed seed.
"""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

CASES = Path(__file__).with_name("cases.json")
DTYPES = ("int64", "float32", "string")
PARTITIONS = ("RowSplits", "RowLengths", "RowStarts", "RowLimits", "ValueRowIds")


def encode_bytes(data: bytes) -> dict[str, str]:
    return {"b": base64.b64encode(data).decode()}


def encode(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: encode(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, tf.SparseTensor):
        return {
            "sparse": [encode(part) for part in (value.indices, value.values, value.dense_shape)]
        }
    if isinstance(value, tf.RaggedTensor):
        return {"ragged": [encode(value.values), encode(value.row_splits)]}
    array = np.asarray(value.numpy(), object if value.dtype == tf.string else None)
    if array.dtype == object:
        return {"strings": [encode_bytes(item) for item in array.reshape(-1)], "shape": array.shape}
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    return {"array": array.reshape(-1).tolist(), "dtype": str(array.dtype), "shape": array.shape}


def decode_features(features: dict[str, list[Any]]) -> dict[str, Any]:
    """tf.io's features of {name: [class, arguments]}."""
    made = {}
    for name, (kind, given) in features.items():
        arguments = dict(given)
        if "partitions" in arguments:
            arguments["partitions"] = [
                getattr(tf.io.RaggedFeature, of)(key) for of, key in arguments["partitions"]
            ]
        for key in ("dtype", "row_splits_dtype"):
            if key in arguments:
                arguments[key] = tf.as_dtype(arguments[key])
        made[name] = getattr(tf.io, kind)(**arguments)
    return made


class Recorder:
    def __init__(self) -> None:
        self.random = random.Random(16)
        self.cases: list[list[Any]] = []

    def values(self, dtype: str, count: int) -> list[Any]:
        if dtype == "int64":
            return [self.random.choice([0, -1, 7, 1 << 40, -(1 << 63)]) for _ in range(count)]
        if dtype == "float32":
            return [self.random.choice([0.5, -1.25, 3.0, 1e10]) for _ in range(count)]
        return [self.random.choice([b"", b"a", b"\0b\0", b"\xff"]) for _ in range(count)]

    def feature(self, dtype: str, values: list[Any] | None) -> tf.train.Feature:
        if values is None:
            return tf.train.Feature()
        if dtype == "int64":
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        if dtype == "float32":
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))

    def partitions(self, kinds: list[list[Any]], sound: bool) -> tuple[dict[str, list[int]], int]:
        """One example's partitions, from the outermost, and how many values they divide."""
        found = {}
        count = self.random.randint(0, 3)
        for kind, key in kinds:
            least = 1 if kind == "ValueRowIds" else 0
            lengths = [self.random.randint(least, 3) for _ in range(count)]
            if kind == "UniformRowLength":
                count *= key
                continue
            splits = [0, *np.cumsum(lengths, dtype=int).tolist()]
            given = {
                "RowSplits": splits,
                "RowLengths": lengths,
                "RowStarts": splits[:-1],
                "RowLimits": splits[1:],
                "ValueRowIds": np.repeat(range(len(lengths)), lengths).tolist(),
            }[kind]
            if not sound and given:
                given[self.random.randrange(len(given))] += self.random.choice([-2, -1, 1, 5])
            found[key] = given
            count = splits[-1]
        return found, count

    def ragged(self) -> tuple[dict[str, Any], Any]:
        """A feature, and what makes the values of one example."""
        kinds = [
            ["UniformRowLength", self.random.randint(1, 2)]
            if self.random.random() < 0.2
            else [self.random.choice(PARTITIONS), f"p{i}"]
            for i in range(self.random.choice([0, 1, 1, 2, 3]))
        ]
        dtype = self.random.choice(DTYPES)
        splits = self.random.choice(["int32", "int64"])
        sound = self.random.random() < 0.8

        def make() -> dict[str, tuple[str, list[Any]]]:
            keys, count = self.partitions(kinds, sound)
            parts = {key: ("int64", given) for key, given in keys.items()}
            return {"values": (dtype, self.values(dtype, count)), **parts}

        arguments = {
            "dtype": dtype, "value_key": "values", "partitions": kinds,
            "row_splits_dtype": splits, "validate": True,
        }  # fmt: skip
        return {"ragged": ["RaggedFeature", arguments]}, make

    def sparse(self) -> tuple[dict[str, Any], Any]:
        dtype = self.random.choice(DTYPES)
        keys = ["i", "j", "k"][: self.random.randint(1, 3)]
        alone = len(keys) == 1 and self.random.random() < 0.5
        sorted_already = self.random.random() < 0.3

        def make() -> dict[str, tuple[str, list[Any]]]:
            places = sorted({tuple(self.random.randint(0, 4) for _ in keys) for _ in range(4)})
            self.random.shuffle(places)
            parts = {key: ("int64", list(p)) for key, p in zip(keys, zip(*places))}  # noqa: B905
            return {"v": (dtype, self.values(dtype, len(places))), **parts}

        arguments = {
            "index_key": keys[0] if alone else keys, "value_key": "v", "dtype": dtype,
            "size": 5 if alone else [5] * len(keys), "already_sorted": sorted_already,
        }  # fmt: skip
        return {"sparse": ["SparseFeature", arguments]}, make

    def plain(self, in_list: bool = False) -> tuple[dict[str, Any], Any]:
        dtype = self.random.choice(DTYPES)
        shape = self.random.choice([[], [1], 1, [2], [1, 2], [2, 2]])
        size = int(np.prod(shape)) if shape != 1 else 1
        kinds = ["FixedLenFeature", "VarLenFeature", "FixedLenSequenceFeature"]
        kind = self.random.choice(kinds[1:] if in_list else kinds)
        if shape == 1 and kind == "FixedLenSequenceFeature":  # TensorFlow takes no number there
            shape = [1]
        arguments: dict[str, Any] = {"dtype": dtype}
        if kind != "VarLenFeature":
            arguments["shape"] = shape
        if kind == "FixedLenSequenceFeature":
            arguments["allow_missing"] = True
        default = {"int64": 4, "float32": 0.25, "string": "no"}[dtype]
        if kind == "FixedLenFeature" and self.random.random() < 0.5:
            arguments["default_value"] = np.full(shape, default, object).tolist()
        if kind == "FixedLenSequenceFeature" and not in_list and self.random.random() < 0.5:
            arguments["default_value"] = default

        def make() -> dict[str, tuple[str, list[Any]]]:
            if self.random.random() < 0.2:
                return {}
            count = size if kind == "FixedLenFeature" or in_list else self.random.randint(0, 3)
            count *= size if kind == "FixedLenSequenceFeature" and not in_list else 1
            count = self.random.randint(0, 3) if in_list and kind == "VarLenFeature" else count
            if self.random.random() < 0.05:
                count += 1
            return {"plain": (dtype, self.values(dtype, count))}

        return {"plain": [kind, arguments]}, make

    def add(self, function: str, arguments: dict[str, Any]) -> None:
        called = dict(arguments)
        for name in ("features", "context_features", "sequence_features"):
            if called.get(name) is not None:
                called[name] = decode_features(called[name])
        encoded = {
            name: encode_bytes(value) if isinstance(value, bytes)
            else [encode_bytes(item) if isinstance(item, bytes) else item for item in value]
            if isinstance(value, list) else value
            for name, value in arguments.items()
        }  # fmt: skip
        if function == "serialize_tensor":
            called["tensor"] = np.array(arguments["tensor"], arguments["dtype"])
            del called["dtype"]
        operation = tf.io
        if function == "to_dense":
            result = self.to_dense(arguments)
        else:
            try:
                result = encode(getattr(operation, function)(**called))
            except (tf.errors.OpError, ValueError, TypeError):
                result = "error"
        self.cases.append([function, encoded, result])

    def to_dense(self, arguments: dict[str, Any]) -> Any:
        try:
            value = tf.SparseTensor(*arguments["sparse"])
            return encode(tf.sparse.to_dense(tf.sparse.reorder(value), arguments["default_value"]))
        except (tf.errors.OpError, ValueError):
            return "error"

    def example(self, values: dict[str, tuple[str, list[Any]]]) -> bytes:
        features = {name: self.feature(*value) for name, value in values.items()}
        return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(
            deterministic=True
        )

    def sequence(self, context: Any, make_list: Any) -> bytes:
        message = tf.train.SequenceExample()
        for name, value in context().items():
            message.context.feature[name].CopyFrom(self.feature(*value))
        steps = [make_list() for _ in range(self.random.randint(0, 3))]
        for name in {name: None for step in steps for name in step}:
            features = message.feature_lists.feature_list[name].feature
            features.extend(self.feature(*step[name]) for step in steps if name in step)
        return message.SerializeToString(deterministic=True)

    def all(self) -> None:
        for _ in range(130):
            features, make = self.random.choice(
                [self.ragged, self.ragged, self.sparse, self.plain]
            )()
            batch = [self.example(make()) for _ in range(self.random.randint(1, 4))]
            if self.random.random() < 0.3:
                batch.append(b"")
            self.add("parse_example", {"serialized": batch, "features": features})
            one = self.example(make())
            self.add("parse_single_example", {"serialized": one, "features": features})
        for _ in range(70):
            context, make_context = self.random.choice([self.plain, self.ragged])()
            lists, make = self.random.choice([lambda: self.plain(True), self.ragged])()
            batch = [self.sequence(make_context, make) for _ in range(self.random.randint(1, 3))]
            features = {"context_features": context, "sequence_features": lists}
            self.add("parse_sequence_example", {"serialized": batch, **features})
            self.add("parse_sequence_example", {"serialized": batch[0], **features})
            self.add("parse_single_sequence_example", {"serialized": batch[0], **features})
        self.tensors()
        self.raw()
        for values in ([1, 2], [0.5, 1.5], [b"a", b"b"]):
            for indices in (
                [[0, 1], [2, 0]],
                [[0, 1], [0, 1]],
                [[0, 1], [3, 0]],
                [[0, 1], [-1, 0]],
            ):
                for default in (None, 7 if values[0] == 1 else 7.5 if values[0] == 0.5 else b"d"):
                    if values[0] == b"a" and default is None:
                        continue
                    sparse = [indices, values, [3, 2]]
                    self.add("to_dense", {"sparse": sparse, "default_value": default})
                    self.cases[-1][1] = {
                        "indices": indices, "shape": [3, 2],
                        "values": encode(tf.constant(values)),
                        "default_value": encode_bytes(default) if default == b"d" else default,
                    }  # fmt: skip

    def tensors(self) -> None:
        numbers = ["float32", "float64", "int32", "uint8", "int16", "int8", "complex64", "int64"]
        for dtype in [*numbers, "bool", "uint16", "complex128", "float16", "uint32", "uint64"]:
            for tensor in (1, [], [0, 1, 1], [[1, 0], [0, 1]]):
                self.add("serialize_tensor", {"tensor": tensor, "dtype": dtype})
                self.cases[-1][1] = {"tensor": tensor, "dtype": dtype}
                data = tf.io.serialize_tensor(np.array(tensor, dtype)).numpy()
                for wanted in (dtype, "int64"):
                    self.add("parse_tensor", {"serialized": data, "out_type": wanted})
                made = tf.make_tensor_proto(np.array(tensor, dtype), dtype)
                self.add(
                    "parse_tensor", {"serialized": made.SerializeToString(), "out_type": dtype}
                )
        for strings in (b"a", [b"a", b"\0b\0"], [[b"", b"\xff"]]):
            data = tf.io.serialize_tensor(tf.constant(strings)).numpy()
            self.add("parse_tensor", {"serialized": data, "out_type": "string"})
        filled = tf.make_tensor_proto(3.5, "float32", [2, 3])
        for content in (filled.SerializeToString(), b"", b"\xff", data[:-1]):
            self.add("parse_tensor", {"serialized": content, "out_type": "float32"})

    def raw(self) -> None:
        data = bytes(range(1, 17))
        for dtype in ("uint8", "int16", "float16", "int32", "int64", "float64", "uint16", "int8"):
            for strings in (data, [data, data[::-1]], [data, data[:8]], data[:15], b"", []):
                for options in ({}, {"little_endian": False}, {"fixed_length": 8}):
                    # TensorFlow has no float16 of a fixed length, and a list of no type.
                    if (dtype == "float16" and "fixed_length" in options) or strings == []:
                        continue
                    if self.random.random() < 0.5:
                        arguments = {"input_bytes": strings, "out_type": dtype, **options}
                        self.add("decode_raw", arguments)


def main() -> None:
    recorder = Recorder()
    recorder.all()
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in recorder.cases)
    CASES.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
