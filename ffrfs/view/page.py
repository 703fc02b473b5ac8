"""A page: the same values as HTML by a template, or as JSON for `?format=json`.

Templates escape what they show. In JSON a dataclass becomes an object, and a NamedTuple an array.
Bytes of names that are not valid UTF-8 are shown as replacement characters, in JSON as
surrogates (\\udc80 to \\udcff).
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.types import Send

from ffrfs.errors import FfrfsError, describe
from ffrfs.mount.stats import units
from ffrfs.printable import printable

if TYPE_CHECKING:
    from ffrfs.view.collection import Collection
    from ffrfs.view.opening import Opened

log = logging.getLogger(__name__)

_ENVIRONMENT = Environment(
    loader=PackageLoader("ffrfs.view"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def collection_of(request: Request) -> Collection:
    return opened(request).collection


def opened(request: Request) -> Opened:
    found: Opened = request.app.state.sets[0]
    return found


def page(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """Return `templates/{template}` with `values`, or the values as JSON."""
    if request.query_params.get("format") == "json":
        # JSON has no numbers that are not finite: they become text.
        found = json.loads(json.dumps(values, default=_plain), parse_constant=str)
        text = json.dumps(found)
        return Response(text, status, media_type="application/json")
    return Response(render(request, template, values), status, media_type="text/html")


def render(request: Request, template: str, values: Mapping[str, Any]) -> bytes:
    shown = _ENVIRONMENT.get_template(template).render(
        values, request=request, opened=opened(request), query=dict(request.query_params)
    )
    return shown.encode("utf-8", "replace")


class Streamed(StreamingResponse):
    """An answer in pieces. A client that leaves ends it at once, and so does an error of the data:
    the answer breaks off, so that clients notice it.
    """

    async def stream_response(self, send: Send) -> None:
        # Starlette leaves its generator to the garbage collector, which warns of it.
        pieces = cast("AsyncGenerator[bytes, None]", self.body_iterator)
        async with aclosing(pieces):
            try:
                await super().stream_response(send)
            except (FfrfsError, OSError) as error:
                log.warning("an answer breaks off: %s", describe(error))


def link(path: str, /, **parameters: object) -> str:
    """Return a URL of this server; parameters that are None or "" are left out."""
    given = {
        name: str(value).encode("utf-8", "surrogateescape")
        for name, value in parameters.items()
        if value not in (None, "")
    }
    return path + (f"?{urlencode(given)}" if given else "")


def onward(request: Request, parameter: str) -> Response:
    """Return a redirection to the same page without a parameter that begins or ends work.

    Otherwise the page, which reloads while work is under way, would begin the work each time.
    """
    rest = {name: value for name, value in request.query_params.items() if name != parameter}
    return RedirectResponse(link(request.url.path, **rest), 303)


def crumbs(folder: str) -> list[tuple[str, str]]:
    """Return name and path of each directory on the way to one, and its own."""
    names = [name for name in folder.split("/") if name not in ("", ".")]
    return [(name, "/".join(names[: depth + 1])) for depth, name in enumerate(names)]


def path_parameter(request: Request, name: str) -> str | None:
    """Return a parameter that is a path, of any bytes; None if it is missing.

    `request.query_params` would lose the bytes that are not UTF-8.
    """
    query = request.scope["query_string"].decode("ascii", "replace")
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    return dict(pairs).get(name)


def whole_number(request: Request, name: str, default: int, most: int) -> int:
    """Return a parameter that is a number from 0 to `most`; `default` if it is anything else."""
    text = request.query_params.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        return default
    return min(int(text), most)


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} is not shown as JSON")


_ENVIRONMENT.globals.update(link=link)
_ENVIRONMENT.filters.update(size=units.size, count="{:,}".format, printable=printable)
