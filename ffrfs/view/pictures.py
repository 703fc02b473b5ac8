"""Which bytes are a picture: of a file, and within an Example."""

from __future__ import annotations

from collections.abc import Iterator

from ffrfs.tfrecord.examples.messages import DecodeError, SequenceExample

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
    """Return the first picture of an Example or SequenceExample, by the features' names."""
    return next((value for value in _bytes_of(record) if is_picture(value)), None)


def _bytes_of(record: bytes) -> Iterator[bytes]:
    try:
        # Its context has the number of an Example's features, so this reads both.
        message = SequenceExample.FromString(record)
    except DecodeError:
        return
    features = message.context.feature
    for name in sorted(features):
        yield from features[name].bytes_list.value
    lists = message.feature_lists.feature_list
    for name in sorted(lists):
        for step in lists[name].feature:
            yield from step.bytes_list.value
