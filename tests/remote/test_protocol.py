"""The messages of a link: each is read as it was written, and all others are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.remote.protocol import (
    BLOCKS_MAX,
    MESSAGE_SIZE_MAX,
    OBJECT_SIZE_MAX,
    OBJECTS_MAX,
    PIN_SIZE_MAX,
    URL_SIZE_MAX,
    Answer,
    Ask,
    ProtocolError,
    Request,
    Tell,
    listed,
    parse_request,
)
from tests.remote.messages import message_of, parse_answer

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200)
urls = texts.filter(bool)
numbers = st.integers(0, OBJECTS_MAX - 1)
ids = st.integers(0, 2**64 - 1)


@st.composite
def requests(draw) -> Request:
    kind = draw(st.sampled_from(Ask))
    match kind:
        case Ask.OPEN:
            return Request(kind, draw(numbers), draw(ids), url=draw(urls), pin=draw(texts))
        case Ask.LIST:
            return Request(kind, draw(numbers), draw(ids), url=draw(urls))
        case Ask.CANCEL | Ask.CLOSE:
            return Request(kind, draw(numbers), draw(ids))
        case _:
            first = draw(st.integers(0, OBJECT_SIZE_MAX >> 20))
            return Request(kind, draw(numbers), draw(ids), first, draw(st.integers(1, BLOCKS_MAX)))


@st.composite
def answers(draw) -> Answer:
    kind = draw(st.sampled_from(Tell))
    head = (kind, draw(numbers), draw(ids))
    match kind:
        case Tell.OPENED:
            size = draw(st.integers(0, OBJECT_SIZE_MAX))
            mtime_ns = draw(st.integers(-(2**63), 2**63 - 1))
            return Answer(*head, size, mtime_ns, pin=draw(texts))
        case Tell.LISTED:
            return Answer(*head, more=draw(st.booleans()), urls=tuple(draw(st.lists(urls))))
        case Tell.FAILED:
            return Answer(*head, error=draw(texts), reason=draw(texts))
        case _:
            return Answer(*head)


@given(requests())
def test_a_request_is_read_as_it_was_written(request: Request) -> None:
    assert parse_request(message_of(request)) == request


@given(answers())
def test_an_answer_is_read_as_it_was_written(answer: Answer) -> None:
    assert parse_answer(answer.to_bytes()) == answer


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(message: bytes) -> None:
    try:
        parse_request(message)
    except ProtocolError as error:
        assert "\n" not in str(error)


@given(requests(), st.data())
def test_a_damaged_request_is_read_or_refused(request: Request, data) -> None:
    message = bytearray(message_of(request))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(message[: data.draw(st.integers(0, len(message)))])
    try:
        parsed = parse_request(cut)
    except ProtocolError:
        return
    assert parsed.count <= BLOCKS_MAX and len(parsed.url.encode()) <= URL_SIZE_MAX


def head(kind: int, target: int = 0) -> bytes:
    return struct.pack("<IIQ", kind, target, 1)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0" * 15,
        head(0),
        head(9),
        head(2**32 - 1),
        head(Ask.OPEN) + b"file:///a",  # without its end
        head(Ask.OPEN) + b"\0",  # without a URL
        head(Ask.OPEN, OBJECTS_MAX) + b"file:///a\0",
        head(Ask.OPEN) + b"a" * (URL_SIZE_MAX + 1) + b"\0",
        head(Ask.OPEN) + b"a\0" + b"p" * (PIN_SIZE_MAX + 1),
        head(Ask.OPEN) + b"\xff\0",
        head(Ask.OPEN) + b"a\0pin\0more",
        head(Ask.LIST),
        head(Ask.LIST) + b"a\0b",
        head(Ask.WANT),
        head(Ask.WANT) + struct.pack("<QQ", 0, 0),
        head(Ask.WANT) + struct.pack("<QQ", 0, BLOCKS_MAX + 1),
        head(Ask.SOON) + struct.pack("<QQ", 2**64 - 1, 1),
        head(Ask.AGAIN) + struct.pack("<QQQ", 0, 1, 0),
        head(Ask.CANCEL) + b"x",
        head(Ask.LIST) + b"a" * MESSAGE_SIZE_MAX,
    ],
)
def test_bad_requests_are_refused(message: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_request(message)


@given(st.lists(urls, max_size=30), st.integers(1, 200))
def test_a_list_is_split_into_small_enough_messages(names: list[str], times: int) -> None:
    messages = [answer.to_bytes() for answer in listed(3, 4, names * times)]
    assert all(len(message) <= MESSAGE_SIZE_MAX for message in messages)
    parsed = [parse_answer(message) for message in messages]
    assert [url for answer in parsed for url in answer.urls] == names * times
    assert [answer.more for answer in parsed] == [True] * (len(parsed) - 1) + [False]


def test_a_long_reason_is_cut_where_a_character_ends() -> None:
    message = Answer(Tell.FAILED, 0, 1, error="RemoteError", reason="é" * 9000).to_bytes()
    assert parse_answer(message).reason.startswith("éé")
