"""The application: which function answers which path, and what an error looks like.

Handlers are plain functions, so Starlette runs them in threads of a limited pool.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from ffrfs.errors import (
    FfrfsError,
    IsAFolderError,
    NotAFolderError,
    OptionError,
    PathNotFoundError,
    describe,
)
from ffrfs.view import (
    choice,
    example,
    gallery,
    health,
    item,
    live,
    safe_bytes,
    sandbox,
    statistics,
    thumbnails,
)
from ffrfs.view.opening import Opened
from ffrfs.view.page import page

if TYPE_CHECKING:
    from ffrfs.schema.messages import Proto

log = logging.getLogger(__name__)

_PAGES = (gallery, item, example, safe_bytes, thumbnails, statistics, health, live)
_ROUTES: list[BaseRoute] = [
    *(route for page in _PAGES for route in page.ROUTES),
    Mount("/static", StaticFiles(packages=[("ffrfs.view", "static")])),
]


def make_app(sets: Sequence[Opened], schema: Proto | None) -> Starlette:
    """Return the application of the first of `sets`.

    Statistics compare it with the second one. `schema`: the one they are checked against.
    """
    app = Starlette(
        routes=_ROUTES,
        exception_handlers={
            HTTPException: _http_error,
            FfrfsError: _data_error,
            OSError: _data_error,
            Exception: _fault,
        },
    )
    collection = sets[0].collection
    app.state.sets = sets
    app.state.closing = ExitStack()  # closed after the last request, before the data set
    app.state.thumbnails = thumbnails.Thumbnails()
    app.state.closing.callback(app.state.thumbnails.close)
    app.state.closing.callback(sandbox.end_ahead)
    app.state.schema = schema
    app.state.statistics = [statistics.statistics_job(one.collection) for one in sets]
    app.state.streams = 0
    app.state.scrub = health.Scrub(collection)
    for job in (*app.state.statistics, app.state.scrub):
        app.state.closing.callback(job.stop)
    app.state.choices = choice.Choices(collection)
    app.state.closing.callback(app.state.choices.close)
    return app


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return page(request, "error.html", {"error": error.detail}, error.status_code)


def _data_error(request: Request, error: Exception) -> Response:
    """Show an error of the data in its own words: they name the file and the record."""
    absent = PathNotFoundError | IsAFolderError | NotAFolderError
    status = 404 if isinstance(error, absent) else 400 if isinstance(error, OptionError) else 500
    return page(request, "error.html", {"error": str(error)}, status)


def _fault(request: Request, error: Exception) -> Response:
    """Log an unforeseen error and show it; the server, which gets it next, keeps no log."""
    log.error("%s: a fault of ffrfs", request.url.path, exc_info=error)
    text = f"a fault of ffrfs: {describe(error)}; the log of the viewer has the traceback"
    return page(request, "error.html", {"error": text}, 500)
