"""`ffrecord.torch.dataset`: the data sets of ffrfs.torch."""

from __future__ import annotations

from ffrfs.record.reader import FileReader
from ffrfs.torch.concat_dataset import ConcatDataset
from ffrfs.torch.reader_registry import ReaderRegistry
from ffrfs.torch.record_dataset import Dataset
from ffrfs.torch.subset import Subset

__all__ = ["ConcatDataset", "Dataset", "FileReader", "ReaderRegistry", "Subset"]
