"""The page of an Example or SequenceExample: its features, and its picture with annotations; and
the boxes over its thumbnail in the gallery.

Not here: which features are annotations (annotations.py), what a feature holds (rows.py). Records
are hostile: a page has a bounded number of values. Stateless; any thread.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ffrfs.convert.example_json import parse_record
from ffrfs.errors import FfrfsError, PathNotFoundError, TooLargeError, describe
from ffrfs.remote.paths import absolute
from ffrfs.view.annotations import PARAMETERS, ROLES, annotate
from ffrfs.view.collection import Collection
from ffrfs.view.features import (
    RECORD_SIZE_MAX,
    Column,
    Declared,
    columns,
    columns_of,
    declared_in,
    step_count,
)
from ffrfs.view.page import collection_of, link, page, whole_number
from ffrfs.view.plain import hex_dump
from ffrfs.view.rows import PREVIEW_COUNT, row
from ffrfs.view.safe_bytes import Content

_FEATURES_MAX = 500
# Limits for all features together: values in HTML and in JSON, and bytes in JSON.
_VALUES_MAX, _JSON_VALUES_MAX, _BASE64_MAX = 10_000, 100_000, 16 << 20
_TILE_BOXES_MAX = 100
_EXIF = b"Exif\0\0"


def example_page(request: Request) -> Response:
    collection = collection_of(request)
    key = request.query_params.get("key", "")
    facts = collection.facts(key)
    file = absolute(facts.pack)
    previous, following = collection.neighbours(key)
    given = {name: request.query_params.get(name, "")[:4096] for name in PARAMETERS}
    values: dict[str, Any] = {
        "key": key,
        "count": collection.count,
        "facts": facts,
        "previous": previous,
        "next": following,
        "given": given,
        "commands": {
            "python": "from ffrfs.tfrecord import Example, TFRecordReader\n"
            f"record = TFRecordReader({file!r}).read_one({facts.record})\n"
            "example = Example.FromString(record)",
            "shell": f"ffrfs cat --example {shlex.quote(file)} {facts.record}",
        },
        **dict.fromkeys(("damage", "kind", "title"), None),
        "is_too_large": facts.size > RECORD_SIZE_MAX,
        "step": 0,
        "drawn": {},
        "notes": [],
    }
    try:
        if values["is_too_large"]:
            raise TooLargeError(
                f"{facts.pack}: record {facts.record} has {facts.size:,} bytes; pages show "
                f"the features of Examples of at most {RECORD_SIZE_MAX >> 20} MiB"
            )
        record = collection.read(key)
    except FfrfsError as error:
        return page(request, "example.html", {**values, "damage": str(error)}, 500)
    return page(
        request, "example.html", {**values, **_content(request, record, facts.pack, values)}
    )


def _content(
    request: Request, record: bytes, file: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    message = parse_record(record)
    if message is None:
        return hex_dump(Content("", len(record), lambda at, size: record[at : at + size]), 0)
    steps = step_count(message)
    step = whole_number(request, "step", 0, max(steps - 1, 0))
    found = {column.name: column for column in columns(message, step)}
    declared, notes = _declared(file)
    marked = annotate(
        found,
        values["given"],
        lambda feature, index: link("/bytes", key=values["key"], feature=feature, index=index),
        {name: one.classes for name, one in declared.items()},
    )
    shown = list(found.values())[:_FEATURES_MAX]
    if len(shown) < len(found):
        notes.append(f"The first {len(shown):,} of {len(found):,} features are shown.")
    is_json, each = request.query_params.get("format") == "json", max(len(shown), 1)
    limit = max((_JSON_VALUES_MAX if is_json else _VALUES_MAX) // each, PREVIEW_COUNT)
    base64_max = _BASE64_MAX // each if is_json else -1
    return {
        "kind": type(message).__name__,
        "rows": [row(column, declared.get(column.name), limit, base64_max) for column in shown],
        "preview": PREVIEW_COUNT,
        "step": step,
        "step_count": steps,
        "roles": ROLES,
        "guessed": marked.features,
        "title": marked.title,
        "classes": marked.classes,
        "drawn": marked.drawn,
        "notes": notes + marked.notes,
    }


def _declared(file: str) -> tuple[dict[str, Declared], list[str]]:
    """Return the declarations beside a file, or a note why they cannot be read."""
    try:
        return declared_in(os.path.dirname(file)), []
    except (FfrfsError, OSError) as error:
        return {}, [describe(error)]


def tile_boxes(request: Request) -> Response:
    """Return the boxes as parts of the picture's sides: its thumbnail has other pixels."""
    collection, key = collection_of(request), request.query_params.get("key", "")
    return JSONResponse({"boxes": _tile_boxes(collection, key)[:_TILE_BOXES_MAX]})


def _tile_boxes(collection: Collection, key: str) -> list[tuple[list[float], str]]:
    if collection.kind != "examples" or collection.item(key).size > RECORD_SIZE_MAX:
        raise PathNotFoundError(f"{collection.name}: {key[:20]} has no boxes for a thumbnail")
    found = columns_of(collection.read(key))
    declared, _ = _declared(collection.facts(key).pack)
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


ROUTES = [Route("/boxes", tile_boxes)]
