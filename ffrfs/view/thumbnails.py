"""Thumbnails: made by a few child processes (shrink.py), and kept in memory by checksum.

A picture is hostile: a picture that exceeds the limits of a child, of memory or time, has no
thumbnail, and the next picture gets a new child. Concurrency: any thread; as many pictures are in
memory as there are children.
"""

from __future__ import annotations

import hashlib
import os
import queue
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ffrfs.view.annotations import picture_feature
from ffrfs.view.child import Child, EndedError
from ffrfs.view.features import columns_of
from ffrfs.view.page import collection_of, path_parameter, whole_number

_CHILDREN_MAX = 4
_KEPT_SIZE = 64 << 20  # bytes of thumbnails
_PICTURE_SIZE_MAX = 32 << 20
_SIDE_MAX = 1024
_WAIT_S = 15  # for a child that does not compute: the kernel ends others earlier
_BEGINS = (b"\xff\xd8\xff", b"\x89PNG\r\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_PIXMAPS = (b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")


def is_picture(data: bytes) -> bool:
    """Return whether the bytes begin like a picture of which thumbnails are made."""
    return (
        data.startswith(_BEGINS)
        or (data.startswith(_PIXMAPS) and data[2:3].isspace())
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
    )


def picture_of(record: bytes) -> bytes | None:
    """Return the picture that the page of an Example shows, or else the first one by name."""
    found = columns_of(record)
    name = picture_feature(found)
    chosen = [found[name]] if name is not None else found.values()
    values = (bytes(value) for one in chosen if one.kind == "bytes" for value in one.values)
    return next(filter(is_picture, values), None)


class _KilledError(Exception):
    """A child was killed, or the machine was too busy for it: its picture may be a good one."""


class Thumbnails:
    """`seconds`: of CPU time that a child may take for a picture."""

    def __init__(self, seconds: int = 5) -> None:
        self._seconds = seconds
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._kept_size = 0
        self._lock = threading.Lock()
        # The child that was used last comes first, so that few are started if few are needed.
        self._children: queue.LifoQueue[Child | None] = queue.LifoQueue()
        self._count = max(2, min(_CHILDREN_MAX, os.cpu_count() or 1))
        for _ in range(self._count):
            self._children.put(None)

    def make(self, read: Callable[[], bytes | None], side: int) -> bytes | None:
        """Return a thumbnail of the picture from `read`; None: it is none, or too large.

        Raises _KilledError.
        """
        child = self._children.get()
        try:
            picture = read()
            if picture is None or not is_picture(picture):
                return None
            key = hashlib.sha256(picture).digest() + side.to_bytes(2, "big")
            made = self._find(key)
            if made is None:
                if child is None or child.process.poll() is not None:
                    child = Child("ffrfs.view.shrink", str(self._seconds))
                made = _ask(child, side.to_bytes(2, "big") + picture)
                self._keep(key, made)
            return made or None
        finally:
            self._children.put(child)

    def _find(self, key: bytes) -> bytes | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: bytes, made: bytes) -> None:
        with self._lock:
            self._kept_size += len(made) - len(self._kept.get(key, b""))
            self._kept[key] = made
            while self._kept_size > _KEPT_SIZE or len(self._kept) > _KEPT_SIZE >> 10:
                self._kept_size -= len(self._kept.popitem(last=False)[1])

    def close(self) -> None:
        """Wait for thumbnails in work, and end the children."""
        for _ in range(self._count):
            if child := self._children.get():
                child.end()


def _ask(child: Child, request: bytes) -> bytes:
    """Return the child's answer. b"": it is no picture, or took too much, which ended the child.

    Raises _KilledError.
    """
    try:
        with child.within(_WAIT_S):
            child.send(request)
            return child.receive(4 << 20)
    except EndedError:
        child.end()
        if child.process.returncode == -signal.SIGKILL:  # no limit of the child's ends it so
            raise _KilledError from None
        return b""


def thumbnail(request: Request) -> Response:
    collection = collection_of(request)
    key = path_parameter(request, "key") or ""
    side = max(16, whole_number(request, "side", 240, _SIDE_MAX))

    def read() -> bytes | None:
        item = collection.item(key)
        if item.kind in ("folder", "link") or item.size > _PICTURE_SIZE_MAX:
            return None
        found = collection.read(key)
        return picture_of(found) if item.kind == "example" else found

    try:
        made = request.app.state.thumbnails.make(read, side)
    except _KilledError:  # another request tries again
        return Response(status_code=204)
    # `v` is of this run of the server: another one may show another data set here.
    keep = {"cache-control": "private, max-age=86400"} if "v" in request.query_params else None
    if made is None:  # not 404, which browsers report as an error of the page
        return Response(status_code=204, headers=keep)
    kind = "image/jpeg" if made.startswith(b"\xff\xd8") else "image/webp"
    return Response(made, media_type=kind, headers=keep)


ROUTES = [Route("/thumbnail", thumbnail)]
