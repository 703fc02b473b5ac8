"""webdataset: python with_webdataset.py PACK (files KEY.png and KEY.cls)"""

from __future__ import annotations

import sys

import webdataset

from ffrfs.webdataset import PackSamples


def main(pack: str) -> None:
    samples = webdataset.DataPipeline(
        PackSamples(pack, root="train"),
        webdataset.shuffle(100),
        webdataset.decode("pil"),
        webdataset.to_tuple("png", "cls"),
    )
    labels = [label for _, label in samples]
    print(len(labels), "samples,", sum(labels), "of them dogs")


if __name__ == "__main__":
    main(sys.argv[1])
