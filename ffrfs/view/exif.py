"""A picture's header: size, mode and EXIF. It runs in the sandbox, and decodes no pixel."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, BinaryIO

from PIL import ExifTags, Image

_TEXT_SIZE = 200  # characters of a value
_TAGS_MAX = 300
_BLOCKS = {ExifTags.IFD.Exif: ExifTags.TAGS, ExifTags.IFD.GPSInfo: ExifTags.GPSTAGS}


def describe(file: BinaryIO) -> dict[str, Any]:
    Image.MAX_IMAGE_PIXELS = None  # the page decides, by `width` and `height`
    with warnings.catch_warnings(action="ignore"), Image.open(file) as picture:
        # getexif() of a PNG decodes all of it, to look behind its pixels.
        exif = picture.getexif() if picture.format == "TIFF" else Image.Exif()
        exif.load(picture.info.get("exif", b""))
        tags = _named({tag: exif[tag] for tag in exif if tag not in _BLOCKS}, ExifTags.TAGS)
        for block, names in _BLOCKS.items():
            tags += _named(exif.get_ifd(block), names)
        width, height = picture.size
        return {
            "width": width,
            "height": height,
            "facts": [
                ["Format", f"{picture.format}, {picture.mode}"],
                ["Pixels", f"{width:,} by {height:,}"],
            ],
            "exif": tags[:_TAGS_MAX],
        }


def _named(tags: Mapping[int, object], names: Mapping[int, str]) -> list[list[str]]:
    return [[names.get(tag, f"{tag:#06x}"), _text(value)] for tag, value in tags.items()]


def _text(value: object) -> str:
    if isinstance(value, bytes):
        value = value[:_TEXT_SIZE].decode("latin-1")
    return str(value)[:_TEXT_SIZE].strip("\0 ")
