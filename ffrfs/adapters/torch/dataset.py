"""TFRecordDataset: the Examples of TFRecord files by number, for torch's DataLoader.

Not here: reading and verifying (ffrfs.tfrecord.reader), the contents of an item
(tfrecord_item.py), streams (tfrecord_stream.py). Concurrency: that of the reader, so a
DataLoader's workers may be forked or spawned; a spawned one opens the files itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias, Unpack, overload

from torch.utils.data import Dataset

from ffrfs.adapters.bad_samples import BadSamples, OnError
from ffrfs.adapters.torch.record_stream import RecordStream
from ffrfs.adapters.torch.tfrecord_item import Description, item_parser
from ffrfs.adapters.torch.tfrecord_stream import item_dataset
from ffrfs.errors import FormatError
from ffrfs.files.record_reader import number_of
from ffrfs.remote.named_store import StoreKeywords, in_store
from ffrfs.tfrecord.reader import TFRecordReader
from ffrfs.tfrecord.sidecar import check_index

PathType: TypeAlias = str | os.PathLike[str]


class _Arguments(NamedTuple):
    path: PathType | Sequence[PathType]
    index_path: PathType | None
    description: Description | None
    shuffle_queue_size: int | None
    transform: Callable[[Any], Any] | None
    sequence_description: Description | None
    compression_type: str | None

    @property
    def is_stream(self) -> bool:
        return bool(self.shuffle_queue_size or self.compression_type)


def _arguments(  # noqa: PLR0913, PLR0917 - the arguments of the package
    data_path: PathType | Sequence[PathType],
    index_path: PathType | Description | None = None,
    description: Description | Callable[[Any], Any] | None = None,
    shuffle_queue_size: int | None = None,
    transform: Callable[[Any], Any] | None = None,
    sequence_description: Description | None = None,
    compression_type: str | None = None,
    **store: Unpack[StoreKeywords],
) -> _Arguments:
    """Distinguish the package's order of arguments from the short one by their types."""
    if callable(description):
        description, transform = None, description
    if index_path is not None and not isinstance(index_path, str | os.PathLike):
        if description is not None:
            raise TypeError("a data set has one description: the second argument is one, too")
        index_path, description = None, index_path
    return _Arguments(
        in_store(data_path, store),
        index_path,
        description,
        shuffle_queue_size,
        transform,
        sequence_description,
        compression_type,
    )


class TFRecordDataset(Dataset[Any]):
    """One item per record: a dictionary of its features, passed through `transform`.

    The arguments are those of the PyPI package `tfrecord`, or short: TFRecordDataset(data_path,
    description, transform). `shuffle_queue_size` and `compression_type` ("gzip", "zlib") select
    a stream: then the object is a RecordStream, an IterableDataset, of the same items. `store`:
    as for PackedFolder.

    `data_path`: a file, a list of files, or a directory of shards; uncompressed. Opening keeps
    an index of each, as TFRecordReader does. `index_path`: an index of tfrecord2idx; it is
    checked, but not needed. `description`:

    - None, a list of names, or a mapping of names to "bytes", "int64" or "float" (the PyPI
      package's "byte" and "int" are the same), which is checked: the features are int64 or
      float32 arrays with one dimension. A feature of bytes with one value is `bytes`, as in
      the PyPI package; any other a list
      of `bytes` (there an array of NumPy's "S", which loses trailing zeros). With None,
      each record determines the features of its item.
    - a mapping of names to FixedLenFeature, VarLenFeature or FixedLenSequenceFeature: the result
      of parse_single_example(), except that one value of bytes (shape ()) is `bytes`. This is
      faster, and has shapes and defaults.

    `sequence_description`, the same for feature lists, makes an item (context, feature lists)
    of a SequenceExample; there a feature list is a list of the values of its steps. None: the
    records are Examples; a SequenceExample with feature lists is an error then, unless
    `description` names the features.

    `on_error`: as for PackedFolderDataset, for damaged records and those that FormatError tells
    of; a function gets the error and the record's number, in a stream the number in its file. A
    stream ends with an error all the same where a record's length or compressed data are damaged.

    torch's default_collate stacks arrays of equal shape and makes lists of `bytes`; it
    takes no arrays of bytes.

    Errors, also in a worker: ChecksumError; FormatError for a record that is no Example, or
    that lacks a feature or has it in another kind; IndexError.
    """

    @overload
    def __init__(
        self,
        data_path: PathType | Sequence[PathType],
        index_path: PathType | None = None,
        description: Description | None = None,
        shuffle_queue_size: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        sequence_description: Description | None = None,
        compression_type: str | None = None,
        *,
        on_error: OnError = "raise",
        **store: Unpack[StoreKeywords],
    ) -> None: ...
    @overload
    def __init__(
        self,
        data_path: PathType | Sequence[PathType],
        description: Description | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        sequence_description: Description | None = None,
        on_error: OnError = "raise",
        **store: Unpack[StoreKeywords],
    ) -> None: ...
    def __init__(self, *args: Any, on_error: OnError = "raise", **kwargs: Any) -> None:
        self.bad_samples = BadSamples(on_error)
        arguments = _arguments(*args, **kwargs)
        if arguments.is_stream:
            raise TypeError(
                f"{type(self).__name__} has items by number; shuffle_queue_size and "
                "compression_type make a stream: derive from RecordStream"
            )
        self._parse = item_parser(arguments.description, arguments.sequence_description)
        if arguments.index_path is not None:
            if not isinstance(arguments.path, str | os.PathLike):
                raise ValueError("an index_path is for one file, not for a list of files")
            check_index(arguments.index_path, arguments.path)
        self._reader = TFRecordReader(arguments.path)
        self.transform = arguments.transform

    def __new__(cls, *args: Any, on_error: OnError = "raise", **kwargs: Any) -> Any:  # noqa: ANN401 - of two classes
        """Return a RecordStream for shuffle_queue_size or compression_type, else an instance."""
        if cls is TFRecordDataset and (args or kwargs):  # unpickling passes none
            arguments = _arguments(*args, **kwargs)
            if arguments.is_stream:
                bad = BadSamples(on_error)
                stream = RecordStream(item_dataset(*arguments, bad))
                stream.bad_samples = bad
                return stream
        return super().__new__(cls)

    def __len__(self) -> int:
        return self._reader.n

    def __getitem__(self, index: SupportsIndex) -> Any:  # noqa: ANN401 - the result of transform
        """Return item `index`; a negative one counts from the end."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Iterable[SupportsIndex]) -> list[Any]:
        """Return several items, whose records are read in one batch; DataLoader calls it."""
        count = len(self)
        numbers = [number_of(index, count) for index in indices]
        return self.bad_samples.items(numbers, range(count), self._read, self._transformed)

    def _read(self, numbers: Sequence[int]) -> list[Any]:
        return list(map(self._parsed, numbers, self._reader.read(numbers)))

    def _transformed(self, _: int, item: Any) -> Any:  # noqa: ANN401 - the result of transform
        return item if self.transform is None else self.transform(item)

    def close(self) -> None:
        """Close the files. Reading afterwards raises ValueError."""
        self._reader.close()

    def _parsed(self, number: int, record: bytes) -> Any:  # noqa: ANN401 - as described
        try:
            return self._parse(record)
        except FormatError as error:
            path, own = self._place(number)
            raise FormatError.at(path, f"record {own}: {error}", own) from None

    def _place(self, number: int) -> tuple[str, int]:
        """Return the file of a record, and its number there."""
        for path, count in zip(self._reader.paths, self._reader.counts, strict=True):
            if number < count:
                return path, number
            number -= count
        raise AssertionError("a record of no file")
