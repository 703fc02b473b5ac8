"""Records of Examples and SequenceExamples for tests, and files of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ffrfs.schema import Sizes, generate_statistics
from ffrfs.tfrecord import from_dict
from tests.tfrecord_file import write_tfrecord

# An empty list has a type too.
INTS: Any = np.array([], np.int64)
FLOATS: Any = np.array([], np.float32)


def example(**features: Any) -> bytes:
    """Return an Example; None: a feature without a list."""
    return bytes(from_dict(features).SerializeToString())


def sequence(context: Mapping[str, Any], lists: Mapping[str, list[Any]]) -> bytes:
    parts = {"context": context, "feature_lists": lists}
    return bytes(from_dict(parts).SerializeToString())


def statistics_of(folder: Path, records: Iterable[bytes], sizes: Sizes = Sizes()) -> Any:  # noqa: B008
    """Return the statistics of the only data set."""
    file = write_tfrecord(folder / "x.tfrecord", records)
    return generate_statistics(file, sizes=sizes).statistics.datasets[0]


def by_name(dataset: Any) -> dict[str, Any]:
    return {".".join(one.path.step): one for one in dataset.features}
