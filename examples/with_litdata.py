"""LitData streams the files of a mount, as they are: python with_litdata.py PACK MOUNTPOINT"""

from __future__ import annotations

import sys

from litdata import StreamingRawDataset
from torch.utils.data import DataLoader

import ffrfs


def main(pack: str, mountpoint: str) -> None:
    with ffrfs.mounted(pack, mountpoint) as place:
        files = StreamingRawDataset(str(place))
        batches = list(DataLoader(files, batch_size=5, shuffle=True, collate_fn=list))
        good = all(data.startswith(b"\x89PNG") for batch in batches for data in batch)
        print(list(map(len, batches)), "files, all PNG:", good)


if __name__ == "__main__":
    main(*sys.argv[1:])
