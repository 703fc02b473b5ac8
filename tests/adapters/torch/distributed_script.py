"""A training script of several ranks that knows nothing of ffrfs; torchrun starts it.

Each rank prints a line: the SHA-256 of its batches and random numbers, and that of their paths,
which a mount also computes from its hints. In the middle it waits for the file GO.

python distributed_script.py FOLDER WORKERS GO [RANK MEETING]

torchrun gives the rank in the environment; else RANK does, and the ranks meet by a file.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, DistributedSampler

RANKS, BATCH = 2, 4
TIMEOUT_S = 60


class Shown(Dataset[Any]):
    def __init__(self, folder: str) -> None:
        names = sorted(os.listdir(folder))
        self.imgs = [(os.path.join(folder, name), 0) for name in names]

    def __len__(self) -> int:
        return len(self.imgs)

    def __getitem__(self, index: int) -> Any:
        with open(self.imgs[index][0], "rb") as file:
            return index, len(file.read()), torch.rand(())


def wait_for(go: str) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not os.path.exists(go):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def main(folder: str, workers: str, go: str, number: str = "-1", meeting: str = "") -> None:
    if meeting:
        dist.init_process_group("gloo", f"file://{meeting}", rank=int(number), world_size=RANKS)
    else:
        dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    dataset = Shown(folder)
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, seed=5)
    sampler.set_epoch(3)
    given, order = hashlib.sha256(), hashlib.sha256()
    loader = DataLoader(dataset, BATCH, sampler=sampler, num_workers=int(workers))
    for step, batch in enumerate(loader):
        if step == 1:
            wait_for(go)
        given.update(repr([part.tolist() for part in batch]).encode())
        for index in batch[0].tolist():
            order.update(f"/{os.path.basename(dataset.imgs[index][0])}\0".encode())
        gradient = torch.rand(())
        dist.all_reduce(gradient)
        given.update(repr(float(gradient)).encode())
    line = f"rank {rank} {given.hexdigest()} {order.hexdigest()}\n"
    os.write(sys.stdout.fileno(), line.encode())  # one write: lines of the ranks must not mix
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
