"""Examples of eight scalar features, made into arrays by parse_example and by protobuf.

The other side is the code that one writes without parse_example: protobuf's parser (its C
implementation) for each record, a list of values for each feature, an array of each list.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ffrfs.tfrecord import Example, FixedLenFeature, from_dict, parse_example

BATCH_SIZE = 256
INTS = ("label", "height", "width")
FLOATS = ("weight", "latitude", "longitude")
TEXTS = ("name", "format")
FEATURES = {
    **dict.fromkeys(INTS, FixedLenFeature((), np.int64)),
    **dict.fromkeys(FLOATS, FixedLenFeature((), np.float32)),
    **dict.fromkeys(TEXTS, FixedLenFeature((), bytes)),
}
Batch = list[bytes]
Columns = dict[str, NDArray[np.generic]]
Parse = Callable[[Batch], Columns]


def make_batches(count: int) -> list[Batch]:
    """Return batches, which are the same at every call."""
    random = np.random.default_rng(count)
    return [[_record(random) for _ in range(BATCH_SIZE)] for _ in range(count)]


def _record(random: np.random.Generator) -> bytes:
    ints = zip(INTS, random.integers(0, 1000, len(INTS)), strict=True)
    floats = zip(FLOATS, random.random(len(FLOATS)), strict=True)
    texts = zip(TEXTS, (random.bytes(12), b"jpeg"), strict=True)
    return bytes(from_dict(dict([*ints, *floats, *texts])).SerializeToString())


def with_ffrfs(records: Batch) -> Columns:
    return parse_example(records, FEATURES)


def with_protobuf(records: Batch) -> Columns:
    values: dict[str, list[int | float | bytes]] = {name: [] for name in FEATURES}
    for record in records:
        feature = Example.FromString(record).features.feature
        for name in INTS:
            values[name].append(feature[name].int64_list.value[0])
        for name in FLOATS:
            values[name].append(feature[name].float_list.value[0])
        for name in TEXTS:
            values[name].append(feature[name].bytes_list.value[0])
    return {
        **{name: np.array(values[name], np.int64) for name in INTS},
        **{name: np.array(values[name], np.float32) for name in FLOATS},
        **{name: np.array(values[name], object) for name in TEXTS},
    }


def check(batches: list[Batch]) -> None:
    for batch in batches:
        ours, theirs = with_ffrfs(batch), with_protobuf(batch)
        for name in FEATURES:
            if ours[name].dtype != theirs[name].dtype or not np.array_equal(
                ours[name], theirs[name]
            ):
                raise RuntimeError(f"{name}: parse_example and protobuf differ")
