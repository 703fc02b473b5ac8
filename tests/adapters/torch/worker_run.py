"""Reads as a training loop does: two epochs, the first one resumed.

    python worker_run.py fork|spawn|forkserver WORKERS RECORDS.ffr FOLDER.ffr STEP

Prints the numbers that each epoch gave, a line for each epoch, after it compared all bytes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import get_worker_info

from ffrfs.torch import DataLoader, Dataset, PackedFolderDataset
from tests.adapters.torch.batches import same

BATCH_SIZE = 4
SEED = 5
TIMEOUT_S = 60


class Records(Dataset):
    def process(self, indices: Sequence[Any], data: list[Any]) -> list[bytes]:
        return [record.tobytes() for record in data]


class Both(TorchDataset[Any]):
    """Item i has record i, file i, and the worker and process that read them."""

    def __init__(self, records: str, folder: str) -> None:
        self.records = Records(records)
        self.files = PackedFolderDataset(folder)

    def __len__(self) -> int:
        return len(self.records)

    def __getitems__(self, indices: list[int]) -> list[Any]:
        worker = get_worker_info()
        pairs = zip(indices, self.records[indices], self.files.__getitems__(indices), strict=True)
        return [(*each, worker and worker.id, os.getpid()) for each in pairs]


def main(method: str, count: str, records: str, folder: str, step: str) -> None:
    dataset = Both(records, folder)
    # The parent reads first, so that threads and queues exist when it forks.
    here = dataset.__getitems__([*range(len(dataset))])
    loader = DataLoader(
        *(dataset, BATCH_SIZE, True),
        **{"num_workers": int(count), "multiprocessing_context": method, "collate_fn": same},
        **{"persistent_workers": True, "generator": torch.Generator().manual_seed(SEED)},
        timeout=TIMEOUT_S,
    )
    loader.resume_at(int(step))
    for _ in range(2):
        numbers = []
        workers = set()
        for batch in loader:
            for number, record, file, worker, pid in batch:
                assert (number, record, file) == here[number][:3]
                assert pid != os.getpid()
                workers.add(worker)
                numbers.append(number)
        assert workers == set(range(int(count)))
        print(*numbers)
    assert dataset.__getitems__([3]) == here[3:4]


if __name__ == "__main__":
    main(*sys.argv[1:])
