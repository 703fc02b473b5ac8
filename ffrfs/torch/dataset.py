"""TFRecordDataset: the Examples of TFRecord files by number, for torch's DataLoader.

Not here: reading and verifying (ffrfs.tfrecord.reader), parsing (ffrfs.tfrecord.parse and
example). Concurrency: as the reader's, so a DataLoader's workers may be forked or spawned;
a spawned one opens the files itself.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError
from torch.utils.data import Dataset

from ffrfs.errors import FormatError
from ffrfs.tfrecord.example import Example, FeatureValue, to_dict
from ffrfs.tfrecord.features import AnyFeature
from ffrfs.tfrecord.parse import FeatureMap, parse_single_example
from ffrfs.tfrecord.reader import TFRecordReader

PathType: TypeAlias = str | os.PathLike[str]
Description: TypeAlias = Sequence[str] | Mapping[str, str | AnyFeature]
Item: TypeAlias = dict[str, Any]

_KINDS = ("byte", "int", "float")


class TFRecordDataset(Dataset[Any]):
    """One item per record: a dictionary of its features, passed through `transform`.

    `path`: a file, a list of files, or a directory of shards; uncompressed. Opening keeps an
    index beside each, as TFRecordReader does. `description`:

    - None, a list of names, or a mapping of names to "byte", "int" or "float", which is
      checked: the features are int64 or float32 arrays with one dimension. A feature of
      bytes with one value is `bytes`, as in the PyPI package `tfrecord`; any other a list
      of `bytes` (there an array of NumPy's "S", which loses trailing zeros). With None,
      what an item has is up to its record.
    - a mapping of names to FixedLenFeature, VarLenFeature or FixedLenSequenceFeature: what
      parse_single_example() returns; but one value of bytes (shape ()) is `bytes`. The
      quicker way, and the one with shapes and defaults.

    torch's default_collate stacks arrays of equal shape and makes lists of `bytes`; it
    takes no arrays of bytes.

    Errors, also in a worker: ChecksumError; FormatError for a record that is no Example, or
    that lacks a feature or has it in another kind; IndexError.
    """

    def __init__(
        self,
        path: PathType | Sequence[PathType],
        description: Description | None = None,
        transform: Callable[[Item], Any] | None = None,
    ) -> None:
        self._reader = TFRecordReader(path)
        self._parse = _parser(description)
        self.transform = transform

    def __len__(self) -> int:
        return self._reader.n

    def __getitem__(self, index: SupportsIndex) -> Any:  # noqa: ANN401 - what transform returns
        """Return item `index`; a negative one counts from the end."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Iterable[SupportsIndex]) -> list[Any]:
        """Return several items, their records read in one batch: what DataLoader calls."""
        numbers = [self._number(index) for index in indices]
        return list(map(self._item, numbers, self._reader.read(numbers)))

    def close(self) -> None:
        """Close the files. Reading afterwards raises ValueError."""
        self._reader.close()

    def _number(self, index: SupportsIndex) -> int:
        number = operator.index(index)
        count = len(self)
        if not -count <= number < count:
            raise IndexError(f"record {number} does not exist: there are {count}")
        return number % count

    def _item(self, number: int, record: bytes) -> Any:  # noqa: ANN401 - what transform returns
        try:
            item = self._parse(record)
        except FormatError as error:
            path, own = self._place(number)
            raise FormatError.at(path, f"record {own}: {error}", own) from None
        return item if self.transform is None else self.transform(item)

    def _place(self, number: int) -> tuple[str, int]:
        """The file of a record, and its number there."""
        for path, count in zip(self._reader.paths, self._reader.counts, strict=True):
            if number < count:
                return path, number
            number -= count
        raise AssertionError("a record of no file")


def _parser(description: Description | None) -> Callable[[bytes], Item]:
    """What makes an item of a record; it can be pickled."""
    if isinstance(description, str | bytes):
        raise TypeError(f"a description is a list or a mapping of names, not {description!r}")
    if not isinstance(description, Mapping):
        return partial(_named_values, kinds=dict.fromkeys(description or ()))
    features = {name: of for name, of in description.items() if isinstance(of, AnyFeature)}
    if features and len(features) == len(description):
        return partial(_parsed_values, features=features)
    kinds = {name: of for name, of in description.items() if isinstance(of, str) and of in _KINDS}
    for name in description.keys() - kinds.keys():
        raise ValueError(
            f'feature "{name}": {description[name]!r} describes nothing here; describe all '
            'features by "byte", "int" or "float", or all by FixedLenFeature and its like'
        )
    return partial(_named_values, kinds=kinds)


def _parsed_values(record: bytes, features: FeatureMap) -> Item:
    item: Item = dict(parse_single_example(record, features))
    for name, value in item.items():
        if isinstance(value, np.ndarray) and value.dtype == object and value.shape == ():
            item[name] = value.item()
    return item


def _named_values(record: bytes, kinds: Mapping[str, str | None]) -> Item:
    """The features that `kinds` names, in its order; if it names none, all, in theirs."""
    try:
        example = Example.FromString(record)
    except DecodeError:
        raise FormatError("is not an Example") from None
    features = example.features.feature
    if kinds:
        for name in set(features) - kinds.keys():
            del features[name]
    # One without a list is as good as none, as it is for TensorFlow.
    values = {name: value for name, value in to_dict(example).items() if value is not None}
    for name, kind in kinds.items():
        if name not in values:
            raise FormatError(f'feature "{name}" is missing')
        found = _kind(values[name])
        if kind not in (None, found):
            raise FormatError(f'feature "{name}" is of kind "{found}", not "{kind}"')
    return {name: _unwrapped(values[name]) for name in kinds or sorted(values)}


def _kind(value: FeatureValue) -> str:
    if isinstance(value, np.ndarray):
        return "int" if value.dtype == np.int64 else "float"
    return "byte"


def _unwrapped(value: FeatureValue) -> FeatureValue | bytes:
    return value[0] if isinstance(value, list) and len(value) == 1 else value
