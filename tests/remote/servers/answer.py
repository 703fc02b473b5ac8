"""The faulty server's answer to one request: a right one, or one with a fault.

Not here: connections, and how the bytes are sent (faulty_program.py).
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from enum import Enum, auto
from pathlib import Path
from urllib.parse import quote

from tests.remote.servers.fault import Fault, Kind

_PIECE = 32 << 10
_LOGIN = b"<!DOCTYPE html><html><body><form>Please sign in</form></body></html>"
_SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)


class End(Enum):
    """The end of an answer, after its body."""

    WELL = auto()
    RESET = auto()
    CLOSE = auto()
    STALL = auto()


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case


@dataclass
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: Iterable[bytes] = ()
    end: End = End.WELL

    @classmethod
    def of(cls, status: int, body: bytes, kind: str = "text/plain", **headers: str) -> Answer:
        fixed = {"content-length": str(len(body)), "content-type": kind}
        return cls(status, {**fixed, **headers}, [body])


def answer_to(request: Request, root: Path, fault: Fault | None) -> Answer:
    """Return the answer; `fault` fits the request, or is None."""
    if fault is not None and (made := _without_a_file(request, fault)) is not None:
        return made
    if request.method not in ("GET", "HEAD"):
        return Answer.of(405, b"only GET and HEAD\n")
    path = root / request.path.lstrip("/")
    if not path.exists() or not path.resolve().is_relative_to(root.resolve()):
        return Answer.of(404, b"no such file\n")
    if path.is_dir():
        return Answer.of(200, _listing(path), "text/html")
    status = path.stat()
    etag = f'"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}"'
    return _good(request, path, etag) if fault is None else _bad(request, path, etag, fault)


def _good(request: Request, path: Path, etag: str, *, honours_if_match: bool = True) -> Answer:
    """Return a right answer. RFC 9110: If-Match comes first, then the range."""
    wanted = request.headers.get("if-match")
    if honours_if_match and wanted not in (None, "*", etag):
        return Answer.of(412, b"the file has another ETag\n")
    status = path.stat()
    headers = {
        "etag": etag,
        "last-modified": formatdate(status.st_mtime, usegmt=True),
        "accept-ranges": "bytes",
        "content-type": "application/octet-stream",
    }
    size = status.st_size
    window = _window(request.headers.get("range", ""), size)
    if window is None:
        headers["content-length"] = str(size)
        return Answer(200, headers, _pieces(path, 0, size))
    begin, end = window
    if begin >= end:
        return Answer.of(416, b"no such range\n", **{"content-range": f"bytes */{size}"})
    headers["content-length"] = str(end - begin)
    headers["content-range"] = f"bytes {begin}-{end - 1}/{size}"
    return Answer(206, headers, _pieces(path, begin, end))


def _without_a_file(request: Request, fault: Fault) -> Answer | None:
    """Return an answer that does not depend on the file, or None."""
    made = None
    match fault.kind:
        case Kind.SLOW_DOWN:
            wait = {} if fault.seconds is None else {"retry-after": f"{fault.seconds:g}"}
            made = Answer.of(503, _SLOW_DOWN, "application/xml", **wait)
        case Kind.ERROR:
            made = Answer.of(500, b"out of order\n")
        case Kind.DENIED:
            made = Answer.of(403, b"not for you\n")
        case Kind.REDIRECT:
            made = Answer.of(307, b"", location=fault.location + quote(request.path))
        case Kind.LOGIN:
            made = Answer.of(200, _LOGIN, "text/html")
        case Kind.STALL:
            made = Answer(0, end=End.STALL)
        case Kind.ENDLESS_HEADER:
            made = Answer(0, body=_endless(b"x-filler: " + b"a" * 1000 + b"\r\n"))
    return made


def _bad(request: Request, path: Path, etag: str, fault: Fault) -> Answer:
    another = '"another"'
    match fault.kind:
        case Kind.CHANGED:
            return _good(request, path, another)
        case Kind.CHANGED_SILENTLY:
            return _good(request, path, another, honours_if_match=False)
        case Kind.WHOLE:
            request.headers.pop("range", None)
    answer = _good(request, path, etag)
    if answer.status not in (200, 206):
        return answer
    match fault.kind:
        case Kind.NO_ETAG:
            del answer.headers["etag"]
        case Kind.NO_VERSION:
            del answer.headers["etag"], answer.headers["last-modified"]
        case Kind.ODD_HEADERS:
            answer.headers |= {"etag": '"' + "x" * 5000 + '"', "last-modified": "yesterday"}
        case Kind.WRONG_BYTES:
            answer.body = (bytes(255 - byte for byte in piece) for piece in answer.body)
        case Kind.WRONG_RANGE | Kind.WRONG_TOTAL if "content-range" in answer.headers:
            answer.headers["content-range"] = _moved(answer.headers["content-range"], fault.kind)
        case Kind.ENDLESS:
            del answer.headers["content-length"]
            answer.body = _endless(b"e" * _PIECE)
        case Kind.RESET | Kind.SHORT | Kind.STALL_IN_BODY:
            ends = {Kind.RESET: End.RESET, Kind.SHORT: End.CLOSE, Kind.STALL_IN_BODY: End.STALL}
            answer.end = ends[fault.kind]
            answer.body = _begin(answer.body, int(answer.headers["content-length"]) // 2)
    return answer


def _moved(content_range: str, kind: Kind) -> str:
    begin, last, size = map(int, re.findall(r"\d+", content_range))
    if kind is Kind.WRONG_TOTAL:
        return f"bytes {begin}-{last}/{size + 1}"
    return f"bytes {begin + 1}-{last + 1}/{max(size, last + 2)}"


def _window(text: str, size: int) -> tuple[int, int] | None:
    """Return (first, end) of `bytes=FIRST-LAST`, `bytes=FIRST-` or `bytes=-COUNT`; else None."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", text)
    if found is None or found.group(0) == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size


def _pieces(path: Path, begin: int, end: int) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while begin < end:
            piece = os.pread(file.fileno(), min(_PIECE, end - begin), begin)
            if not piece:
                return
            yield piece
            begin += len(piece)


def _begin(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    for piece in pieces:
        yield piece[:size]
        size -= len(piece)
        if size <= 0:
            return


def _endless(piece: bytes) -> Iterator[bytes]:
    while True:
        yield piece


def _listing(folder: Path) -> bytes:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir())
    lines = [f'<a href="{quote(name)}">{html.escape(name)}</a>' for name in names]
    return ("<html><body><pre>\n" + "\n".join(lines) + "\n</pre></body></html>").encode()
