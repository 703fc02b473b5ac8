"""Sandbox: a decoder runs once, in a child process with limits, on the bytes of one file.

Arrays, tables and pictures are made by their packers to exhaust memory and time, or worse. The
child has little address space and CPU time, and writes no file. It asks for bytes, and this
process answers with verified ones, a limited number; the result is JSON.

Not here: the decoders, functions of an open file in decoders.py, which return plain data.
Concurrency: any thread; _AT_ONCE children at a time, others wait.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import resource
import struct
import subprocess
import threading
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from ffrfs.errors import FormatError, TooLargeError, describe
from ffrfs.view.child import Child, EndedError, connection, limit, lower

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ffrfs.view.safe_bytes import Content

_ADDRESSES_MAX = 1 << 30  # bytes of address space; a quarter is the libraries
_CPU_S = 5
_DEADLINE_S = 20
_AT_ONCE = threading.BoundedSemaphore(2)
_PIECE_SIZE = 4 << 20
_READ_SIZE_MAX = 512 << 20  # of the file, all pieces together
_RESULT_SIZE_MAX = 8 << 20
_PIECE = struct.Struct("<xQQ")  # offset and size, behind a byte with which no JSON begins

# A child does one task. It is started ahead, as importing takes longer than most tasks.
_ahead: list[Child] = []


def run(decoder: str, content: Content, **arguments: object) -> dict[str, Any]:
    """Return what `decoder`, a function of decoders.py, makes of the file.

    Raises FormatError if it cannot be decoded, TooLargeError if that takes too much, and the
    errors of reading.
    """
    with _AT_ONCE:
        try:
            child = _take()
        except OSError as error:
            raise TooLargeError(f"no process can be started to decode it: {error}") from None
        try:
            with child.within(_DEADLINE_S):
                child.send(json.dumps([decoder, content.size, arguments]).encode())
                found = _converse(child, content)
        except EndedError:
            raise TooLargeError(_end_of(child)) from None
        finally:
            child.end()
            if not _ahead:
                with contextlib.suppress(OSError):
                    _ahead.append(Child(__name__))
    if "error" in found:
        raise FormatError(f"it cannot be decoded: {found['error']}")
    return found


def _take() -> Child:
    with contextlib.suppress(IndexError):
        child = _ahead.pop()
        if child.process.poll() is None:
            return child
        child.end()
    return Child(__name__)


def _end_of(child: Child) -> str:
    """Say why there is no result. A limit of the child's ends it by a signal."""
    status = None
    with contextlib.suppress(subprocess.TimeoutExpired):
        status = child.process.wait(1)  # its socket was closed a moment earlier
    if status is not None and status > 0:
        return f"the process that decodes has ended (status {status})"
    return "decoding it would take too much memory or time: download it"


@atexit.register
def end_ahead() -> None:
    while _ahead:
        _ahead.pop().end()


def _converse(child: Child, content: Content) -> dict[str, Any]:
    left = _READ_SIZE_MAX
    while True:
        message = child.receive(_RESULT_SIZE_MAX)
        if len(message) != _PIECE.size or message[0]:
            result: dict[str, Any] = json.loads(message)
            return result
        offset, size = _PIECE.unpack(message)
        left -= size
        if size > _PIECE_SIZE or offset + size > content.size or left < 0:
            raise EndedError
        child.send(content.read(offset, size))


# All code below runs in the child.


class _File(io.RawIOBase):
    """The file, read through the connection."""

    def __init__(self, link: Connection, size: int) -> None:
        self._link, self._size, self._offset = link, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError("a position before the beginning of the file")
        self._offset = base + offset
        return self._offset

    def readinto(self, buffer: Buffer) -> int:
        room = memoryview(buffer).cast("B")
        count = max(min(len(room), self._size - self._offset, _PIECE_SIZE), 0)
        if count:
            self._link.send_bytes(_PIECE.pack(self._offset, count))
            self._link.recv_bytes_into(room)
            self._offset += count
        return count


def serve() -> None:
    """Do the one task of this child."""
    limit(_ADDRESSES_MAX)
    lower(resource.RLIMIT_CPU, _CPU_S)
    from ffrfs.view import decoders

    with contextlib.suppress(EOFError, OSError), connection() as link:
        decoder, size, arguments = json.loads(link.recv_bytes())
        try:
            decode = getattr(decoders, decoder)
            found = decode(io.BufferedReader(_File(link, size), 1 << 16), **arguments)
        except Exception as error:  # of any library, about bytes of any kind
            found = {"error": describe(error)[:500]}
        link.send_bytes(json.dumps(found).encode())
