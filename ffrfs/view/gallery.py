"""The gallery: thumbnails of the items, by number or by directory."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ffrfs.view.collection import Item, Kind
from ffrfs.view.page import collection_of, link, page, path_parameter, whole_number

_PAGE_COUNT = 100
_LETTERS_MAX = 5
_SIDE = 240  # pixels of thumbnails
# Files with another extension are not asked for a thumbnail.
_PICTURES = frozenset(
    ("", "jpg", "jpeg", "jpe", "png", "gif", "webp", "bmp", "tif", "tiff", "ppm", "pgm", "pbm")
)
_RUN = secrets.token_urlsafe(6)  # browsers keep thumbnails for this run of the program


@dataclass(frozen=True, slots=True)
class Tile:
    """An item as the gallery shows it. `letters`: what is shown where there is no thumbnail."""

    key: str
    name: str
    kind: Kind
    size: int
    folder: str
    letters: str
    url: str
    thumbnail: str | None


def tile(item: Item) -> Tile:
    is_folder = item.kind == "folder"
    extension = extension_of(item.name) if item.kind == "file" else ""
    has_thumbnail = item.kind == "example" or (item.kind == "file" and extension in _PICTURES)
    return Tile(
        item.key,
        item.name,
        item.kind,
        item.size,
        folder=item.key.rpartition("/")[0],
        letters=extension[:_LETTERS_MAX] or item.kind,
        url=link("/", folder=item.key) if is_folder else link("/item", key=item.key),
        thumbnail=link("/thumbnail", key=item.key, side=_SIDE, v=_RUN) if has_thumbnail else None,
    )


def extension_of(name: str) -> str:
    """Return "jpg" of "a.JPG"; "" if there is none."""
    return name.rpartition(".")[2].lower() if "." in name.lstrip(".") else ""


def gallery(request: Request) -> Response:
    collection = collection_of(request)
    folder = path_parameter(request, "folder")
    first = whole_number(request, "at", 0, 1 << 60)
    total = None
    if folder is None:
        total = collection.count
        first = first if first < total else max(total - _PAGE_COUNT, 0)
        items, has_more = collection.numbered(first, _PAGE_COUNT), first + _PAGE_COUNT < total
    else:
        items, has_more = collection.folder(folder, first, _PAGE_COUNT)
    values = {
        "items": [tile(item) for item in items],
        "first": first,
        "total": total,
        "before": max(first - _PAGE_COUNT, 0) if first else None,
        "after": first + _PAGE_COUNT if has_more else None,
        "folder": folder,
        "crumbs": _crumbs(folder),
    }
    return page(request, "gallery.html", values)


def _crumbs(folder: str | None) -> list[tuple[str, str]]:
    """Return name and URL of each directory on the way to `folder`."""
    names = [name for name in (folder or "").split("/") if name]
    return [
        (name, link("/", folder="/".join(names[: depth + 1]))) for depth, name in enumerate(names)
    ]


ROUTES = [Route("/", gallery)]
