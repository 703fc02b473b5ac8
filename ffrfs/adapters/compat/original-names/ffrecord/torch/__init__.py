"""`ffrecord.torch`: data sets and the DataLoader, from ffrfs.torch."""

from __future__ import annotations

from ffrecord.torch.dataloader import DataLoader
from ffrecord.torch.dataset import ConcatDataset, Dataset, ReaderRegistry, Subset

__all__ = ["ConcatDataset", "DataLoader", "Dataset", "ReaderRegistry", "Subset"]
