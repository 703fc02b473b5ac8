"""ConcatDataset: several Datasets, one after the other."""

from __future__ import annotations

import bisect
import itertools
import operator
from collections.abc import Iterable, Sequence, Sized
from typing import Any, SupportsIndex

from ffrfs.adapters.torch.record_dataset import Dataset


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
            which, number = self._place(operator.index(index))
            places.setdefault(which, []).append((position, number))
        samples: list[Any] = [None] * len(indices)
        for which, wanted in sorted(places.items()):
            found = self.datasets[which][[number for _, number in wanted]]
            for (position, _), sample in zip(wanted, found, strict=True):
                samples[position] = sample
        return samples

    def _place(self, index: int) -> tuple[int, int]:
        """Return (number of the data set, number in it)."""
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"sample {index} does not exist: there are {count}")
        index %= count
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return which, index - (self.cumulative_sizes[which - 1] if which else 0)
