"""Data sets for PyTorch's DataLoader, and a loader that resumes. Only this room imports torch.

The names of HFAiLab/ffrecord's `torch` are kept: Dataset, Subset, ConcatDataset,
ReaderRegistry, DataLoader.
"""

from __future__ import annotations

from ffrfs.errors import MissingPackageError

with MissingPackageError.instead("torch", "ffrfs.torch needs PyTorch", "torch"):
    import torch  # noqa: F401

from ffrfs.adapters.torch.dataset import TFRecordDataset
from ffrfs.adapters.torch.hinted_loader import hint
from ffrfs.adapters.torch.loader import DataLoader
from ffrfs.adapters.torch.multi_dataset import MultiTFRecordDataset
from ffrfs.adapters.torch.packed_folder_dataset import PackedFolderDataset
from ffrfs.adapters.torch.prefetch_sampler import PrefetchSampler
from ffrfs.adapters.torch.reader_registry import ReaderRegistry
from ffrfs.adapters.torch.record_dataset import ConcatDataset, Dataset
from ffrfs.adapters.torch.record_stream import RecordStream
from ffrfs.adapters.torch.subset import Subset

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
    "hint",
]
