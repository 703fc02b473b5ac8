"""Compressed TFRecord files: one gzip or zlib stream around all records.

The first bytes of a file show its compression; reading and writing hold one piece in memory
at a time, however much a stream expands to. Not here: records (stream_scan.py, writer.py).
Concurrency: one thread at a time.
"""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Protocol

from ffrfs.errors import FormatError, TruncatedError
from ffrfs.tfrecord.framing import HEADER, is_header

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ffrfs.tfrecord.options import TFRecordOptions

# Bytes that are compressed, or decompressed, at a time.
PIECE_SIZE = 256 << 10

_GZIP_MAGIC = b"\x1f\x8b\x08"
# zlib's window_bits for reading: the wrapper, and the largest window.
_WINDOW_BITS = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS + 16}


class ByteStream(Protocol):
    """A source of bytes: a raw file, or a DecompressedStream."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, as soon as there are any; b"" at the end."""
        ...

    def close(self) -> None: ...


def recognise(begin: bytes) -> str:
    """Return "GZIP", "ZLIB" or "" for a file that begins with `begin`.

    Twelve bytes decide about a plain file: a length may have any bytes, but its checksum follows.
    Two bytes of a zlib stream are a weak sign, so some of it must also decompress. An empty file
    is a plain one without records.
    """
    if is_header(begin):
        return ""
    if begin.startswith(_GZIP_MAGIC):
        return "GZIP"
    try:
        zlib.decompressobj().decompress(begin, HEADER.size)
    except zlib.error:
        return ""
    return "ZLIB" if len(begin) > 1 else ""


class DecompressedStream:
    """The bytes of a stream of `kind` ("GZIP" or "ZLIB"), decompressed.

    `begin` are bytes of `file` that were read already. Several members one behind the
    other are one stream, as in gzip. Raises TruncatedError if a member has no end,
    FormatError if it is corrupt; the texts name no place, which the caller knows.
    """

    def __init__(self, file: ByteStream, kind: str, begin: bytes = b"") -> None:
        self._file = file
        self._kind = kind
        self._input = begin
        self._member = self._new_member() if begin else None
        self._corruption = ""  # zlib's error for the bytes that come next

    def read(self, size: int, /) -> bytes:
        while True:
            if self._corruption:
                raise FormatError(f"the {self._kind} stream is corrupt: {self._corruption}")
            if self._member is not None and (piece := self._decompress(self._member, size)):
                return piece
            if not self._corruption and not self._input and not self._fill():
                return b""

    def close(self) -> None:
        self._file.close()

    def _new_member(self) -> zlib._Decompress:
        return zlib.decompressobj(_WINDOW_BITS[self._kind])

    def _decompress(self, member: zlib._Decompress, size: int) -> bytes:
        before = member.copy()
        try:
            piece = member.decompress(self._input, size)
        except zlib.error as error:
            self._corruption = str(error).rpartition(": ")[2]
            return _sound_part(before, self._input, size)
        self._input = member.unconsumed_tail
        if member.eof:
            self._input = member.unused_data
            self._member = self._new_member() if self._input else None
        return piece

    def _fill(self) -> bool:
        self._input = self._file.read(PIECE_SIZE)
        if self._input and self._member is None:
            self._member = self._new_member()
        if not self._input and self._member is not None:
            raise TruncatedError(
                f"the {self._kind} stream has no end; it was cut off or is still being written"
            )
        return bool(self._input)


def _sound_part(member: zlib._Decompress, corrupt: bytes, size: int) -> bytes:
    """Return the data of a member up to the byte at which it fails.

    zlib does not return the data that it had decompressed until then, which may hold records.
    """
    piece = b""
    good, bad = -1, len(corrupt)  # without input zlib gives bytes that the last read left
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            piece = member.copy().decompress(corrupt[:middle], size)
            good = middle
        except zlib.error:
            bad = middle
    return piece


class CompressedFile(io.RawIOBase):
    """A raw file for writing that compresses all data into another one, which it owns."""

    def __init__(self, file: io.FileIO, options: TFRecordOptions) -> None:
        self._file: io.FileIO | io.BufferedWriter = file
        if options.output_buffer_size is not None:
            self._file = io.BufferedWriter(file, options.output_buffer_size)
        # The size of the piece that is being taken, the compressed bytes that the compressor made
        # of it, and how many of these each write has taken. As in FrameFile, a signal between two
        # steps loses nothing.
        self._state: tuple[int, list[bytes], list[int]] = 0, [], []
        self._end: list[bytes] = []  # the last bytes of the stream
        self._flush_mode = options.flush_mode
        self._compressor = zlib.compressobj(
            options.compression_level,
            options.compression_method,
            options.window_bits,
            options.mem_level,
            options.compression_strategy,
        )

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file.fileno()

    def write(self, data: Buffer, /) -> int:
        """Take at most PIECE_SIZE bytes; return how many.

        After an interrupted call, the next one has data that begins with the same bytes.
        """
        view = memoryview(data).cast("B")
        if not self._state[0]:
            self._put()
            self._state = min(len(view), PIECE_SIZE), [], []
        size, outs, _ = self._state
        if not outs:
            outs.extend(map(self._compressor.compress, (view[:size],)))
        if self._flush_mode != zlib.Z_NO_FLUSH and len(outs) == 1:
            outs.extend(map(self._compressor.flush, (self._flush_mode,)))
        self._put()
        return size

    def sync(self) -> None:
        """Write all data that was taken, so that a reader of the file has it too."""
        self._put()
        outs: list[bytes] = []
        self._state = 0, outs, []
        outs.extend(map(self._compressor.flush, (zlib.Z_SYNC_FLUSH,)))
        self._put()
        self._file.flush()

    def close(self) -> None:
        if self.closed:
            return
        try:
            if not self._end:
                self._put()
                self._state = 0, self._end, []
                self._end.extend(map(self._compressor.flush, (zlib.Z_FINISH,)))
            self._put()
        except OSError:
            super().close()
            self._file.close()
            raise
        super().close()
        self._file.close()

    def _put(self) -> None:
        _, outs, counts = self._state
        data = b"".join(outs)
        while left := data[sum(counts) :]:  # a raw file may take only a part
            counts.extend(map(self._file.write, (left,)))
        self._state = 0, [], []
