"""Reads a mount as a training loop does; this program itself mounts the pack.

    python mount_run.py loaders PACK.ffr ENGINE fork|forkserver
    python mount_run.py forks PACK.ffr ENGINE
    python mount_run.py steps PACK.ffr ENGINE

The pack's files are files(). The workers compare all bytes, and the mount counts the hints.
Prints nothing, and ends with status 0, if all is right.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import BatchSampler, RandomSampler, get_worker_info
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import Dataset as TorchDataset

import ffrfs
from ffrfs.mount.client import control_client
from ffrfs.torch import DataLoader, PrefetchSampler
from tests.adapters.torch.batches import flat, same

COUNT = 120
BATCH_SIZE = 8
STEPS = COUNT // BATCH_SIZE
STEP = 6
WORKERS = 2
FORKS = 5
TIMEOUT_S = 60.0


def files() -> dict[str, bytes]:
    """Return the files by name, a number: one is empty, many are over a page, one has 5 MiB."""
    sizes = [number * 523 for number in range(COUNT)]
    sizes[9] = 5 << 20
    return {f"{i:03}": random.Random(i).randbytes(size) for i, size in enumerate(sizes)}


class Files(TorchDataset[Any]):
    """Item i is (i, whether the file was right, the worker, its process). Opens plain paths."""

    def __init__(self, root: Path) -> None:
        expected = files()
        # After this listing the kernel knows all files.
        self.paths = sorted(str(path) for path in root.iterdir())
        assert [os.path.basename(path) for path in self.paths] == list(expected)
        self.expected = list(expected.values())

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[int, bool, int, int]:
        worker = get_worker_info()
        return index, self.is_right(index), worker.id if worker else -1, os.getpid()

    def is_right(self, index: int) -> bool:
        return Path(self.paths[index]).read_bytes() == self.expected[index]


def check_epoch(batches: Iterable[list[Any]], processes: int) -> list[int]:
    """Return the numbers of the items, after a check that their files were right."""
    items = flat(batches)
    assert all(is_right for _, is_right, _, _ in items)
    assert len({(worker, pid) for _, _, worker, pid in items}) == processes
    return [number for number, _, _, _ in items]


def hinted(dataset: Files, **options: Any) -> dict[str, Any]:
    """Return a DataLoader's arguments for its order, with hints at all that is ahead."""
    order: Any = RandomSampler(dataset, generator=torch.Generator().manual_seed(5))
    if options.pop("by_batches", False):
        batches = BatchSampler(order, BATCH_SIZE, drop_last=False)
        return {"batch_sampler": PrefetchSampler(batches, dataset.paths, ahead=COUNT)}
    return {
        "sampler": PrefetchSampler(order, dataset.paths, ahead=COUNT),
        "batch_size": BATCH_SIZE,
    }


def prefetched(root: Path) -> dict[str, int]:
    answer: Any = control_client.ask(str(root), "stats")
    found: dict[str, int] = answer["prefetch"]
    return found


def wait_for_hints(root: Path, count: int) -> None:
    """Hints arrive late, through a thread and a socket; exactly `count` must arrive."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while prefetched(root)["hinted"] < count:
        assert time.monotonic() < deadline_s, f"{prefetched(root)}, not {count} hinted"
        time.sleep(0.05)
    time.sleep(0.1)
    assert prefetched(root)["hinted"] == count


def loaders(root: Path, method: str) -> None:
    """torch's own loader runs two epochs with persistent workers; then ours, from mid-epoch."""
    dataset = Files(root)
    multiprocessing.set_forkserver_preload(["torch.utils.data"])
    how: dict[str, Any] = {
        **{"num_workers": WORKERS, "multiprocessing_context": method},
        **{"collate_fn": same, "timeout": TIMEOUT_S},
    }
    theirs = TorchDataLoader(
        dataset, **how, **hinted(dataset, by_batches=True), persistent_workers=True
    )
    first = check_epoch(theirs, WORKERS)
    wait_for_hints(root, COUNT)
    second = check_epoch(theirs, WORKERS)
    wait_for_hints(root, 2 * COUNT)
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert first != second
    del theirs
    ours: DataLoader[Any] = DataLoader(dataset, **how, **hinted(dataset))
    ours.set_step(STEP)
    assert check_epoch(ours, WORKERS) == first[STEP * BATCH_SIZE :]
    wait_for_hints(root, 3 * COUNT - STEP * BATCH_SIZE)
    assert prefetched(root)["fetched"] > 0


def steps(root: Path) -> None:
    """Skipped items are neither hinted at nor read; the items after them are."""
    dataset = Files(root)
    count = 0
    for by_batches in (False, True):
        order = hinted(dataset, by_batches=by_batches)
        loader: DataLoader[Any] = DataLoader(dataset, collate_fn=same, **order)
        for step in (STEP, 0, STEPS, 1, STEPS - 1):
            loader.set_step(step)
            assert len(check_epoch(loader, processes=int(step < STEPS))) == (
                COUNT - step * BATCH_SIZE
            )
            count += COUNT - step * BATCH_SIZE
            wait_for_hints(root, count)


def forks(root: Path) -> None:
    """It forks in mid-epoch, while another thread reads and hints are on their way."""
    dataset = Files(root)
    loader = TorchDataLoader(
        dataset,
        **{"num_workers": WORKERS, "multiprocessing_context": "fork"},
        **{"collate_fn": same, "timeout": TIMEOUT_S},
        **hinted(dataset, by_batches=True),
    )
    children = []

    def forking() -> Iterator[list[Any]]:
        for step, batch in enumerate(loader):
            if step % 2 and len(children) < FORKS:
                children.append(fork_reader(root, dataset))
            yield batch

    has_ended = threading.Event()
    reader = threading.Thread(target=read_until, args=(dataset, has_ended))
    reader.start()
    try:
        assert sorted(check_epoch(forking(), WORKERS)) == list(range(COUNT))
        for pid in children:
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        has_ended.set()
        reader.join()
    assert len(children) == FORKS
    wait_for_hints(root, COUNT + FORKS)


def read_until(dataset: Files, has_ended: threading.Event) -> None:
    for index in itertools.cycle(range(COUNT)):
        if has_ended.is_set():
            return
        Path(dataset.paths[index]).read_bytes()


def fork_reader(root: Path, dataset: Files) -> int:
    """Fork a child that reads all files and gives one hint; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        with ffrfs.prefetch(dataset.paths[:1]) as hints:
            assert hints.wait(TIMEOUT_S)
            assert all(map(dataset.is_right, range(COUNT)))
        status = 0
    finally:
        os._exit(status)


def main(part: str, pack: str, engine: str, *more: str) -> None:
    parts = {"loaders": loaders, "steps": steps, "forks": forks}
    with ffrfs.mounted(pack, engine=engine) as root:
        parts[part](root, *more)


if __name__ == "__main__":
    main(*sys.argv[1:])
