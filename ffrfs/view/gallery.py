"""The gallery: thumbnails of the items, by number or by directory."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ffrfs.view.page import collection_of, page, whole_number

_PAGE_COUNT = 100


def gallery(request: Request) -> Response:
    collection = collection_of(request)
    first = whole_number(request, "at", 0, collection.count)
    path = request.query_params.get("folder")
    if path is None:
        items, has_more = collection.numbered(first, _PAGE_COUNT), first + 100 < collection.count
    else:
        items, has_more = collection.folder(path, first, _PAGE_COUNT)
    values = {"items": items, "first": first, "has_more": has_more, "folder": path}
    return page(request, "gallery.html", values)


ROUTES = [Route("/", gallery)]
