"""Recognises files and values by their first bytes, for messages and for names of files.

A mount has more kinds of values (native/example/content_type.cc). No state: safe from any thread.
"""

from __future__ import annotations

import codecs
import os
import stat
import struct
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

# Maps (offset, size) to bytes; it returns fewer at the end of the file.
Read: TypeAlias = Callable[[int, int], bytes]


class ContentKind(NamedTuple):
    name: str
    extension: str  # without the dot


class FileKind(NamedTuple):
    """A kind of file; its text is like "a tar archive" or "a pack of 3 records"."""

    name: str  # with its article
    record_count: int | None = None  # for packs (without the index) and FFRecord files

    def __str__(self) -> str:
        if self.record_count is None:
            return self.name
        plural = "" if self.record_count == 1 else "s"
        return f"{self.name} of {self.record_count:,} record{plural}"


# This many bytes of a value decide whether it is text.
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

# These kinds are for files; no record's value is compared with them.
_ARCHIVES = {
    b"PK\3\4": "a zip archive",
    b"PK\5\6": "a zip archive",  # an empty one
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ\0": "an xz file",
    b"PAR1": "a Parquet file",
}
_AN = ("AVI", "FLAC", "HDF5", "Ogg")
_TAR_MAGIC, _TAR_MAGIC_OFFSET = b"ustar", 257
_FFRECORD_HEADER = struct.Struct("<Iq")  # docs/format.md
_OFFSET = struct.Struct("<q")
INDEX_MAGIC = b"piouhjgbr"  # begins the last record of a pack
_ROOT_INODE = struct.Struct("<QQqIHH")
_TFRECORD_HEADER = struct.Struct("<QI")
_OTHERS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def content_kind(value: bytes) -> ContentKind | None:
    """Return the kind of a value, or None if it is unknown, or text."""
    if value[:4] == b"RIFF":
        return _RIFF.get(value[8:12])
    return next((kind for begin, kind in _SIGNATURES.items() if value.startswith(begin)), None)


def text_of(value: bytes) -> str | None:
    """Return the text of the first TEXT_SIZE bytes, or None if they seem not to be UTF-8 text."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(value[:TEXT_SIZE], final=len(value) <= TEXT_SIZE)
    except UnicodeDecodeError:
        return None
    is_text = all(char >= " " or char in _TEXT_CONTROLS for char in text)
    return text if is_text else None


def kind_of_file(path: str) -> FileKind:
    """Return the kind of the file at `path`, by its first bytes, not its name. Raises OSError."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # opening a pipe or a device may have effects
        return FileKind(_OTHERS.get(stat.S_IFMT(status.st_mode), "no regular file"))
    with open(path, "rb", buffering=0) as file:
        fd = file.fileno()
        return kind_of_bytes(lambda offset, size: os.pread(fd, size, offset), status.st_size)


def kind_of_bytes(read: Read, size: int) -> FileKind:
    """Return the kind of a file of `size` bytes. Reads a few KiB, and verifies no record."""
    if size == 0:
        return FileKind("an empty file")

    def within(offset: int, count: int) -> bytes:
        return read(offset, min(count, size - offset)) if offset < size else b""

    begin = within(0, TEXT_SIZE + 1)
    return _ffrecord_kind(begin, within, size) or FileKind(_name_of(begin))


def is_pack_index(begin: bytes) -> bool:
    """Return whether a file begins as a mapped index does: with the inode of the root."""
    if len(begin) < _ROOT_INODE.size:
        return False
    name, place, _, above, mode, name_size = _ROOT_INODE.unpack_from(begin)
    return stat.S_ISDIR(mode) and not any((name, place, above, name_size))


def _name_of(begin: bytes) -> str:
    if _is_tfrecord(begin):
        return "a TFRecord file"
    if is_pack_index(begin):
        return "an index of a pack"
    if begin.startswith(_TAR_MAGIC, _TAR_MAGIC_OFFSET):
        return "a tar archive"
    for magic, name in _ARCHIVES.items():
        if begin.startswith(magic):
            return name
    known = content_kind(begin)
    if known is not None:
        return f"{'an' if known.name in _AN else 'a'} {known.name} file"
    return "a text file" if text_of(begin) is not None else "a file of unknown kind"


def _ffrecord_kind(begin: bytes, read: Read, size: int) -> FileKind | None:
    """Recognise FFRecord, which has no magic number: its header must fit the size of the file."""
    start = _FFRECORD_HEADER.size
    if len(begin) < start:
        return None
    _, count = _FFRECORD_HEADER.unpack_from(begin)
    if count == 0:
        return FileKind("an FFRecord file", 0) if size == start else None
    end = start + 12 * count
    if not 0 < count <= size or end > size:
        return None
    first, last = (_offset(read, start + 4 * count + 8 * record, size) for record in (0, count - 1))
    if not end <= first <= last <= size:
        return None
    if read(last, len(INDEX_MAGIC)) == INDEX_MAGIC:
        return FileKind("a pack", count - 1)
    return FileKind("an FFRecord file", count)


def _offset(read: Read, place: int, size: int) -> int:
    found = read(place, _OFFSET.size)
    return int(_OFFSET.unpack(found)[0]) if len(found) == _OFFSET.size else size + 1


def _is_tfrecord(begin: bytes) -> bool:
    """Return whether the file begins with a length and its masked CRC-32C (tfrecord.framing)."""
    if len(begin) < _TFRECORD_HEADER.size:
        return False
    from ffrfs._native import crc32c  # here, not above: few callers need it

    crc = crc32c(begin[:8])
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return bool(_TFRECORD_HEADER.unpack_from(begin)[1] == masked)
