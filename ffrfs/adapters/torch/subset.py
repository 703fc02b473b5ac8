"""Subset: some samples of a Dataset, in any order."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

from ffrfs.adapters.torch.record_dataset import Dataset


class Subset(Dataset):
    """Sample i is sample `indices[i]` of `dataset`; a batch is one batch of `dataset`."""

    def __init__(self, dataset: Dataset, indices: Sequence[SupportsIndex]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, indices: Sequence[SupportsIndex]) -> list[Any]:
        return self.dataset[[self.indices[operator.index(index)] for index in indices]]
