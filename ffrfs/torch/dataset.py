"""TFRecordDataset: the Examples of TFRecord files by number, for torch's DataLoader.

Not here: reading and verifying (ffrfs.tfrecord.reader), what an item holds
(tfrecord_item.py). Concurrency: as the reader's, so a DataLoader's workers may be forked or
spawned; a spawned one opens the files itself.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex, TypeAlias

from torch.utils.data import Dataset

from ffrfs.errors import FormatError
from ffrfs.tfrecord.reader import TFRecordReader
from ffrfs.torch.tfrecord_item import Description, item_parser

PathType: TypeAlias = str | os.PathLike[str]


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

    `sequence_description`, the same for feature lists, makes an item (context, feature lists)
    of a SequenceExample; there a feature list is a list of the values of its steps. None: an
    Example; a SequenceExample with feature lists is an error then, unless `description` names
    the features.

    torch's default_collate stacks arrays of equal shape and makes lists of `bytes`; it
    takes no arrays of bytes.

    Errors, also in a worker: ChecksumError; FormatError for a record that is no Example, or
    that lacks a feature or has it in another kind; IndexError.
    """

    def __init__(
        self,
        path: PathType | Sequence[PathType],
        description: Description | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        sequence_description: Description | None = None,
    ) -> None:
        self._parse = item_parser(description, sequence_description)
        self._reader = TFRecordReader(path)
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
