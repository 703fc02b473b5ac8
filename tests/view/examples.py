"""TFRecord files as programs of detection, classification and segmentation write them; pictures."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ffrfs import PackWriter
from ffrfs.tfrecord import TFRecordWriter, from_dict
from tests.index_file import Index, indexed_pack

WIDTH, HEIGHT = 400, 200
ODD_NAME = "\udcff\udcfe'\\"  # no UTF-8

# Features as TensorFlow's Object Detection API writes them.
DETECTION = {
    "image/object/bbox/xmin": [0.1, 0.5, 0.25],
    "image/object/bbox/xmax": [0.4, 0.9, 0.5],
    "image/object/bbox/ymin": [0.2, 0.5, 0.0],
    "image/object/bbox/ymax": [0.6, 1.0, 0.25],
    "image/object/class/text": ["car", "truck", "car"],
    "image/object/class/label": [3, 8, 3],
    "image/object/score": [0.9, 0.6, 0.2],
}


def encoded(image: Image.Image | np.ndarray[Any, Any], kind: str = "PNG", **options: Any) -> bytes:
    """Return the encoded bytes of a picture, or of an array of grey or RGB values."""
    stream = io.BytesIO()
    shown = image if isinstance(image, Image.Image) else Image.fromarray(image)
    shown.save(stream, kind, **options)
    return stream.getvalue()


def picture(width: int = WIDTH, height: int = HEIGHT, **options: Any) -> bytes:
    return encoded(np.full((height, width, 3), 90, np.uint8), "JPEG", **options)


def turned() -> Image.Exif:
    """Return the EXIF of a camera held on its side: show the picture turned clockwise."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def npy(array: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def detection(**more: Any) -> dict[str, Any]:
    return {"image/encoded": picture(), "image/filename": "street.jpg", **DETECTION, **more}


def packed(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a pack with the files of these paths, in this order."""
    with PackWriter(path) as pack:
        for name, data in files.items():
            pack.add(name, data)
    return path


def odd_pack(path: Path, content: bytes) -> Path:
    """Write a pack with one file, ODD_NAME."""

    def spoil(index: Index) -> None:
        index.names = index.names.replace(b"name", os.fsencode(ODD_NAME))

    path.write_bytes(indexed_pack({b"name": content}, spoil))
    return path


def serialized(values: Mapping[str, Any]) -> bytes:
    message: bytes = from_dict(values).SerializeToString(deterministic=True)
    return message


def write(path: Path, *records: Mapping[str, Any] | bytes) -> Path:
    """Write a TFRecord file: a mapping becomes an Example, bytes become a record as they are."""
    with TFRecordWriter(path) as writer:
        for record in records:
            is_raw = isinstance(record, bytes)
            writer.write(record if is_raw else serialized(record))
    return path
