"""Which kind of file some bytes are, by the first of them: for people, and for names of files.

A mount has more of them (native/example/content_type.cc). No state: safe from any thread.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple


class ContentKind(NamedTuple):
    name: str
    extension: str  # without the dot


# Of a value that may be text so much is looked at.
TEXT_SIZE = 4096
_TEXT_CONTROLS = frozenset("\t\n\r\f\x1b")

_SIGNATURES = {
    b"\xff\xd8\xff": ContentKind("JPEG", "jpg"),
    b"\x89PNG\r\n\x1a\n": ContentKind("PNG", "png"),
    b"GIF8": ContentKind("GIF", "gif"),
    b"II*\0": ContentKind("TIFF", "tiff"),
    b"MM\0*": ContentKind("TIFF", "tiff"),
    b"\x93NUMPY": ContentKind("NumPy array", "npy"),
    b"\x1f\x8b\x08": ContentKind("gzip", "gz"),
    b"\x28\xb5\x2f\xfd": ContentKind("Zstandard", "zst"),
    b"fLaC": ContentKind("FLAC", "flac"),
    b"OggS": ContentKind("Ogg", "ogg"),
    b"%PDF-": ContentKind("PDF", "pdf"),
    b"PK\3\4": ContentKind("zip", "zip"),
    b"\x89HDF\r\n\x1a\n": ContentKind("HDF5", "h5"),
}
_RIFF = {
    b"WEBP": ContentKind("WebP", "webp"),
    b"WAVE": ContentKind("WAV", "wav"),
    b"AVI ": ContentKind("AVI", "avi"),
}


def content_kind(value: bytes) -> ContentKind | None:
    """None: unknown, or text."""
    if value[:4] == b"RIFF":
        return _RIFF.get(value[8:12])
    return next((kind for begin, kind in _SIGNATURES.items() if value.startswith(begin)), None)


def text_of(value: bytes) -> str | None:
    """The first characters, if the bytes seem to be UTF-8 text; looks at TEXT_SIZE bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(value[:TEXT_SIZE], final=len(value) <= TEXT_SIZE)
    except UnicodeDecodeError:
        return None
    is_text = all(char >= " " or char in _TEXT_CONTROLS for char in text)
    return text if is_text else None
