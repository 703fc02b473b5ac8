"""grain: python with_grain.py PACK (below train only pictures, all of one size)"""

from __future__ import annotations

import io
import sys

import grain
import numpy as np
from PIL import Image

from ffrfs.grain import PackFile, PackSource


def decode(file: PackFile) -> dict[str, np.ndarray]:
    return {"image": np.asarray(Image.open(io.BytesIO(file["data"])))}


def main(pack: str) -> None:
    files = grain.MapDataset.source(PackSource(pack, root="train"))
    batches = files.shuffle(seed=0).map(decode).batch(5)
    print([batch["image"].shape for batch in batches])


if __name__ == "__main__":
    main(sys.argv[1])
