"""Files of web servers: pinned, read by ranges, listed. Redirects are followed within a server.

A redirect may name any place: another port of the host, a machine that only this one can reach,
the service that gives a machine its credentials. obstore follows them all, so requests to web
servers use the standard library, which also reads listings, pages without a length.

Not here: the files that a page names (http_listing.py), comparing with a pin, and trying again
(object_origin.py), the meaning of failures (failures.py).
Concurrency: asyncio; threads wait for servers, and a request that is cancelled loses its
connection.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import os
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from typing import TypeAlias, TypeVar
from urllib.parse import quote, unquote, urljoin, urlsplit

from ffrfs.errors import RemoteError
from ffrfs.remote.failures import (
    NO_LENGTH,
    OTHER_BYTES,
    REDIRECTS,
    WHOLE_FILES,
    BadStatusError,
    changed,
)
from ffrfs.remote.http_line import Line
from ffrfs.remote.http_listing import names_in, server_of
from ffrfs.remote.object_origin import ObjectOrigin, refuse_page
from ffrfs.remote.pin import Pin
from ffrfs.remote.receiving import Rest, buffers, threads
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.store import proxy_for
from ffrfs.remote.url import RemoteUrl

T = TypeVar("T")
Receive: TypeAlias = Callable[[HTTPResponse], T]

_CONNECT_S = 5.0
_PAGE_MAX = 16 << 20
_IDLE_MAX = 64
_IDLE_S = 30.0  # a connection that was idle longer is not used: it may have been closed
_AHEAD = 5  # connections: a mount begins with the ends of a pack, and then reads its index
_AHEAD_S = 1.0  # a server that takes longer may serve one connection at a time
_STEP_SIZE = 128 << 10  # bytes that are lost if a connection is reset
_TOLD_MAX = 4096  # bytes of a refusal's body that are read
_REDIRECTS_MAX = 5
_SAFE = ":/?#[]@!$&'()*+,;=%~"  # kept in a target; users may write spaces and other letters raw
_RANGE = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", re.ASCII)
_LENGTH = re.compile(r"\d{1,19}", re.ASCII)
_NS = 10**9
_TIME_MAX_S = (1 << 63) // _NS


class HttpOrigin(ObjectOrigin):
    """The Origin for http:// and https://."""

    async def _pin_once(self, url: RemoteUrl, silence_s: float) -> Pin:
        server = self._server(url)
        server.connect_ahead()
        patience = asyncio.get_running_loop().call_later(_AHEAD_S, server.disconnect_idle)
        try:
            first = {"Range": "bytes=0-0"}
            answer = await server.ask("GET", _target(url), first, _up_to(1), silence_s)
        except BadStatusError as error:
            if error.status != 416:  # 416: an empty file has no first byte
                raise
            answer = await server.ask("HEAD", _target(url), {}, _up_to(0), silence_s)
        finally:
            patience.cancel()
        refuse_page(url, answer.headers.get("Content-Type", ""))
        if answer.status == 200 and answer.size > 0:
            raise RemoteError.at(url.shown, WHOLE_FILES)
        return answer.pin(url)

    async def _read_once(
        self, pin: Pin, rest: Rest, silence_s: float, version: str | None = None
    ) -> None:
        part = rest.part
        headers = {"Range": f"bytes={part.start}-{part.stop - 1}"}
        if pin.etag is not None and not pin.etag.startswith("W/"):  # a weak ETag never matches
            headers["If-Match"] = pin.etag
        receive = functools.partial(_receive, pin, rest)
        try:
            server = self._server(pin.url)
            await server.ask("GET", _target(pin.url), headers, receive, silence_s)
        except BadStatusError as error:
            if error.status in (404, 410):
                raise changed(pin.url) from None
            raise

    async def _list_once(self, url: RemoteUrl, silence_s: float) -> list[str]:
        receive = _up_to(_PAGE_MAX + 1)
        answer = await self._server(url).ask("GET", _target(url), {}, receive, silence_s)
        if len(answer.data) > _PAGE_MAX:
            raise RemoteError.at(url.shown, f"its listing has more than {_PAGE_MAX >> 20} MiB")
        names = names_in(answer.data.decode("utf-8", "replace"), url)
        if not names:
            raise RemoteError.at(
                url.shown, "the server lists no files here (autoindex); name the files one by one"
            )
        return list(names)

    def _server(self, url: RemoteUrl) -> _Server:
        return _server(url.scheme, url.bucket, self._settings)


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: HTTPMessage
    data: bytes = b""

    @property
    def size(self) -> int:
        """The size of the whole file; -1 if the answer does not say."""
        if (found := self._range()) is not None:
            return int(found[3])
        length = self.headers.get("Content-Length", "") if self.status == 200 else ""
        return int(length) if _LENGTH.fullmatch(length) else -1

    @property
    def part(self) -> range:
        found = self._range()
        return range(0) if found is None else range(int(found[1]), int(found[2]) + 1)

    def pin(self, url: RemoteUrl) -> Pin:
        """Return the pin of the answer. Raises RemoteError for hostile sizes and ETags."""
        size = self.size
        if size < 0:
            raise RemoteError.at(url.shown, NO_LENGTH)
        mtime_ns = _time_ns(self.headers.get("Last-Modified", ""))
        return Pin(url, size, self.headers.get("ETag"), None, mtime_ns).checked()

    def _range(self) -> re.Match[str] | None:
        return _RANGE.fullmatch(self.headers.get("Content-Range", ""))


@functools.lru_cache(maxsize=64)
def _time_ns(text: str) -> int:
    """Return the time of a Last-Modified, or 0 if it is missing or cannot be parsed."""
    try:
        seconds = int(parsedate_to_datetime(text).timestamp())
    except (ValueError, OverflowError, TypeError, IndexError):
        return 0
    return seconds * _NS if 0 <= seconds < _TIME_MAX_S else 0


class _Server:
    """A host and port, with idle connections for the next requests."""

    def __init__(self, scheme: str, place: str, settings: RemoteSettings) -> None:
        self._scheme, self._place = scheme, place
        self._timeout_s = settings.timeout_s
        self._idle: list[Line] = []  # methods of a list are atomic
        self._is_new = True
        self._tls = ssl.create_default_context() if scheme == "https" else None
        self._prefix, self._proxy, self._extra = "", "", {"User-Agent": "ffrfs"}
        if proxy := proxy_for(scheme, place):
            self._use_proxy(proxy)

    def _use_proxy(self, proxy: str) -> None:
        try:
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            is_good = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_good = False
        if not is_good:
            why = f"its proxy ({self._scheme}_proxy) must be http://HOST:PORT"
            raise RemoteError.at(f"{self._scheme}://{self._place}", why)
        self._proxy = parts.netloc.rpartition("@")[2]
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._extra["Proxy-Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        if self._tls is None:
            self._prefix = f"http://{self._place}"

    def connect_ahead(self) -> None:
        """Connect a few lines beside the first request, which saves the next ones a round trip."""
        if self._is_new:
            self._is_new = False
            for _ in range(_AHEAD):
                threads().submit(self._connect, self._new())

    def disconnect_idle(self) -> None:
        self._idle.clear()

    def _connect(self, line: Line) -> None:
        with contextlib.suppress(OSError, HTTPException):  # requests report it
            line.http.connect()
            self._keep(line)

    def _keep(self, line: Line) -> None:
        line.idle_since_s = time.monotonic()
        self._idle.append(line)

    def _line(self) -> Line:
        with contextlib.suppress(IndexError):  # a thread may clear the list at any moment
            while True:
                line = self._idle.pop()  # the last one has waited least
                if time.monotonic() - line.idle_since_s < _IDLE_S:
                    return line
        return self._new()

    async def ask(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        receive: Receive[T],
        silence_s: float,
    ) -> T:
        """Send a request in a thread; return the result of `receive` for the response.

        Raises BadStatusError, OSError and others.
        """
        line = self._line()
        line.silence_s = silence_s
        work = threads().submit(self._ask, line, method, target, headers, receive)
        try:
            return await asyncio.wrap_future(work)
        except asyncio.CancelledError:
            line.give_up()
            self._idle.clear()
            raise

    def _new(self) -> Line:
        place = self._proxy or self._place
        timeout_s = min(_CONNECT_S, self._timeout_s)
        http = HTTPConnection(place, timeout=timeout_s)
        if self._tls is not None:
            http = HTTPSConnection(place, timeout=timeout_s, context=self._tls)
            if self._proxy:
                http.set_tunnel(self._place, headers=self._extra)
        return Line(http, self._proxy)

    def _ask(
        self, line: Line, method: str, target: str, headers: dict[str, str], receive: Receive[T]
    ) -> T:
        was_used = line.http.sock is not None
        response = None
        try:
            try:
                response = self._begin(line, method, target, headers)
            except ConnectionError:
                if not was_used or line.is_given_up:
                    raise
                line.http.close()  # the server has closed the idle connection
                response = self._begin(line, method, target, headers)
            result = receive(response)
        except BaseException as error:
            if response is not None:
                response.close()  # it has the socket if the server wants the connection closed
            line.http.close()
            if isinstance(error, TimeoutError) and was_used:
                self._idle.clear()  # these may be dead too, and each would cost a timeout
            raise
        if response.isclosed() and not response.will_close and len(self._idle) < _IDLE_MAX:
            self._keep(line)
        else:
            line.http.close()
        return result

    def _begin(self, line: Line, method: str, target: str, headers: dict[str, str]) -> HTTPResponse:
        """Return a response with status 200 or 206. Raises BadStatusError for any other status."""
        extra = self._extra if self._prefix or not self._proxy else {"User-Agent": "ffrfs"}
        for _ in range(1 + _REDIRECTS_MAX):
            line.open()
            line.http.request(method, self._prefix + target, headers=headers | extra)
            response = line.http.getresponse()
            if response.status in (200, 206):
                return response
            length = response.length
            told = response.read() if length is not None and length <= _TOLD_MAX else b""
            target = self._moved(response, target)
            if not target:
                response.close()
                raise BadStatusError(response.status, told.decode(errors="replace"))
            if not response.isclosed():  # the rest of its body is not read
                line.http.close()
        raise HTTPException("TooManyRedirects")

    def _moved(self, response: HTTPResponse, target: str) -> str:
        """Return the target of a redirect, or "" if none stays on this host and port."""
        place = response.headers.get("Location") if response.status in REDIRECTS else None
        if place is None:
            return ""
        try:
            here = f"{self._scheme}://{self._place}{target}"
            there = urlsplit(urljoin(here, place))
            if server_of(there) != server_of(urlsplit(here)):
                return ""
        except ValueError:
            return ""
        return quote(there._replace(scheme="", netloc="", fragment="").geturl(), safe=_SAFE)


def _up_to(size: int) -> Receive[_Answer]:
    """Return a function that reads at most `size` bytes, and none of a whole file for a part."""

    def receive(response: HTTPResponse) -> _Answer:
        length = response.length
        promised = size if length is None else min(size, length)
        if size == 1 and response.status == 200:
            promised = 0
        data = response.read(promised) if promised else b""
        if len(data) < promised and length is not None:
            raise _broken_off()
        return _Answer(response.status, response.headers, data)

    return receive


def _receive(pin: Pin, rest: Rest, response: HTTPResponse) -> None:
    """Receive the rest of a range. Raises RemoteError, before any byte, if it is another one."""
    answer = _Answer(response.status, response.headers)
    if answer.status == 200:
        raise RemoteError.at(pin.url.shown, WHOLE_FILES)
    if answer.pin(pin.url) != pin:
        raise changed(pin.url)
    if "Content-Length" not in answer.headers:
        raise RemoteError.at(pin.url.shown, NO_LENGTH)
    if answer.part != rest.part or response.length != len(rest.part):
        raise RemoteError.at(pin.url.shown, OTHER_BYTES)
    with buffers.one() as buffer:
        while rest.part:
            _receive_piece(response, buffer[: len(rest.part)], rest)


def _receive_piece(response: HTTPResponse, piece: memoryview, rest: Rest) -> None:
    """Receive a piece. If the connection breaks off, the bytes so far are kept."""
    size = 0
    try:
        while size < len(piece):
            count = response.readinto(piece[size : size + _STEP_SIZE])
            if not count:
                raise _broken_off()
            size += count
            rest.received += count
    finally:
        if size:
            rest.came(piece[:size])


def _broken_off() -> ConnectionResetError:
    return ConnectionResetError("IncompleteBody")


@functools.lru_cache(maxsize=256)
def _server(scheme: str, place: str, settings: RemoteSettings) -> _Server:
    return _Server(scheme, place, settings)


# After fork() a child must not use its parent's connections.
os.register_at_fork(after_in_child=_server.cache_clear)


def _target(url: RemoteUrl) -> str:
    text = f"/{url.key}" + (f"?{url.query}" if url.query else "")
    return quote(text, safe=_SAFE)
