"""Dataset: the records of FFRecord files, read in batches; process() makes samples of them.

ConcatDataset: several of these, one after the other.

Not here: reading and verifying (ffrfs.record.reader). Concurrency: that of the reader, so a
DataLoader's workers may be forked or spawned; a spawned one opens the files itself.
"""

from __future__ import annotations

import bisect
import itertools
import operator
from collections.abc import Iterable, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, Unpack

from torch.utils.data import Dataset as TorchDataset

from ffrfs.adapters.bad_samples import BadSamples, OnError
from ffrfs.adapters.torch.reader_registry import ReaderRegistry
from ffrfs.files.record_reader import number_of
from ffrfs.record.reader import FileReader, PathType
from ffrfs.remote.named_store import StoreKeywords

if TYPE_CHECKING:
    from ffrfs._native import RecordBytes


class _Record(NamedTuple):
    number: int
    data: RecordBytes


class _Rest(list[Any]):
    """The samples that remain after some were left out; `places`: theirs among the requested."""

    def __init__(self, samples: Iterable[Any], places: Sequence[int]) -> None:
        super().__init__(samples)
        self.places = places


class Dataset(TorchDataset[Any], ReaderRegistry):
    """A data set that takes a list of numbers and returns a list of samples.

    Derive from it and define process(); or, without calling its __init__, define
    __getitem__ (for a list) and __len__. torch's own DataLoader and Subset can use it too:
    they request whole batches, by __getitems__.

    `fnames`: a file, a list of files, or a directory, as for FileReader, which is `reader`.
    `on_error`: as for PackedFolderDataset; a function gets the error and the record's number.
    """

    def __init__(
        self,
        fnames: PathType | Sequence[PathType],
        check_data: bool = True,
        *,
        on_error: OnError = "raise",
        **store: Unpack[StoreKeywords],
    ) -> None:
        self.bad_samples = BadSamples(on_error)
        self.fnames = fnames
        self.reader = FileReader(fnames, check_data, **store)

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
        if self.bad_samples.on_error == "raise":
            return self.process(indices, self.reader.read(indices))
        numbers = list(map(operator.index, indices))
        found = self.bad_samples.items(numbers, range(len(self)), self.reader.read, _Record)
        places = [place for place, value in enumerate(found) if isinstance(value, _Record)]
        if places:
            records = [found[place] for place in places]
            made = self.process([each.number for each in records], [each.data for each in records])
            for place, sample in zip(places, made, strict=True):
                found[place] = sample
            if len(found) < len(numbers):
                good = {each.number for each in records}
                kept = [place for place, number in enumerate(numbers) if number in good]
                return _Rest(found, kept or [0])
        return found

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Return the samples of a batch; torch's DataLoader calls it."""
        return self[indices]

    def __add__(self, other: TorchDataset[Any]) -> ConcatDataset:  # type: ignore[override]
        """Return both as one ConcatDataset, which takes a list of numbers too.

        Raises TypeError if `other` is no Dataset of this package.
        """
        return ConcatDataset([self, other])  # type: ignore[list-item] # checked there

    def process(self, indices: Sequence[SupportsIndex], data: list[RecordBytes]) -> list[Any]:
        """Return a list of samples, one for each record, as collate_fn takes them.

        A derived class defines it. `data`: a 1-D uint8 array for each of `indices`, in that
        order; each owns its memory.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no process(indices, data)")


class ConcatDataset(Dataset):
    """Shows `datasets` as one; `cumulative_sizes` has the end of each of them.

    Raises ValueError if there is none, TypeError if one is no Dataset of this package: its
    __getitem__ would not take a list.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("there is no data set to concatenate")
        for dataset in self.datasets:
            if not isinstance(dataset, Dataset):
                raise TypeError(f"{dataset!r} is not an ffrfs.torch.Dataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Sized]) -> list[int]:
        """Return the end of each of them in all together."""
        return list(itertools.accumulate(map(len, sequence)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, indices: Sequence[SupportsIndex]) -> list[Any]:
        """Return the samples in the order of `indices`; each data set is read in one batch.

        Duplicates are allowed; a negative number counts from the end. Raises IndexError.
        """
        places: dict[int, list[tuple[int, int]]] = {}  # data set → (position, number) pairs
        for position, index in enumerate(indices):
            which, number = self._place(index)
            places.setdefault(which, []).append((position, number))
        samples: dict[int, Any] = {}  # by position
        for which, wanted in sorted(places.items()):
            found = self.datasets[which][[number for _, number in wanted]]
            kept = getattr(found, "places", range(len(wanted)))
            for place, sample in zip(kept, found, strict=False):
                samples[wanted[place][0]] = sample
        order = sorted(samples)
        rest = [samples[position] for position in order]
        return rest if len(rest) == len(indices) else _Rest(rest, order)

    def _place(self, index: SupportsIndex) -> tuple[int, int]:
        """Return (number of the data set, number in it)."""
        number = number_of(index, len(self), "sample")
        which = bisect.bisect_right(self.cumulative_sizes, number)
        return which, number - (self.cumulative_sizes[which - 1] if which else 0)
