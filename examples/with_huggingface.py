"""Hugging Face datasets: python with_huggingface.py PACK MOUNTPOINT (a directory)

From a mount `load_dataset` reads the files in place. Without one, `streaming=True` does; else it
copies all files into its cache first.
"""

from __future__ import annotations

import sys

import datasets

import ffrfs


def main(pack: str, mountpoint: str) -> None:
    streamed = datasets.load_dataset(
        "imagefolder", data_files=f"ffr://train/**::{pack}", split="train", streaming=True
    )
    print(sorted(row["image"].size for row in streamed)[0])
    with ffrfs.mounted(pack, mountpoint) as place:
        mounted = datasets.load_dataset("imagefolder", data_dir=str(place), split="train")
        print(len(mounted), "pictures of", ", ".join(mounted.features["label"].names))


if __name__ == "__main__":
    main(*sys.argv[1:])
