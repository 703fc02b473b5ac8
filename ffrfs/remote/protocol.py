"""The messages between a fetcher and its clients: one datagram each, little-endian.

A client opens an object by its URL and gives it a number. Then it requests blocks of the object;
an answer has the id of its request. The native client is native/remote/object_link.cc. Every
request is checked before use: parse_request() raises ProtocolError, and the link ends. The native
client checks the answers.

    every message    u32 kind, u32 object, u64 id
    OPEN             UTF-8: url, zero byte, pin (empty: pin the object as it is now)
    LIST             UTF-8: a url that ends in "/"
    WANT SOON AGAIN  u64 first block, u64 number of blocks
    USED             the same: the client has read these blocks; no answer
    CANCEL           nothing; no answer, and none to the request of that id
    CLOSE            nothing; no answer
    OPENED           u64 size, i64 mtime_ns, u64 block size, UTF-8: pin; two descriptors
    LISTED           u32 more, UTF-8: urls, a zero byte after each
    READY            nothing
    FAILED           UTF-8: name of a class of ffrfs/errors.py, zero byte, one line without the URL
    MOVED            two descriptors

Not here: sockets (link.py), whether a range lies in its object (link.py).
No state: safe from any thread.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

from ffrfs.errors import FfrfsError

BLOCK_SIZE = 1 << 20
MESSAGE_SIZE_MAX = 64 << 10
BLOCKS_MAX = 4096  # in a request
REQUESTS_MAX = 4096  # open at a time, on one link
OBJECTS_MAX = 65536  # open at a time, on one link
URL_SIZE_MAX = 8192
PIN_SIZE_MAX = 16384
OBJECT_SIZE_MAX = 1 << 50

_HEAD = struct.Struct("<IIQ")
_RANGE = struct.Struct("<QQ")
_OPENED = struct.Struct("<QqQ")
_MORE = struct.Struct("<I")


class ProtocolError(FfrfsError, ValueError):
    """The other end has violated the protocol; the link ends."""


class Ask(IntEnum):
    """Kinds of messages of a client."""

    OPEN = 1
    LIST = 2
    WANT = 3
    SOON = 4
    AGAIN = 5
    USED = 6
    CANCEL = 7
    CLOSE = 8


class Tell(IntEnum):
    """Kinds of messages of a fetcher."""

    OPENED = 1
    LISTED = 2
    READY = 3
    FAILED = 4
    MOVED = 5


@dataclass(frozen=True)
class Request:
    """A message of a client; its kind says which fields are used."""

    kind: Ask
    object: int
    id: int
    first: int = 0
    count: int = 0
    url: str = ""
    pin: str = ""


@dataclass(frozen=True)
class Answer:
    """A message of a fetcher; its kind says which fields are used."""

    kind: Tell
    object: int
    id: int
    size: int = 0
    mtime_ns: int = 0
    block_size: int = BLOCK_SIZE
    pin: str = ""
    more: bool = False
    urls: tuple[str, ...] = ()
    error: str = ""  # name of a class of ffrfs/errors.py
    reason: str = ""

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(self.kind, self.object, self.id)
        match self.kind:
            case Tell.OPENED:
                numbers = _OPENED.pack(self.size, self.mtime_ns, self.block_size)
                return head + numbers + self.pin.encode()
            case Tell.LISTED:
                texts = b"".join(url.encode() + b"\0" for url in self.urls)
                return head + _MORE.pack(self.more) + texts
            case Tell.FAILED:
                text = self.error.encode() + b"\0" + self.reason.encode(errors="backslashreplace")
                return head + text[:URL_SIZE_MAX].decode(errors="ignore").encode()
            case _:
                return head


def parse_request(message: bytes) -> Request:
    """Parse a message of a client. Raises ProtocolError."""
    number, target, id_, body = _head(message)
    if number not in Ask._value2member_map_:
        _refuse(f"no request is of kind {number}")
    kind = Ask(number)
    match kind:
        case Ask.OPEN:
            if target >= OBJECTS_MAX:
                _refuse(f"object {target} of at most {OBJECTS_MAX:,}")
            url, zero, pin = body.partition(b"\0")
            if not zero or len(pin) > PIN_SIZE_MAX:
                _refuse("a request to open without end, or with too long a pin")
            return Request(kind, target, id_, url=_url(url), pin=_text(pin))
        case Ask.LIST:
            return Request(kind, target, id_, url=_url(body))
        case Ask.CANCEL | Ask.CLOSE:
            if body:
                _refuse(f"{len(body)} bytes too many")
            return Request(kind, target, id_)
        case _:
            if len(body) != _RANGE.size:
                _refuse(f"{len(body)} bytes where a range has {_RANGE.size}")
            first, count = _RANGE.unpack(body)
            if not 1 <= count <= BLOCKS_MAX or first > OBJECT_SIZE_MAX // BLOCK_SIZE:
                _refuse(f"{count:,} blocks from {first:,} on; at most {BLOCKS_MAX:,} at a time")
            return Request(kind, target, id_, first=first, count=count)


def listed(target: int, id_: int, urls: list[str]) -> list[Answer]:
    """Return the answers for a list, each within the limit of a message."""
    answers: list[Answer] = []
    part: list[str] = []
    room = MESSAGE_SIZE_MAX - _HEAD.size - _MORE.size
    left = room
    for url in urls:
        size = len(url.encode()) + 1
        if size > left:
            answers.append(Answer(Tell.LISTED, target, id_, more=True, urls=tuple(part)))
            part, left = [], room
        part.append(url)
        left -= size
    return [*answers, Answer(Tell.LISTED, target, id_, more=False, urls=tuple(part))]


def _head(message: bytes) -> tuple[int, int, int, bytes]:
    if not _HEAD.size <= len(message) <= MESSAGE_SIZE_MAX:
        _refuse(f"a message of {len(message):,} bytes")
    number, target, id_ = _HEAD.unpack_from(message)
    return number, target, id_, message[_HEAD.size :]


def _url(raw: bytes) -> str:
    if not raw or len(raw) > URL_SIZE_MAX:
        _refuse(f"a URL of {len(raw):,} bytes")
    return _text(raw)


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        _refuse("text that is not UTF-8")
    if "\0" in text:
        _refuse("a zero byte in a text")
    return text


def _refuse(what: str) -> NoReturn:
    raise ProtocolError(f"bad message: {what}")
