"""Record what TensorFlow's tf.io returns for some 900 small cases, into cases.json.

    python tests/golden_tf/record.py        # with TensorFlow, which ffrfs does not need

A case is [function, arguments, result or "error"]. Bytes are base64 in {"b": …}; arrays, sparse
and ragged tensors are encoded by encode(). The cases are random, by a fixed seed; new kinds come
last, so that the others stay the same. The last line printed is the number of changed cases.
"""

from __future__ import annotations

import base64
import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # else TensorFlow logs each refusal
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"  # else it logs that it uses them

import numpy as np
import tensorflow as tf

CASES = Path(__file__).with_name("cases.json")
DTYPES = ("int64", "float32", "string")
PARTITIONS = ("RowSplits", "RowLengths", "RowStarts", "RowLimits", "ValueRowIds")


def encode_bytes(data: bytes) -> dict[str, str]:
    return {"b": base64.b64encode(data).decode()}


def encode_argument(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: encode_argument(item) for name, item in value.items()}
    if isinstance(value, list):
        return [encode_argument(item) for item in value]
    return encode_bytes(value) if isinstance(value, bytes) else value


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
    """Return tf.io's features for {name: [class, arguments]}."""
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
        """Return one example's partitions, from the outermost, and how many values they divide."""
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
        """Return a feature, and a function that makes the values of one example."""
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
        if shape == 1 and kind == "FixedLenSequenceFeature":  # TensorFlow refuses a number here
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
        if function == "serialize_tensor":
            called["tensor"] = np.array(arguments["tensor"], arguments["dtype"])
            del called["dtype"]
        if function == "to_dense":
            result = self.to_dense(arguments)
        else:
            try:
                for name in ("features", "context_features", "sequence_features"):
                    if called.get(name) is not None:
                        called[name] = decode_features(called[name])
                result = encode(getattr(tf.io, function)(**called))
            except (tf.errors.OpError, ValueError, TypeError):
                result = "error"
        self.cases.append([function, encode_argument(arguments), result])

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
        self.accepted_and_refused()
        self.more_tensors()
        self.ragged_values()
        self.writers()

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
                    # TensorFlow has no float16 of a fixed length, and an empty list has no type.
                    if (dtype == "float16" and "fixed_length" in options) or strings == []:
                        continue
                    if self.random.random() < 0.5:
                        arguments = {"input_bytes": strings, "out_type": dtype, **options}
                        self.add("decode_raw", arguments)

    def accepted_and_refused(self) -> None:
        """Add cases with one argument that TensorFlow accepts or refuses, alone and in a batch."""
        data = self.example(
            {
                "i": ("int64", [7]),
                "f": ("float32", [0.5]),
                "s": ("string", [b"a"]),
                "e": ("int64", []),
            }
        )
        fixed, sequence = "FixedLenFeature", "FixedLenSequenceFeature"
        features: list[dict[str, Any]] = [{}]
        for dtype in ("int64", "float32", "string", "int32", "float64", "bool", "uint8"):
            name = {"float32": "f", "float64": "f", "string": "s"}.get(dtype, "i")
            features.append({name: [fixed, {"shape": [], "dtype": dtype}]})
            features.append({name: ["VarLenFeature", {"dtype": dtype}]})
            features.append({name: ["RaggedFeature", {"dtype": dtype}]})
            for shape in (1, [0], [0, 2], [1, 1], [2], None, [None], [-1]):
                features.append({name: [fixed, {"shape": shape, "dtype": dtype}]})
        for dtype, name in (("int64", "i"), ("float32", "f"), ("string", "s")):
            for default in (True, False, 1, 0.5, 1 << 40, "x", [1], [1, 2], [], [[1]], None):
                for of in (name, "none"):
                    given = {"shape": [], "dtype": dtype, "default_value": default}
                    features.append({of: [fixed, given]})
                given = {"shape": [1], "dtype": dtype, "default_value": default}
                features.append({"none": [fixed, given]})
                given = {
                    "shape": [],
                    "dtype": dtype,
                    "allow_missing": True,
                    "default_value": default,
                }
                features.append({"none": [sequence, given]})
            for given in ({"allow_missing": False}, {"allow_missing": True}, {}):
                for of in (name, "e", "none"):
                    features.append({of: [sequence, {"shape": [], "dtype": dtype, **given}]})
        for each in features:
            self.add("parse_single_example", {"serialized": data, "features": each})
            self.add("parse_example", {"serialized": [data, data], "features": each})
        label = {"i": [fixed, {"shape": [], "dtype": "int64"}]}
        for serialized in (data, [], [data], [[data]], [b"\xff"], [b""], b""):
            self.add("parse_example", {"serialized": serialized, "features": label})
            self.add("parse_single_example", {"serialized": serialized, "features": label})
        for names in (["a", "b"], ["a"], [], "a", None):
            batch = {"serialized": [data, data], "features": label, "example_names": names}
            self.add("parse_example", batch)
            self.add("parse_single_example", {**batch, "serialized": data})
        self.sequences_accepted_and_refused()

    def sequences_accepted_and_refused(self) -> None:
        message = tf.train.SequenceExample()
        message.context.feature["i"].CopyFrom(self.feature("int64", [7]))
        for step in ([1], [2]):
            message.feature_lists.feature_list["x"].feature.add().CopyFrom(
                self.feature("int64", step)
            )
        data = message.SerializeToString(deterministic=True)
        arguments: list[dict[str, Any]] = [{}, {"context_features": {}, "sequence_features": {}}]
        given = {"shape": [], "dtype": "int64"}
        sparse = {"index_key": "i", "value_key": "i", "dtype": "int64", "size": 9}
        for name in ("x", "none"):
            for default in ({}, {"default_value": 3}):
                for missing in (False, True):
                    of = {**given, "allow_missing": missing, **default}
                    lists = {name: ["FixedLenSequenceFeature", of]}
                    arguments.append({"sequence_features": lists})
            arguments.append({"sequence_features": {name: ["FixedLenFeature", given]}})
            arguments.append({"sequence_features": {name: ["VarLenFeature", {"dtype": "int64"}]}})
            arguments.append({"sequence_features": {name: ["RaggedFeature", {"dtype": "int64"}]}})
        arguments.append({"context_features": {"i": ["FixedLenFeature", given]}})
        arguments.append({"context_features": {"x": ["FixedLenFeature", given]}})
        arguments.append({"context_features": {"i": ["SparseFeature", sparse]}})
        arguments.append({"sequence_features": {"i": ["SparseFeature", sparse]}})
        for each in arguments:
            self.add("parse_single_sequence_example", {"serialized": data, **each})
            self.add("parse_sequence_example", {"serialized": [data, data], **each})
        label = {"context_features": {"i": ["FixedLenFeature", given]}}
        for serialized in (b"\xff", b"", [data], [], data):
            self.add("parse_single_sequence_example", {"serialized": serialized, **label})
            self.add("parse_sequence_example", {"serialized": serialized, **label})
        for names in (["a", "b"], ["a"]):
            given = {"serialized": [data, data], **label, "example_names": names}
            self.add("parse_sequence_example", given)
        named = {"serialized": data, **label, "example_name": "a"}
        self.add("parse_single_sequence_example", named)

    def more_tensors(self) -> None:
        for strings in (b"a", [b"a", b"\0b\0"], [[b"", b"\xff"]], []):
            encoded = encode(tf.constant(strings, tf.string))
            data = tf.io.serialize_tensor(tf.constant(strings, tf.string))
            self.cases.append(["serialize_strings", encoded, encode(data)])
        numbers = bytes(range(64))
        for dtype in ("float32", "bool", "complex64", "complex128", "uint32", "uint64", "string"):
            for strings in (numbers[:16], [numbers[:32], numbers[32:]], numbers[:15], b""):
                options: list[dict[str, Any]] = [{}, {"little_endian": False}]
                if dtype == "float32":
                    options += [{"fixed_length": 8}, {"fixed_length": 20}, {"fixed_length": 6}]
                    options += [{"fixed_length": 8, "little_endian": False}, {"fixed_length": 0}]
                for option in options:
                    arguments = {"input_bytes": strings, "out_type": dtype, **option}
                    self.add("decode_raw", arguments)

    def ragged_values(self) -> None:
        for dtype in DTYPES:
            for _ in range(8):
                lengths = [self.random.randint(0, 3) for _ in range(self.random.randint(0, 4))]
                splits = [0, *np.cumsum(lengths, dtype=int).tolist()]
                values = tf.constant(self.values(dtype, splits[-1]), tf.as_dtype(dtype))
                found = tf.RaggedTensor.from_row_splits(values, splits)
                result = {
                    "row_lengths": encode(found.row_lengths()),
                    "value_rowids": encode(found.value_rowids()),
                    "nrows": encode(found.nrows()),
                    "to_list": [
                        [encode_bytes(item) if isinstance(item, bytes) else item for item in row]
                        for row in found.to_list()
                    ],
                }
                self.cases.append(["ragged", {"values": encode(values), "splits": splits}, result])

    def writers(self) -> None:
        """Add files that TensorFlow writes with each option; a refused one ends the process."""
        options: list[dict[str, Any]] = [{}]
        for compression in ("GZIP", "ZLIB"):
            options.append({"compression_type": compression})
            for name, values in {
                "compression_level": (0, 1, 9, -1),
                "window_bits": (25, 31) if compression == "GZIP" else (9, 15),
                "mem_level": (1, 9),
                "compression_strategy": (0, 1, 2, 3),
                "flush_mode": (0, 2, 3),
                "input_buffer_size": (64, 1 << 20),
                "output_buffer_size": (64, 1 << 20),
                "compression_method": (8,),
            }.items():
                options += [{"compression_type": compression, name: value} for value in values]
        records = [b"a" * 1000, b"", bytes(range(256))]
        for given in options:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "x"
                with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(**given)) as writer:
                    for record in records:
                        writer.write(record)
                result = encode_bytes(path.read_bytes())
            of = {"options": given, "records": [encode_bytes(record) for record in records]}
            self.cases.append(["TFRecordWriter", of, result])


def main() -> None:
    tf.get_logger().setLevel("ERROR")
    recorder = Recorder()
    recorder.all()
    lines = [json.dumps(case, separators=(",", ":")) for case in recorder.cases]
    old = CASES.read_text().splitlines()[1:-1] if CASES.exists() else []
    new = [f"{line}," for line in lines[:-1]] + lines[-1:]
    CASES.write_text("\n".join(["[", *new, "]"]) + "\n")
    changed = len(set(new) - set(old)) + max(0, len(old) - len(new))
    said = f"{changed:,} changed, see git diff" if changed else "all as before"
    print(f"{CASES}: {len(lines):,} cases of TensorFlow {tf.__version__}; {said}")


if __name__ == "__main__":
    main()
