"""The gallery: thumbnails of the items, by number or by directory."""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ffrfs.errors import FormatError, OptionError
from ffrfs.view.choice import Query
from ffrfs.view.collection import Item
from ffrfs.view.page import (
    Streamed,
    collection_of,
    crumbs,
    link,
    opened,
    page,
    path_parameter,
    whole_number,
)

_PAGE_COUNT = 100
_PATHS_COUNT = 1000  # of a list that are sent at a time
_WAIT_S = 0.1  # then a page shows the items found so far
_LETTERS_MAX = 5
_SIDE = 240  # pixels of thumbnails
# Files with another extension are not asked for a thumbnail.
_PICTURES = frozenset(
    ("", "jpg", "jpeg", "jpe", "png", "gif", "webp", "bmp", "tif", "tiff", "ppm", "pgm", "pbm")
)
_RUN = secrets.token_urlsafe(6)  # browsers keep thumbnails for this run of the program


def tile(item: Item) -> dict[str, Any]:
    """Return an item as the gallery shows it; `letters` take the place of a missing thumbnail."""
    is_folder = item.kind == "folder"
    extension = extension_of(item.name) if item.kind == "file" else ""
    has_thumbnail = item.kind == "example" or (item.kind == "file" and extension in _PICTURES)
    picture = link("/thumbnail", key=item.key, side=_SIDE, v=_RUN) if has_thumbnail else None
    return asdict(item) | {
        "folder": item.key.rpartition("/")[0],
        "letters": extension[:_LETTERS_MAX] or item.kind,
        "url": link("/", folder=item.key) if is_folder else link("/item", key=item.key),
        "thumbnail": picture,
    }


def extension_of(name: str) -> str:
    """Return "jpg" of "a.JPG"; "" if there is none."""
    return name.rpartition(".")[2].lower() if "." in name.lstrip(".") else ""


def gallery(request: Request) -> Response:
    try:
        query = Query.of(request, _damaged(request) or ())
        shown = _all_items(request, query) if query.is_all else _chosen_items(request, query)
        status = 200
    except OptionError as error:
        shown, status = _shown([], 0, 0, has_more=False) | {"error": str(error)}, 400
    folder = path_parameter(request, "folder")
    values = {
        "folder": folder,
        "crumbs": [(name, link("/", folder=path)) for name, path in crumbs(folder or "")],
        "sample": _seed(request),
        "parameters": _parameters(request),
        "sources": opened(request).sources,
        "has_scrubbed": _damaged(request) is not None,
    }
    return page(request, "gallery.html", values | shown, status)


def _all_items(request: Request, query: Query) -> dict[str, Any]:
    collection = collection_of(request)
    count, first = collection.count, whole_number(request, "at", 0, 1 << 60)
    if _seed(request) is not None:
        # Some records of packs are indexes: other items are shown in their places.
        found: dict[int, Item] = {}
        for number in _sample(request, count):
            item = collection.by_number(number)
            if item is not None and len(found) < _PAGE_COUNT:
                found[number] = item
        return _shown([found[number] for number in sorted(found)], 0, count, has_more=False)
    if path_parameter(request, "folder") is not None:
        items, has_more = collection.folder(query.folder, first, _PAGE_COUNT)
        return _shown(items, first, None, has_more)
    first = first if first < count else max(count - _PAGE_COUNT, 0)
    items = collection.numbered(first, _PAGE_COUNT)
    return _shown(items, first, count, first + _PAGE_COUNT < count)


def _chosen_items(request: Request, query: Query) -> dict[str, Any]:
    """Return the items that a pass has found so far, with its progress."""
    choice = request.app.state.choices.find(query)
    first = whole_number(request, "at", 0, 1 << 60)
    choice.wait(_WAIT_S, first + _PAGE_COUNT + 1)
    progress, count = choice.job.progress(), choice.count
    choice.has_told = bool(progress.error) and not progress.is_running
    is_sample = _seed(request) is not None
    if first >= count and not progress.is_running:
        first = max(count - _PAGE_COUNT, 0)
    positions: Sequence[int] = range(first, first + _PAGE_COUNT)
    if is_sample:
        positions = () if progress.is_running else sorted(_sample(request, count)[:_PAGE_COUNT])
    items = choice.items(positions)
    shown = _shown(items, first, count, not is_sample and first + _PAGE_COUNT < count)
    return shown | {
        "progress": progress,
        "error": progress.error,
        "skipped": choice.skipped,
        "is_page_final": choice.is_sorted and len(items) == _PAGE_COUNT,
    }


def _shown(items: list[Item], first: int, total: int | None, has_more: bool) -> dict[str, Any]:
    return {
        "items": [tile(item) for item in items],
        "first": first,
        "total": total,
        "before": max(first - _PAGE_COUNT, 0) if first else None,
        "after": first + _PAGE_COUNT if has_more else None,
        "progress": None,
        "error": "",
        "skipped": 0,
        "is_page_final": True,
    }


def _seed(request: Request) -> int | None:
    text = request.query_params.get("sample", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _sample(request: Request, count: int) -> list[int]:
    return random.Random(_seed(request)).sample(range(count), min(count, _PAGE_COUNT + 20))


def _damaged(request: Request) -> list[int] | None:
    """Return the records that the scrub of the health page has found; None: it has not run."""
    scrub = request.app.state.scrub
    return list(scrub.damaged) if scrub.job.has_begun else None


def _parameters(request: Request) -> dict[str, str]:
    """Return the choices in the URL, without the place in them; "" if it chooses nothing."""
    names = [*Query.parameters(), "sample"]
    given = {name: path_parameter(request, name) for name in names}
    return {
        name: "/" if name == "folder" and value == "" else value or ""
        for name, value in given.items()
    }


def paths(request: Request) -> Response:
    """Send the keys of all that the gallery's URL chooses, for --files-from.

    `null=1`: each ends with a zero byte. Else a name with a line break ends the answer.
    """
    choice = request.app.state.choices.find(Query.of(request, _damaged(request) or ()))
    end = b"\0" if request.query_params.get("null") == "1" else b"\n"

    def lines() -> Iterator[bytes]:
        position, is_running = 0, True
        while is_running or position < choice.count:
            choice.wait(1, position + _PAGE_COUNT)
            is_running = choice.job.progress().is_running
            if is_running and not choice.is_sorted:
                yield b""  # here the answer ends if the client has left
                continue
            items = choice.items(range(position, position + _PATHS_COUNT))
            position += len(items)
            keys = [os.fsencode(item.key) for item in items]
            if any(end in key for key in keys):
                raise FormatError(f"{keys[0]!r} or another name has a line break: use null=1")
            yield b"".join(key + end for key in keys)
        if choice.job.result is None:
            choice.has_told = True
            # The answer breaks off, so that no browser keeps it.
            raise FormatError(choice.job.progress().error)

    headers = {"content-disposition": 'attachment; filename="paths.txt"'}
    return Streamed(lines(), media_type="text/plain; charset=utf-8", headers=headers)


ROUTES = [Route("/", gallery), Route("/paths", paths)]
