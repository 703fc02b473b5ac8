"""The features of an Example or SequenceExample, by name, and their declarations by TFDS.

A SequenceExample's are context/NAME, and feature_lists/NAME of one step. Not here: how they are
shown (rows.py). Stateless; any thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ffrfs.convert.example_json import parse_record
from ffrfs.errors import PathNotFoundError
from ffrfs.printable import quoted
from ffrfs.tfrecord.examples.content import FeatureKind, content, features_in
from ffrfs.tfrecord.examples.example import Example, Feature, SequenceExample
from ffrfs.tfrecord.examples.tfds_directory import FEATURES, open_tfds

# The limit of a record that is parsed: many empty features take thirty times its size in memory.
RECORD_SIZE_MAX = 32 << 20
_LABELS_SIZE_MAX = 4 << 20


class Column(NamedTuple):
    name: str
    path: str  # the name, and of a feature list the step: feature_lists/frames[3]
    kind: FeatureKind
    values: Sequence[Any]  # of the message: slices of it are lists
    steps: Sequence[Feature] | None = None


class Declared(NamedTuple):
    """The declaration of a feature in a TFDS directory."""

    text: str
    classes: list[str]


def columns(message: Example | SequenceExample, step: int = 0) -> Iterator[Column]:
    """Yield all features by name; of feature lists the values of one step, if they have it."""
    features, lists = features_in(message)
    prefix = "" if isinstance(message, Example) else "context/"
    for name in sorted(features):
        yield Column(prefix + name, prefix + name, *content(features[name]))
    for name in sorted(lists):
        steps = lists[name].feature
        here = content(steps[step]) if step < len(steps) else ("none", [])
        yield Column(f"feature_lists/{name}", f"feature_lists/{name}[{step}]", *here, steps)


def columns_of(record: bytes) -> dict[str, Column]:
    """Return the features of a record by name; none if it is no Example."""
    message = parse_record(record)
    return {one.name: one for one in columns(message)} if message is not None else {}


def step_count(message: Example | SequenceExample) -> int:
    """Return how many steps the longest feature list has."""
    return max((len(one.feature) for one in features_in(message)[1].values()), default=0)


def feature_bytes(record: bytes, feature: str, index: int) -> bytes:
    """Return a value of a feature of bytes. `feature`: its path.

    Raises PathNotFoundError if there is none.
    """
    message = parse_record(record)
    step = re.search(r"\[([0-9]{1,9})\]$", feature)
    for column in columns(message, int(step[1]) if step else 0) if message is not None else ():
        if column.path == feature and column.kind == "bytes" and 0 <= index < len(column.values):
            return bytes(column.values[index])
    raise PathNotFoundError(f"the record has no bytes {index} in the feature {quoted(feature)}")


@lru_cache(maxsize=8)
def declared_in(folder: str) -> dict[str, Declared]:
    """Return the declarations of a TFDS directory, by feature. Raises FormatError, OSError."""
    if not os.path.isfile(os.path.join(folder, FEATURES)):
        return {}
    found: dict[str, Declared] = {}
    for feature in open_tfds(folder).declared:
        classes = _class_names(folder, feature.name) if feature.kind == "ClassLabel" else []
        found[feature.keys[0]] = Declared(feature.text, classes)
    return found


def _class_names(folder: str, feature: str) -> list[str]:
    file = os.path.join(folder, f"{feature.replace('/', '-')}.labels.txt")
    if not os.path.isfile(file):
        return []
    with open(file, encoding="utf-8", errors="replace") as names:
        return names.read(_LABELS_SIZE_MAX).splitlines()
