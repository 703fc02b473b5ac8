"""fsspec, universal_pathlib: python with_fsspec.py PACK (files train/CLASS/NAME.png)"""

from __future__ import annotations

import sys

import fsspec
from upath import UPath


def main(pack: str) -> None:
    fs = fsspec.filesystem("ffr", fo=pack)
    pictures = fs.glob("train/*/*.png")
    contents = fs.cat(pictures)  # one batch, every byte checked
    with fsspec.open(f"ffr://{pictures[0]}::{pack}") as file:
        assert file.read() == contents[pictures[0]]
    classes = sorted(path.name for path in UPath(f"ffr://train::{pack}").iterdir())
    print(f"{len(contents)} pictures of {', '.join(classes)}")


if __name__ == "__main__":
    main(sys.argv[1])
