"""StreamScan: the records of a stream of bytes, verified, from front to end.

It reads compressed files and pipes, which the native core's TFRecordScan does not; Scan is what
both offer. Memory grows with the bytes that have arrived, never with a length that was only
declared. Not here: regular
files (the native core), decompression (compression.py), the policy for a bad record
(iterator.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Protocol, TypeVar

from ffrfs.errors import ChecksumError, FfrfsError, FormatError, TruncatedError
from ffrfs.tfrecord.framing import FOOTER, FRAME_SIZE, HEADER, LENGTH, masked_crc, mismatch

if TYPE_CHECKING:
    from ffrfs.tfrecord.compression import ByteStream

Error = TypeVar("Error", bound=FfrfsError)

# Bytes requested from the stream at once.
PIECE_SIZE = 1 << 20
# The longest record of a stream. A file's size bounds the lengths in it, but a few bytes of
# compressed data may expand to any size. No Example is longer: protobuf's own limit is the
# same.
RECORD_LIMIT = 2 << 30


class Scan(Protocol):
    """Reads the records of a file from front to end."""

    def read(self) -> list[bytes]:
        """Return the next records, verified, at least one; [] at the end of the file.

        Raises ChecksumError for a record with a correct length whose data do not match: the
        scan is then behind it, and read() may be called again. Raises TruncatedError or
        FormatError (impossible or corrupt length) if it cannot continue; every later read()
        raises the same again. Records before a bad one are returned first.
        """
        ...

    def close(self) -> None: ...


class StreamScan:
    """A Scan of the bytes of `stream`, which it owns.

    Errors name `name`. `begin` are bytes of the stream that were read already.
    `check_data=False` compares no checksum. `is_compressed`: errors say that offsets are
    those of the uncompressed data.

    Memory: twice the record that is being read, once when it was read; PIECE_SIZE for all others.
    """

    def __init__(
        self,
        stream: ByteStream,
        name: str,
        *,
        begin: bytes = b"",
        check_data: bool = True,
        is_compressed: bool = False,
    ) -> None:
        self._stream = stream
        self._name = name
        self._check_data = check_data
        self._offset_of = " of the uncompressed data" if is_compressed else ""
        self._buffer = bytearray(begin)
        self._at = 0  # where in the buffer the next record begins
        self._offset = 0  # where in the stream it begins
        self._number = 0
        # A fault behind records that are returned first. It is kept unraised: an error with a
        # traceback would keep its frames, and through them the scan and the file.
        self._found: ChecksumError | FormatError | None = None
        # The reason why the stream gives no more bytes.
        self._fault: FormatError | None = None

    def read(self) -> list[bytes]:
        while True:
            records = self._take()
            if records:
                return records
            if not self._fill():
                return self._end()

    def close(self) -> None:
        self._stream.close()

    def _take(self) -> list[bytes]:
        """Return all records that the buffer holds whole, up to a bad one."""
        if self._found is not None:
            raise self._take_found()
        records: list[bytes] = []
        with memoryview(self._buffer) as view:
            try:
                while (record := self._next(view)) is not None:
                    records.append(record)
            except (ChecksumError, FormatError) as error:
                if not records:
                    raise
                self._found = _unraised(error)
        del self._buffer[: self._at]
        self._at = 0
        return records

    def _take_found(self) -> ChecksumError | FormatError:
        found, self._found = self._found, None
        assert found is not None
        return found

    def _next(self, view: memoryview) -> bytes | None:
        """Return the next record, or None if it is not whole in the buffer."""
        if len(view) - self._at < HEADER.size:
            return None
        length, said = HEADER.unpack_from(view, self._at)
        if self._check_data:
            given = masked_crc(view[self._at : self._at + LENGTH.size])
            if said != given:
                hint = "" if self._offset else "; is it a TFRecord file?"
                raise self._error(FormatError, f"corrupt length: {mismatch(said, given)}{hint}")
        if length > RECORD_LIMIT:
            raise self._error(
                FormatError,
                f"impossible length: {length} bytes; "
                f"a record of a stream has at most {RECORD_LIMIT}",
            )
        begin = self._at + HEADER.size
        if len(view) < begin + length + FOOTER.size:
            return None
        record = bytes(view[begin : begin + length])
        if self._check_data:
            (said,) = FOOTER.unpack_from(view, begin + length)
            given = masked_crc(record)
            if said != given:
                error = self._error(ChecksumError, mismatch(said, given))
                self._advance(length)
                raise error
        self._advance(length)
        return record

    def _advance(self, length: int) -> None:
        self._at += FRAME_SIZE + length
        self._offset += FRAME_SIZE + length
        self._number += 1

    def _fill(self) -> bool:
        """Read more into the buffer; return False at the end of the stream."""
        if self._fault is not None:
            raise _unraised(self._fault)
        try:
            piece = self._stream.read(PIECE_SIZE)
        except FormatError as error:
            self._fault = self._error(type(error), str(error))
            raise _unraised(self._fault) from None
        self._buffer += piece
        return bool(piece)

    def _end(self) -> list[bytes]:
        have = len(self._buffer)
        if have == 0:
            return []
        if have < HEADER.size:
            wanted = f"{HEADER.size} bytes of its header"
        else:
            wanted = f"{FRAME_SIZE + LENGTH.unpack_from(self._buffer)[0]} bytes"
        raise self._error(
            TruncatedError,
            f"the file ends after {have} of {wanted}; it was cut off or is still being written",
        )

    def _error(self, kind: type[Error], reason: str) -> Error:
        place = f"record {self._number} (offset {self._offset}{self._offset_of})"
        return kind.at(self._name, f"{place}: {reason}", self._number)


def _unraised(error: Error) -> Error:
    return copy.copy(error)
