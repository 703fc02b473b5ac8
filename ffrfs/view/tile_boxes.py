"""`/boxes`: the boxes over the thumbnail of an Example in the gallery.

They are parts of the picture's sides, because a thumbnail has other pixels. Stateless; any thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ffrfs.convert.example_json import parse_record
from ffrfs.errors import PathNotFoundError
from ffrfs.view.annotations import annotate
from ffrfs.view.collection import Collection
from ffrfs.view.features import RECORD_SIZE_MAX, Column, columns, declared_in
from ffrfs.view.page import collection_of

_BOXES_MAX = 100
_EXIF = b"Exif\0\0"


def boxes(request: Request) -> Response:
    collection, key = collection_of(request), request.query_params.get("key", "")
    return JSONResponse({"boxes": _boxes(collection, key)[:_BOXES_MAX]})


def _boxes(collection: Collection, key: str) -> list[tuple[list[float], str]]:
    if collection.kind != "examples" or collection.item(key).size > RECORD_SIZE_MAX:
        raise PathNotFoundError(f"{collection.name}: {key[:20]} has no boxes for a thumbnail")
    message = parse_record(collection.read(key))
    found = {one.name: one for one in columns(message)} if message is not None else {}
    declared = declared_in(os.path.dirname(collection.facts(key).pack))
    names = {name: one.classes for name, one in declared.items()}
    marked = annotate(found, {}, lambda _feature, _index: "", names)
    picture = found[marked.features["image"]].values[0] if "image" in marked.features else b""
    # Thumbnails are turned as EXIF says, and boxes are those of the picture as it is stored.
    sides = _sides(found) if marked.drawn["pixels"] else (1.0, 1.0)
    if _EXIF in picture[:4096] or sides is None:
        return []
    return [
        ([at / sides[place % 2] for place, at in enumerate(box["at"])], box["label"])
        for box in marked.drawn["boxes"]
    ]


def _sides(found: Mapping[str, Column]) -> tuple[float, float] | None:
    """Return the picture's width and height, as features say; None if they do not."""
    for prefix in ("image/", ""):
        given = [found[prefix + side] for side in ("width", "height") if prefix + side in found]
        sides = [one.values for one in given if one.kind in ("int64", "float")]
        if len(sides) == 2 and all(len(one) == 1 and one[0] > 0 for one in sides):
            return float(sides[0][0]), float(sides[1][0])
    return None


ROUTES = [Route("/boxes", boxes)]
