"""Apache Beam: python with_beam.py PACK NEW_FOLDER"""

from __future__ import annotations

import io
import sys

import apache_beam as beam
from PIL import Image

from ffrfs.beam import ReadFromPack, WriteToPack


def shrink(path: str, data: bytes) -> tuple[str, bytes]:
    small = io.BytesIO()
    Image.open(io.BytesIO(data)).resize((4, 4)).save(small, "PNG")
    return path, small.getvalue()


def main(pack: str, folder: str) -> None:
    with beam.Pipeline() as pipeline:
        small = pipeline | ReadFromPack(pack) | beam.MapTuple(shrink)
        written = small | WriteToPack(folder, num_shards=2)
        written | beam.Map(lambda made: print(f"{made.file_count} pictures"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
