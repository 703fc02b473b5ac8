"""Dataset: the records of FFRecord files, read in batches; process() makes samples of them.

Not here: reading and verifying (ffrfs.record.reader). Concurrency: that of the reader, so a
DataLoader's workers may be forked or spawned; a spawned one opens the files itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from torch.utils.data import Dataset as TorchDataset

from ffrfs.adapters.torch.reader_registry import ReaderRegistry
from ffrfs.record.reader import FileReader, PathType

if TYPE_CHECKING:
    from ffrfs._native import RecordBytes
    from ffrfs.adapters.torch.concat_dataset import ConcatDataset


class Dataset(TorchDataset[Any], ReaderRegistry):
    """A data set that takes a list of numbers and returns a list of samples.

    Derive from it and define process(); or, without calling its __init__, define
    __getitem__ (for a list) and __len__. torch's own DataLoader and Subset can use it too:
    they request whole batches, by __getitems__.

    `fnames`: a file, a list of files, or a directory, as for FileReader, which is `reader`.
    """

    def __init__(self, fnames: PathType | Sequence[PathType], check_data: bool = True) -> None:
        self.fnames = fnames
        self.reader = FileReader(fnames, check_data)

    def __len__(self) -> int:
        return self.reader.n

    def __getitem__(self, indices: Sequence[SupportsIndex]) -> list[Any]:
        """Return the samples of process() for these records, which are read in one batch.

        Raises TypeError if `indices` is no list or tuple; the errors of FileReader.read.
        """
        if not isinstance(indices, list | tuple):
            raise TypeError(
                f"a data set of records takes a list of numbers, not {type(indices).__name__}; "
                "for one sample there is dataset[[number]][0]"
            )
        return self.process(indices, self.reader.read(indices))

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Return the samples of a batch; torch's DataLoader calls it."""
        return self[indices]

    def __add__(self, other: TorchDataset[Any]) -> ConcatDataset:  # type: ignore[override]
        """Return both as one ConcatDataset, which takes a list of numbers too.

        Raises TypeError if `other` is no Dataset of this package.
        """
        # Which derives from this class.
        from ffrfs.adapters.torch.concat_dataset import ConcatDataset

        return ConcatDataset([self, other])  # type: ignore[list-item] # checked there

    def process(self, indices: Sequence[SupportsIndex], data: list[RecordBytes]) -> list[Any]:
        """Return a list of samples, one for each record, as collate_fn takes them.

        A derived class defines it. `data`: a 1-D uint8 array for each of `indices`, in that
        order; each owns its memory.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no process(indices, data)")
