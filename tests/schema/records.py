"""Records of Examples and SequenceExamples for tests, and files of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ffrfs.schema import Sizes, generate_statistics
from ffrfs.tfrecord import Example, Feature, SequenceExample
from tests.tfrecord_file import write_tfrecord

# An empty list has a type too.
INTS: Any = ("int64_list", [])
FLOATS: Any = ("float_list", [])


def feature(values: Any) -> Feature:
    """Return a feature of these values; None: a feature without a list."""
    found = Feature()
    if values is None:
        return found
    if isinstance(values, tuple):
        field, values = values
    else:
        field = {int: "int64_list", float: "float_list"}.get(type(values[0]), "bytes_list")
    values = [value.encode() if isinstance(value, str) else value for value in values]
    getattr(found, field).value.extend(values)
    getattr(found, field).SetInParent()
    return found


def example(**features: Any) -> bytes:
    message = Example()
    message.features.SetInParent()
    for name, values in features.items():
        message.features.feature[name].CopyFrom(feature(values))
    return message.SerializeToString()


def sequence(context: Mapping[str, Any], lists: Mapping[str, list[Any]]) -> bytes:
    message = SequenceExample()
    for name, values in context.items():
        message.context.feature[name].CopyFrom(feature(values))
    for name, steps in lists.items():
        message.feature_lists.feature_list[name].SetInParent()
        for values in steps:
            message.feature_lists.feature_list[name].feature.add().CopyFrom(feature(values))
    return message.SerializeToString()


def statistics_of(folder: Path, records: Iterable[bytes], sizes: Sizes = Sizes()) -> Any:  # noqa: B008
    """Return the statistics of the only data set."""
    file = write_tfrecord(folder / "x.tfrecord", records)
    return generate_statistics(file, sizes=sizes).statistics.datasets[0]


def by_name(dataset: Any) -> dict[str, Any]:
    return {".".join(one.path.step): one for one in dataset.features}
