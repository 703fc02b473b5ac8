"""Data sets for PyTorch's DataLoader, and a loader that resumes. Only this room imports torch.

The names of HFAiLab/ffrecord's `torch` are kept: Dataset, Subset, ConcatDataset,
ReaderRegistry, DataLoader.
"""

from __future__ import annotations

from ffrfs.torch.concat_dataset import ConcatDataset
from ffrfs.torch.dataset import TFRecordDataset
from ffrfs.torch.loader import DataLoader
from ffrfs.torch.multi_dataset import MultiTFRecordDataset
from ffrfs.torch.packed_folder_dataset import PackedFolderDataset
from ffrfs.torch.prefetch_sampler import PrefetchSampler
from ffrfs.torch.reader_registry import ReaderRegistry
from ffrfs.torch.record_dataset import Dataset
from ffrfs.torch.record_stream import RecordStream
from ffrfs.torch.subset import Subset

__all__ = [
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "MultiTFRecordDataset",
    "PackedFolderDataset",
    "PrefetchSampler",
    "ReaderRegistry",
    "RecordStream",
    "Subset",
    "TFRecordDataset",
]
