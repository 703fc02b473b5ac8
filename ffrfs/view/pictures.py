"""Which bytes are a picture: of a file, and within an Example."""

from __future__ import annotations

from ffrfs.convert.example_json import parse_record
from ffrfs.view.annotations import picture_feature
from ffrfs.view.features import columns

_BEGINS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_PIXMAPS = (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")


def is_picture(data: bytes) -> bool:
    """Return whether the bytes begin like a picture of which thumbnails are made."""
    return (
        data.startswith(_BEGINS)
        or (data.startswith(_PIXMAPS) and data[2:3].isspace())
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
    )


def picture_of(record: bytes) -> bytes | None:
    """Return the picture that the page of an Example shows, or else the first one by name."""
    message = parse_record(record)
    found = {one.name: one for one in columns(message)} if message is not None else {}
    name = picture_feature(found)
    chosen = [found[name]] if name is not None else found.values()
    values = (bytes(value) for one in chosen if one.kind == "bytes" for value in one.values)
    return next(filter(is_picture, values), None)
