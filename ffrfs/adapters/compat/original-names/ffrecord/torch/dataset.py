"""`ffrecord.torch.dataset`: the data sets of ffrfs.torch."""

from __future__ import annotations

from ffrfs.adapters.torch.reader_registry import ReaderRegistry
from ffrfs.adapters.torch.record_dataset import ConcatDataset, Dataset
from ffrfs.adapters.torch.subset import Subset
from ffrfs.record.reader import FileReader

__all__ = ["ConcatDataset", "Dataset", "FileReader", "ReaderRegistry", "Subset"]
