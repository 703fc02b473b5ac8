"""The pyfuse3 engine without a mount: its handlers raise nothing but FUSEError, and late results
reach the tasks that wait for them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Awaitable
from typing import Any

import pytest
import trio
import trio.testing
from pyfuse3 import FUSEError

from ffrfs._native import Attributes
from ffrfs.errors import ChecksumError
from ffrfs.mount.engines.pyfuse3_engine import TreeOperations, _aborted_is_ended
from ffrfs.mount.engines.read_failures import ReadFailures

CONTEXT: Any = None


class BrokenVolume:
    """A volume that answers every question of the engine with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def path(self, ino: int) -> bytes:
        return b"d/file %d" % ino

    def count_request(self, kind: str, elapsed_ns: int) -> bool:
        assert elapsed_ns >= 0
        return False

    def note_failure(self, ino: int) -> int:
        return ino

    def __getattr__(self, name: str) -> Any:
        def fail(*_: object) -> None:
            raise self._error

        return fail


def operations(volume: Any, xattr: bool = True) -> TreeOperations:
    return TreeOperations(volume, ReadFailures(), xattr=xattr)


def errno_of(handler: Awaitable[object]) -> int:
    async def run() -> None:
        await handler

    with pytest.raises(FUSEError) as caught:
        trio.run(run)
    return caught.value.errno


HANDLERS = {
    "lookup": (1, b"name", CONTEXT),
    "getattr": (1, CONTEXT),
    "readdir": (1, 5, None),
    "getxattr": (1, b"user.ffrfs.record", CONTEXT),
    "listxattr": (1, CONTEXT),
    "read": (7, 0, 4096),
}


@pytest.mark.parametrize("name", HANDLERS)
def test_unexpected_exception_is_eio_with_a_logged_traceback(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken = operations(BrokenVolume(ZeroDivisionError("oh")))
    assert errno_of(getattr(broken, name)(*HANDLERS[name])) == errno.EIO
    assert "ZeroDivisionError: oh" in caplog.text
    assert name in caplog.text


@pytest.mark.parametrize("name", HANDLERS)
def test_system_errors_keep_their_number(name: str) -> None:
    broken = operations(BrokenVolume(OSError(errno.ESTALE, "gone")))
    assert errno_of(getattr(broken, name)(*HANDLERS[name])) == errno.ESTALE


@pytest.mark.parametrize("name", HANDLERS)
def test_eagain_becomes_eio(name: str, caplog: pytest.LogCaptureFixture) -> None:
    broken = operations(BrokenVolume(OSError(errno.EAGAIN, "cannot start a thread")))
    assert errno_of(getattr(broken, name)(*HANDLERS[name])) == errno.EIO
    assert "cannot start a thread" in caplog.text


def test_damage_is_eio_with_a_line_that_names_the_path(caplog: pytest.LogCaptureFixture) -> None:
    broken = operations(BrokenVolume(ChecksumError("x.ffr: record 3 at 99: damaged")))
    assert errno_of(broken.read(7, 0, 4096)) == errno.EIO
    assert caplog.messages == ["cannot read d/file 7: x.ffr: record 3 at 99: damaged"]


def test_xattr_requests_without_the_option_are_enosys() -> None:
    plain = operations(BrokenVolume(ZeroDivisionError()), xattr=False)
    assert errno_of(plain.getxattr(1, b"user.ffrfs.record", CONTEXT)) == errno.ENOSYS
    assert errno_of(plain.listxattr(1, CONTEXT)) == errno.ENOSYS


class LateVolume:
    """A volume that answers every question later, by finish()."""

    def __init__(self) -> None:
        self.eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.asked: list[int] = []
        self._finished: list[tuple[int, object]] = []

    def path(self, ino: int) -> bytes:
        return b"file"

    def count_request(self, kind: str, elapsed_ns: int) -> bool:
        assert elapsed_ns >= 0
        return False

    def note_failure(self, ino: int) -> int:
        return ino

    def read(self, ino: int, offset: int, size: int, token: int) -> None:
        self.asked.append(token)

    def load_directory(self, ino: int, token: int) -> None:
        self.asked.append(token)

    load_tree = load_directory

    def finish(self, token: int, result: object) -> None:
        self._finished.append((token, result))
        os.eventfd_write(self.eventfd, 1)

    def poll(self) -> list[tuple[int, object]]:
        os.eventfd_read(self.eventfd)
        finished, self._finished = self._finished, []
        return finished


@pytest.mark.trio
async def test_late_reads_reach_their_readers_in_any_order() -> None:
    volume = LateVolume()
    served = operations(volume)
    results: dict[int, Any] = {}

    async def read(ino: int) -> None:
        try:
            results[ino] = await served.read(ino, 0, 10)
        except FUSEError as error:
            results[ino] = error.errno

    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.late.deliver)
        with trio.CancelScope() as given_up:
            async with trio.open_nursery() as readers:
                for ino in range(4):
                    readers.start_soon(read, ino)
                    await trio.testing.wait_all_tasks_blocked()
                assert len(set(volume.asked)) == 4
                volume.finish(volume.asked[2], b"two")
                volume.finish(volume.asked[0], OSError(errno.ENOMEM, "no memory"))
                volume.finish(12345, b"nobody asked")
                await trio.testing.wait_all_tasks_blocked()
                assert results == {2: b"two", 0: errno.ENOMEM}
                volume.finish(volume.asked[3], b"three")
                await trio.testing.wait_all_tasks_blocked()
                given_up.cancel()
        volume.finish(volume.asked[1], b"too late")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    os.close(volume.eventfd)
    assert results == {2: b"two", 0: errno.ENOMEM, 3: b"three"}


class SmallTree:
    """A part of a tree: one folder with one file."""

    def lookup(self, parent: int, name: bytes) -> int:
        return 8 if (parent, name) == (7, b"file") else 0

    def attributes(self, ino: int) -> Attributes:
        return Attributes(ino, stat.S_IFREG | 0o444, 1, 0, 0, 12, 0)

    def list(self, ino: int, start: int, limit: int) -> list[object]:
        return []

    def record(self, ino: int) -> tuple[int, None]:
        return 3, None


LATE_HANDLERS = {
    "lookup": (7, b"file", CONTEXT),
    "getattr": (8, CONTEXT),
    "readdir": (7, 2, None),
    "getxattr": (8, b"user.ffrfs.record", CONTEXT),
    "listxattr": (8, CONTEXT),
}


@pytest.mark.trio
@pytest.mark.parametrize("name", LATE_HANDLERS)
async def test_answers_that_are_not_ready_are_waited_for(name: str) -> None:
    volume = LateVolume()
    served = operations(volume)
    results: list[Any] = []

    async def ask() -> None:
        try:
            results.append(await getattr(served, name)(*LATE_HANDLERS[name]))
        except FUSEError as error:
            results.append(error.errno)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(served.late.deliver)
        for answer in (OSError(errno.ENOMEM, "no memory"), SmallTree()):
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            volume.finish(volume.asked.pop(), answer)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    os.close(volume.eventfd)
    refused, told = results
    assert refused == errno.ENOMEM
    if name in ("lookup", "getattr"):
        assert (told.st_ino, told.st_size) == (8, 12)
    elif name == "getxattr":
        assert told == b"3"
    elif name == "listxattr":
        assert told == [b"user.ffrfs.record"]


@pytest.mark.promise("S18")
@pytest.mark.parametrize("number", [errno.ECONNABORTED, errno.ENOMEM])
def test_aborted_connection_during_a_receive_is_no_error(number: int) -> None:
    """As in pyfuse3.main(), the error comes from a task of a nursery."""

    async def receive() -> None:
        raise OSError(number, "fuse_session_receive_buf failed")

    async def main() -> None:
        with _aborted_is_ended():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)

    if number == errno.ECONNABORTED:
        trio.run(main)
    else:
        with pytest.raises(ExceptionGroup):
            trio.run(main)
