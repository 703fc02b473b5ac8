"""A training script that knows nothing of ffrfs. It prints hashes of its batches and ends with 3.

In the last epoch it waits for a line.

python unmodified_script.py FOLDER hidden|shown WORKERS [METHOD]
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

EPOCHS = 3


class Hidden(Dataset[Any]):
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._names = sorted(os.listdir(folder))

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, index: int) -> Any:
        with open(os.path.join(self._folder, self._names[index]), "rb") as file:
            return index, len(file.read()), torch.rand(()), random.random()


class Shown(Hidden):
    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.imgs = [(os.path.join(folder, name), 0) for name in self._names]


def main(folder: str, kind: str, workers: str, method: str = "fork") -> None:
    torch.manual_seed(3)
    random.seed(3)
    how: dict[str, Any] = {"num_workers": int(workers)}
    if how["num_workers"]:
        how |= {"persistent_workers": True, "multiprocessing_context": method, "timeout": 60}
    dataset = Shown(folder) if kind == "shown" else Hidden(folder)
    loader = DataLoader(dataset, batch_size=8, shuffle=True, **how)
    for epoch in range(EPOCHS):
        digest = hashlib.sha256()
        for step, batch in enumerate(loader):
            if (epoch, step) == (EPOCHS - 1, 2):
                print("waits", flush=True)
                sys.stdin.readline()
            digest.update(repr([part.tolist() for part in batch]).encode())
            digest.update(repr(float(torch.rand(()))).encode())
        print(digest.hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.exit(3)
