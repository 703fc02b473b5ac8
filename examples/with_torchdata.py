"""torchdata's nodes: python with_torchdata.py PACK

The nodes give the data set whole batches of numbers, and it reads each in one batch.
"""

from __future__ import annotations

import sys

from torch.utils.data import RandomSampler
from torchdata.nodes import Batcher, Loader, ParallelMapper, SamplerWrapper

from ffrfs.torch import PackedFolderDataset


def main(pack: str) -> None:
    files = PackedFolderDataset(pack, root="train")
    numbers = Batcher(SamplerWrapper(RandomSampler(files)), batch_size=5, drop_last=False)
    loader = Loader(ParallelMapper(numbers, files.__getitems__, num_workers=2, method="thread"))
    print([len(batch) for batch in loader], "files of", ", ".join(files.classes))


if __name__ == "__main__":
    main(sys.argv[1])
