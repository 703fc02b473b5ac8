"""`/bytes`: the bytes of an item, made safe. Members are hostile: only bytes of a few types, which
browsers show and never run, are shown in place; all else is a download.

A type counts only if its first bytes say so and the name does not say otherwise. All answers are
sandboxed, and the guard adds `nosniff`. Bytes leave verified, in pieces of bounded size.

Not here: which bytes a feature of an Example has (features.py). Stateless; any thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ffrfs.errors import TooLargeError
from ffrfs.view.features import RECORD_SIZE_MAX, feature_bytes
from ffrfs.view.page import Streamed, collection_of, path_parameter, whole_number

_PIECE_SIZE = 4 << 20
_WHOLE_SIZE_MAX = 512 << 20  # of a record that must be read as a whole
_BEGIN_SIZE = 32
_SANDBOX = "default-src 'none'; sandbox"
# The first bytes of each type, and the extensions that promise nothing worse than a safe type.
_SIGNATURES = {
    "image/jpeg": rb"\xff\xd8\xff",
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF....WEBP",
    "image/bmp": rb"BM.{4}\0\0\0\0",
    "image/avif": rb"....ftypavi[fs]",
    "audio/wav": rb"RIFF....WAVE",
    "audio/flac": rb"fLaC",
    "audio/ogg": rb"OggS",
    "audio/mpeg": rb"ID3[\2-\4]|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]",
    "video/mp4": rb"....ftyp(?!avi|hei|mif)",
    "video/webm": rb"\x1a\x45\xdf\xa3",
}
_TYPES = {kind: re.compile(pattern, re.DOTALL) for kind, pattern in _SIGNATURES.items()}
_EXTENSIONS = r"\.(jpe?g?|png|gif|webp|bmp|avif|wav|flac|og[gav]|opus|mp[34]|m4[av]|webm)|"


class Content(NamedTuple):
    """`read(offset, size)` returns verified bytes, fewer at the end."""

    name: str
    size: int
    read: Callable[[int, int], bytes]


def safe_type(name: str, begin: bytes) -> str | None:
    """Return the media type of bytes that a browser may show in place, or None.

    A name without an extension is believed: records of plain FFRecord files have only numbers.
    """
    if not re.fullmatch(_EXTENSIONS, os.path.splitext(name)[1].lower()):
        return None
    return next((kind for kind, pattern in _TYPES.items() if pattern.match(begin)), None)


def _content(request: Request) -> Content:
    """Return the item that `key` names, or its `feature`. Raises PathNotFoundError."""
    collection = collection_of(request)
    key = path_parameter(request, "key") or ""
    if collection.kind == "files":
        size = collection.facts(key).size
        name = key.rstrip("/").rsplit("/", 1)[-1]
        return Content(name, size, lambda at, count: collection.read(key, at, count))
    item = collection.item(key)
    feature = request.query_params.get("feature")
    if item.size > (RECORD_SIZE_MAX if feature else _WHOLE_SIZE_MAX):
        raise TooLargeError(f"{collection.name}: record {key} is too large to be held as a whole")
    whole = collection.read(key)
    if feature:
        whole = feature_bytes(whole, feature, whole_number(request, "index", 0, 1 << 31))
        return Content(key, len(whole), lambda at, count: whole[at : at + count])
    return Content(f"{key}.bin", len(whole), lambda at, count: whole[at : at + count])


def safe_bytes(request: Request) -> Response:
    """Answer with the bytes, or with the part that `offset` and `size`, or a Range, ask for."""
    content = _content(request)
    first = whole_number(request, "offset", 0, content.size)
    left = content.size - first
    shown = range(first, first + whole_number(request, "size", left, left))
    begin = content.read(shown.start, min(_BEGIN_SIZE, len(shown)) or 1)
    kind = safe_type(content.name, begin[: len(shown)])
    name = quote(content.name.encode("utf-8", "replace"), safe="")
    headers = {
        "content-security-policy": _SANDBOX,
        "content-type": kind or "application/octet-stream",
        "content-disposition": f"{'inline' if kind else 'attachment'}; filename*=UTF-8''{name}",
        "accept-ranges": "bytes",
    }
    part = _asked_range(request, len(shown))
    if part is not None and not part:
        return Response(None, 416, {**headers, "content-range": f"bytes */{len(shown)}"})
    status = 200
    if part is not None:
        headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{len(shown)}"
        shown, status = shown[part.start : part.stop], 206
    headers["content-length"] = str(len(shown))
    if request.method == "HEAD":
        return Response(None, status, headers)
    return Streamed(_pieces(content, shown), status, headers)


def _pieces(content: Content, shown: range) -> Iterator[bytes]:
    """Yield the bytes. An error closes the connection early, so that clients notice it."""
    for offset in shown[::_PIECE_SIZE]:
        yield content.read(offset, min(_PIECE_SIZE, shown.stop - offset))


def _asked_range(request: Request, size: int) -> range | None:
    """Return the range that a Range header requests, empty if beyond; None for all, or several."""
    match = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", request.headers.get("range", ""), re.ASCII)
    if match is None or "if-range" in request.headers or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        return range(max(size - int(last), 0), size)
    end = min(int(last) + 1, size) if last else size
    return range(int(first), end) if int(first) < end else range(0)


ROUTES = [Route("/bytes", safe_bytes)]
