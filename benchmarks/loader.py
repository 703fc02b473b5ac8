"""The program that reads a mount's files through torch's DataLoader.

    python -m benchmarks.loader ROOT LISTING BATCH_SIZE WORKERS [hints]

LISTING is as for reader.py; its order is the order of reading. The data set is the usual one: it
opens a path, reads it, closes it. Instead of decoding, it computes the CRC-32, so that all
bytes are checked and little has to go through the workers' pipes. `hints` puts a PrefetchSampler
around the sampler, and changes nothing else. Prints JSON: seconds from the request for the first
batch to the arrival of the last, with the start of the workers; the number of wrong files.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

from torch.utils.data import BatchSampler, DataLoader, Dataset

BUFFER_BYTES = 1 << 20


class Files(Dataset[int]):
    """A data set of each file's CRC-32."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths
        self._buffer = bytearray(BUFFER_BYTES)  # each worker has its own copy

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> int:
        fd = os.open(self._paths[index], os.O_RDONLY)
        count = os.readv(fd, [self._buffer])
        os.close(fd)
        return zlib.crc32(memoryview(self._buffer)[:count])


def main(root: str, listing: str, batch_size: str, workers: str, mode: str = "") -> None:
    names, checksums = json.loads(Path(listing).read_text()).values()
    paths = [f"{root}/{name}" for name in names]
    batches: Iterable[list[int]] = BatchSampler(range(len(paths)), int(batch_size), drop_last=False)
    if mode == "hints":
        from ffrfs.torch import PrefetchSampler

        batches = PrefetchSampler(batches, paths, mountpoint=root)
    loader = DataLoader(Files(paths), batch_sampler=batches, num_workers=int(workers))
    start = time.perf_counter()
    found = [checksum for batch in loader for checksum in batch.tolist()]
    seconds = time.perf_counter() - start
    wrong = sum(ours != theirs for ours, theirs in zip(found, checksums, strict=True))
    print(json.dumps({"seconds": seconds, "wrong": wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
