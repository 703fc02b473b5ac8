"""The messages of a link as a client writes and reads them (native/remote/link_message.cc)."""

from __future__ import annotations

import struct

from ffrfs.remote.protocol import Answer, Ask, Request, Tell

_HEAD = struct.Struct("<IIQ")
_RANGE = struct.Struct("<QQ")
_OPENED = struct.Struct("<QqQ")
_MORE = struct.Struct("<I")


def message_of(request: Request) -> bytes:
    """Return the message by which a client sends a request."""
    head = _HEAD.pack(request.kind, request.object, request.id)
    match request.kind:
        case Ask.OPEN:
            return head + request.url.encode() + b"\0" + request.pin.encode()
        case Ask.LIST:
            return head + request.url.encode()
        case Ask.CANCEL | Ask.CLOSE:
            return head
        case _:
            return head + _RANGE.pack(request.first, request.count)


def parse_answer(message: bytes) -> Answer:
    """Return the answer that a fetcher's message holds."""
    number, target, id_ = _HEAD.unpack_from(message)
    body = message[_HEAD.size :]
    match kind := Tell(number):
        case Tell.OPENED:
            numbers = _OPENED.unpack_from(body)
            return Answer(kind, target, id_, *numbers, pin=body[_OPENED.size :].decode())
        case Tell.LISTED:
            *urls, end = body[_MORE.size :].decode().split("\0")
            assert end == ""
            return Answer(kind, target, id_, more=_MORE.unpack_from(body)[0] != 0, urls=tuple(urls))
        case Tell.FAILED:
            error, _, reason = body.decode().partition("\0")
            return Answer(kind, target, id_, error=error, reason=reason)
        case _:
            assert body == b""
            return Answer(kind, target, id_)
