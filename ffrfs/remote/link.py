"""One client of a fetcher: its socket, its numbers for objects, its open requests.

The link checks all that the client sends; a violation of the protocol ends the link, with a
line in the log, and nothing else. While a client has too many requests, or does not read its
answers, the link reads nothing from it, which limits the memory for a client.

Not here: the bytes of messages (protocol.py), the order of fetching (schedule.py).
Concurrency: the fetcher's loop alone.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from ffrfs.errors import FfrfsError, OptionError, describe
from ffrfs.printable import printable
from ffrfs.remote.fetched_object import FetchedObject, Wait
from ffrfs.remote.protocol import (
    MESSAGE_SIZE_MAX,
    OBJECTS_MAX,
    REQUESTS_MAX,
    Answer,
    Ask,
    ProtocolError,
    Request,
    Tell,
    listed,
    parse_request,
)
from ffrfs.remote.schedule import Schedule
from ffrfs.remote.url import is_url

_OPEN_BLOCKS_MAX = 65536
_ANSWERS_MAX = 1024  # answers that the client has not taken yet
_MESSAGES_AT_A_TIME = 64  # then the loop serves other links

log = logging.getLogger(__name__)


class Home(Protocol):
    """The fetcher, as a link sees it."""

    schedule: Schedule

    async def open(self, url: str, pin: str, link: Link) -> FetchedObject:
        """Open the object; the link follows it from now on, until leave()."""
        ...

    def leave(self, target: FetchedObject, link: Link) -> None: ...

    async def list(self, url: str) -> list[str]: ...

    def ended(self, link: Link) -> None: ...


class Link:
    """The connection of one client, from its first message to its end."""

    def __init__(self, connection: socket.socket, home: Home) -> None:
        connection.setblocking(False)
        self._socket, self._home = connection, home
        self._loop = asyncio.get_running_loop()
        self._objects: dict[int, FetchedObject] = {}
        self._opening: dict[int, int] = {}  # number of an object → id of its OPEN
        self._tasks: dict[int, tuple[Request, asyncio.Task[None]]] = {}  # by request id
        self._waits: dict[int, tuple[int, FetchedObject, Wait]] = {}  # by request id
        self._open_blocks = 0
        self._answers: deque[tuple[Answer, FetchedObject | None]] = deque()  # not sent yet
        self._is_read = False
        self._has_ended = False
        self._read_on()

    def end(self) -> None:
        """Forget the client, and drop its requests that have not begun."""
        if self._has_ended:
            return
        self._has_ended = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        for _, task in self._tasks.values():
            task.cancel()
        for _, target, wait in self._waits.values():
            self._home.schedule.cancel(target, wait)
        for target in self._objects.values():
            self._home.leave(target, self)
        self._objects.clear()
        self._answers.clear()
        self._socket.close()
        self._home.ended(self)

    def moved(self, target: FetchedObject) -> None:
        """Send the client the object's new files."""
        for number, one in self._objects.items():
            if one is target:
                self._send(Answer(Tell.MOVED, number, 0), target)

    # Messages of the client.

    def _read_on(self) -> None:
        full = self._open_blocks > _OPEN_BLOCKS_MAX or len(self._answers) > _ANSWERS_MAX
        if full is not self._is_read or self._has_ended:
            return
        self._is_read = not full
        if self._is_read:
            self._loop.add_reader(self._socket, self._receive)
        else:
            self._loop.remove_reader(self._socket)

    def _receive(self) -> None:
        try:
            for _ in range(_MESSAGES_AT_A_TIME):
                message = self._socket.recv(MESSAGE_SIZE_MAX + 1)
                if not message:
                    self.end()
                if self._has_ended or not self._is_read:
                    return
                self._take(parse_request(message))
        except (BlockingIOError, InterruptedError):
            pass
        except ConnectionError:
            self.end()
        except ProtocolError as error:
            log.warning("a client of the fetcher was disconnected: %s", error)
            self.end()

    def _take(self, request: Request) -> None:
        match request.kind:
            case Ask.OPEN:
                self._expect(request.object not in self._objects, "a number in use", request)
                self._expect(request.object not in self._opening, "a number in use", request)
                self._expect(len(self._objects) < OBJECTS_MAX, "too many objects", request)
                self._start(request, self._open)
                self._opening[request.object] = request.id
            case Ask.LIST:
                self._start(request, self._list)
            case Ask.CANCEL:
                self._cancel(request.id)
            case Ask.CLOSE:
                self._close(request.object)
            case _:
                self._take_range(request)

    def _take_range(self, request: Request) -> None:
        target = self._objects.get(request.object)
        if target is None:
            raise ProtocolError(f"bad message: object {request.object} is not open")
        end = request.first + request.count
        self._expect(end <= target.block_count, "blocks beyond the end", request)
        if request.kind is Ask.USED:
            self._home.schedule.used(target, request.first, request.count)
            return
        self._check_id(request)
        wait = Wait(request.first, request.count, lambda error: self._finish_wait(request, error))
        self._open_blocks += request.count
        self._waits[request.id] = (request.object, target, wait)
        if request.kind is Ask.AGAIN:
            self._home.schedule.again(target, wait)
        else:
            self._home.schedule.want(target, wait, urgent=request.kind is Ask.WANT)
        self._read_on()

    def _finish_wait(self, request: Request, error: FfrfsError | None) -> None:
        self._open_blocks -= request.count
        self._waits.pop(request.id, None)
        self._answer(request, error)
        self._read_on()

    def _check_id(self, request: Request) -> None:
        known = request.id in self._waits or request.id in self._tasks
        self._expect(not known, "an id in use", request)
        count = len(self._waits) + len(self._tasks)
        self._expect(count < REQUESTS_MAX, "too many open requests", request)

    def _expect(self, fits: bool, what: str, request: Request) -> None:
        if not fits:
            raise ProtocolError(
                f"bad message: {what} ({request.kind.name}, object {request.object}, "
                f"id {request.id}, blocks {request.first}+{request.count})"
            )

    def _cancel(self, id_: int) -> None:
        if id_ in self._tasks:
            request, task = self._tasks[id_]
            task.cancel()
            self._finish(request)
        elif id_ in self._waits:
            _, target, wait = self._waits.pop(id_)
            self._open_blocks -= wait.count
            self._home.schedule.cancel(target, wait)
            self._read_on()

    def _close(self, number: int) -> None:
        """Close an object; its open requests get no answer."""
        if number in self._opening:
            self._cancel(self._opening[number])
        target = self._objects.pop(number, None)
        if target is None:
            return
        for id_ in [id_ for id_, (of, _, _) in self._waits.items() if of == number]:
            self._cancel(id_)
        # The files of answers that were not sent yet may be closed now.
        kept = [one for one in self._answers if one[1] is None or one[0].object != number]
        self._answers = deque(kept)
        self._home.leave(target, self)

    # Requests that take a while.

    def _start(
        self, request: Request, work: Callable[[Request], Coroutine[Any, Any, None]]
    ) -> None:
        self._check_id(request)
        self._tasks[request.id] = (request, self._loop.create_task(work(request)))

    def _finish(self, request: Request) -> None:
        """Forget the request; call it before the answer, after which the numbers are free again."""
        self._tasks.pop(request.id, None)
        if request.kind is Ask.OPEN:
            self._opening.pop(request.object, None)

    async def _open(self, request: Request) -> None:
        try:
            target = await self._home.open(request.url, request.pin, self)
        except Exception as error:
            self._finish(request)
            self._answer(request, error)
            return
        self._finish(request)
        if self._has_ended:
            self._home.leave(target, self)
            return
        self._objects[request.object] = target
        pin = target.pin
        text = pin.to_text() if pin.is_identified else ""  # "": the client caches no index of it
        opened = Answer(Tell.OPENED, request.object, request.id, pin.size, pin.mtime_ns, pin=text)
        self._send(opened, target)

    async def _list(self, request: Request) -> None:
        try:
            urls = await self._home.list(request.url)
        except Exception as error:
            self._finish(request)
            self._answer(request, error)
            return
        self._finish(request)
        for answer in listed(request.object, request.id, urls):
            self._send(answer)

    # Answers.

    def _answer(self, request: Request, error: Exception | None) -> None:
        if error is None:
            self._send(Answer(Tell.READY, request.object, request.id))
            return
        name = type(error).__name__ if isinstance(error, FfrfsError) else "RemoteError"
        if isinstance(error, OptionError):
            name = "OptionError"
        reason = describe(error)
        # The client names the object as its user does, since a URL has several spellings.
        if isinstance(error, FfrfsError) and error.reason and is_url(error.file or ""):
            reason = error.reason
        reason = printable(reason)
        self._send(Answer(Tell.FAILED, request.object, request.id, error=name, reason=reason))

    def _send(self, answer: Answer, target: FetchedObject | None = None) -> None:
        """Send the answer, with the files of `target`, or keep it until the client takes more.

        A kept answer gets the files of the time when it is sent, and so needs no descriptors now.
        """
        if self._has_ended or (not self._answers and self._sent(answer, target)):
            return
        if not self._answers:
            self._loop.add_writer(self._socket, self._send_more)
        self._answers.append((answer, target))

    def _sent(self, answer: Answer, target: FetchedObject | None) -> bool:
        message = answer.to_bytes()
        try:
            if target is not None:
                fds = [target.cached.data_fd, target.cached.state_fd]
                socket.send_fds(self._socket, [message], fds)
            else:
                self._socket.send(message)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            # Deferred, because the caller may be in the middle of a change.
            self._loop.call_soon(self.end)
        return True

    def _send_more(self) -> None:
        while self._answers and self._sent(*self._answers[0]):
            self._answers.popleft()
        if not self._answers and not self._has_ended:
            self._loop.remove_writer(self._socket)
        self._read_on()
