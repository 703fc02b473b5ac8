"""Sandbox: a decoder runs once, in a child process with limits, on the bytes of one file.

Arrays, tables and pictures are made by their packers to exhaust memory and time, or worse. The
child has little address space and CPU time, and writes no file. It asks for bytes over a socket,
and this process answers with verified ones, a limited number; the result is JSON.

Not here: the decoders, functions of an open file in exif.py, arrays.py and parquet.py; they
return plain data. Concurrency: any thread; _AT_ONCE children at a time, others wait.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import io
import json
import os
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ffrfs.errors import FfrfsError, FormatError, TooLargeError, describe

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
_MESSAGE = struct.Struct("<QQ")  # a piece's offset and size; or _JSON and its size
_JSON = (1 << 64) - 1
# Libraries start a thread for each core, each with much address space, and cannot use them here.
FEW_THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MALLOC_ARENA_MAX"), "1")
_SETTINGS = FEW_THREADS | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
_NEEDED_BY_PYTHON = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
_PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.argv[2]); from ffrfs.view import sandbox"


def bare_environment() -> dict[str, str]:
    """Return what Python needs to start: a decoder sees no secrets."""
    return {name: os.environ[name] for name in _NEEDED_BY_PYTHON if name in os.environ}


class _Child:
    """A process for one task. It is started ahead, as importing takes longer than most tasks."""

    def __init__(self) -> None:
        self.link, theirs = socket.socketpair()
        with theirs:
            places = [os.path.abspath(place) for place in sys.path]
            words = [str(theirs.fileno()), json.dumps(places)]
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"{_PROGRAM}; sandbox.serve()", *words],
                pass_fds=[theirs.fileno()],
                env=bare_environment() | _SETTINGS,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # signals of a terminal do not reach it
            )

    def end(self) -> None:
        self.link.close()
        self.process.kill()
        self.process.wait()


_ahead: list[_Child] = []


def run(decoder: str, content: Content, **arguments: object) -> dict[str, Any]:
    """Return what `decoder` ("arrays.npy") makes of the file.

    Raises FormatError if it cannot be decoded, TooLargeError if that takes too much, and the
    errors of reading.
    """
    with _AT_ONCE:
        try:
            child = _take()
        except OSError as error:
            raise TooLargeError(f"no process can be started to decode it: {error}") from None
        try:
            _send(child.link, [decoder, content.size, arguments])
            found = _converse(child.link, content)
        except FfrfsError:  # of a read: those of URLs are TimeoutErrors, too
            raise
        except (TimeoutError, ConnectionError) as error:
            raise TooLargeError(_end_of(child, error)) from None
        finally:
            child.end()
            if not _ahead:
                with contextlib.suppress(OSError):
                    _ahead.append(_Child())
    if "error" in found:
        raise FormatError(f"it cannot be decoded: {found['error']}")
    return found


def _take() -> _Child:
    with contextlib.suppress(IndexError):
        child = _ahead.pop()
        if child.process.poll() is None:
            return child
        child.end()
    return _Child()


def _end_of(child: _Child, error: Exception) -> str:
    """Say why there is no result. A limit of the child's ends it by a signal."""
    status = None
    if not isinstance(error, TimeoutError):
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = child.process.wait(1)  # its socket was closed a moment earlier
    if status is not None and status > 0:
        return f"the process that decodes has ended (status {status})"
    return "decoding it would take too much memory or time: download it"


@atexit.register
def end_ahead() -> None:
    while _ahead:
        _ahead.pop().end()


def _converse(link: socket.socket, content: Content) -> dict[str, Any]:
    deadline_s = time.monotonic() + _DEADLINE_S
    left = _READ_SIZE_MAX
    while True:
        offset, size = _MESSAGE.unpack(_receive(link, _MESSAGE.size, deadline_s))
        if offset == _JSON:
            if size > _RESULT_SIZE_MAX:
                raise ConnectionError
            result: dict[str, Any] = json.loads(_receive(link, size, deadline_s))
            return result
        left -= size
        if size > _PIECE_SIZE or offset + size > content.size or left < 0:
            raise ConnectionError
        piece = content.read(offset, size)
        link.settimeout(max(deadline_s - time.monotonic(), 0.001))
        link.sendall(piece)


def _receive(link: socket.socket, size: int, deadline_s: float | None = None) -> bytearray:
    received = bytearray()
    while len(received) < size:
        if deadline_s is not None:
            link.settimeout(max(deadline_s - time.monotonic(), 0.001))
        part = link.recv(min(size - len(received), 1 << 20))
        if not part:
            raise ConnectionError
        received += part
    return received


# What follows runs in the child.


class _File(io.RawIOBase):
    """The file, read through the socket."""

    def __init__(self, link: socket.socket, size: int) -> None:
        self._link, self._size, self._offset = link, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError("a position before the begin of the file")
        self._offset = base + offset
        return self._offset

    def readinto(self, buffer: Buffer) -> int:
        room = memoryview(buffer).cast("B")
        count = max(min(len(room), self._size - self._offset, _PIECE_SIZE), 0)
        if count:
            self._link.sendall(_MESSAGE.pack(self._offset, count))
            room[:count] = _receive(self._link, count)
            self._offset += count
        return count


def serve() -> None:
    """Do the one task of this child."""
    for limit, most in (
        (resource.RLIMIT_AS, _ADDRESSES_MAX),
        (resource.RLIMIT_CPU, _CPU_S),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    importlib.import_module("ffrfs.view.arrays")  # for most tasks, and the libraries of others
    with contextlib.suppress(ConnectionError), socket.socket(fileno=int(sys.argv[1])) as link:
        _, task_size = _MESSAGE.unpack(_receive(link, _MESSAGE.size))
        decoder, size, arguments = json.loads(_receive(link, task_size))
        module, _, function = decoder.partition(".")
        try:
            decode = getattr(importlib.import_module(f"ffrfs.view.{module}"), function)
            found = decode(io.BufferedReader(_File(link, size), 1 << 16), **arguments)
        except Exception as error:  # of any library, about bytes of any kind
            found = {"error": describe(error)[:500]}
        _send(link, found)


def _send(link: socket.socket, value: object) -> None:
    message = json.dumps(value).encode()
    link.sendall(_MESSAGE.pack(_JSON, len(message)) + message)
