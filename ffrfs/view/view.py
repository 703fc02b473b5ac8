"""view(): open a data set, serve its pages, and say where.

Concurrency: the server runs in a thread of its own, with its own trio loop, until close().
"""

from __future__ import annotations

import contextlib
import html
import logging
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio

from ffrfs.errors import FfrfsError, MissingPackageError, OptionError
from ffrfs.files.closing import Closing
from ffrfs.folder.tree import PathType
from ffrfs.view.opening import Opened, open_sources

_NEEDED = "starlette anyio hypercorn jinja2"
with MissingPackageError.instead(_NEEDED, f"pages need {_NEEDED.replace(' ', ', ')}", "view"):
    from ffrfs.view.app import make_app
    from ffrfs.view.server import Listener, listen, serve

log = logging.getLogger(__name__)

_CLOSE_S: Final = 5.0  # for requests that still read: one at a server that stalls takes long
_LOOK_S: Final = 1.0  # Python's waits do not see a signal that came in the moment before them

if TYPE_CHECKING:
    from ffrfs.schema.messages import Proto


class View(Closing):
    """A server of pages. In a notebook it shows itself; `url` opens it in a browser."""

    def __init__(self, sets: Sequence[Opened], schema: Proto | None, listener: Listener) -> None:
        self.url = listener.link
        self._sets = sets
        self._listener = listener
        self._app = make_app(sets, schema)
        self._scope: trio.CancelScope | None = None
        self._trio: trio.lowlevel.TrioToken | None = None
        self._has_begun = threading.Event()
        # Thread.join() would not do: Python 3.11 takes a thread for ended if a join is interrupted.
        self._has_ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._has_begun.wait()

    def _run(self) -> None:
        try:
            trio.run(self._serve)
        except Exception as error:
            self._failure = error
            log.error("the server has ended: %r", error)
        finally:
            self._has_begun.set()  # also if it could not begin
            try:
                self._close_data()
            finally:
                self._has_ended.set()

    def _close_data(self) -> None:
        """Close the data set that requests read: after the last request, however late it ends."""
        with contextlib.ExitStack() as closing:
            for one in self._sets:
                closing.callback(one.collection.close)
            self._app.state.closing.close()

    async def _serve(self) -> None:
        with trio.CancelScope() as self._scope:
            self._trio = trio.lowlevel.current_trio_token()
            self._has_begun.set()
            await serve(self._app, self._listener)

    def wait(self) -> None:
        """Wait until close() is called, or KeyboardInterrupt comes.

        Raises FfrfsError if the server has ended by itself.
        """
        while not self._has_ended.wait(_LOOK_S):
            pass
        if self._failure is not None:
            name = self._sets[0].collection.name
            raise FfrfsError(f"{name}: the server of its pages has ended") from self._failure

    def close(self) -> None:
        """End the server, and close the data set.

        If a request still reads after some seconds, the data set is closed when that ends.
        """
        if self._has_ended.is_set() or not self._thread.is_alive():  # a fork has no such thread
            return
        state = self._app.state
        for work in (*state.statistics, state.scrub.job, state.choices):
            work.cancel()
        if self._trio is not None and self._scope is not None:
            with contextlib.suppress(trio.RunFinishedError):
                self._trio.run_sync_soon(self._scope.cancel)
        if not self._has_ended.wait(_CLOSE_S):
            name = self._sets[0].collection.name
            log.warning("%s: a request still reads; it is left behind", name)

    def _repr_html_(self) -> str:
        return f'<iframe src="{html.escape(self.url)}" width="100%" height="720"></iframe>'

    def __repr__(self) -> str:
        return f"View({self.url!r})"


def view(
    source: PathType | Sequence[PathType],
    *,
    second: PathType | Sequence[PathType] | None = None,
    schema: PathType | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
) -> View:
    """Serve pages about `source`: a pack, a set, TFRecord files, a TFDS directory, a mount, a URL.

    `second`: another data set, which statistics compare with. `schema`: a file that `ffrfs schema
    infer` wrote, which they are checked against. `port` 0: a free one. Only this
    machine reaches it, unless `host` is another address of it, and only with the token that is
    in `url`. Raises FormatError or OSError for a source that cannot be opened, OSError for a
    port that is in use.
    """
    return serve_pages(source, second, schema, (host, port), is_framed=True)


def serve_pages(
    source: PathType | Sequence[PathType],
    second: PathType | Sequence[PathType] | None,
    schema: PathType | None,
    address: tuple[str, int],
    *,
    is_framed: bool,
) -> View:
    """Do what view() does. `is_framed`: a notebook on this machine may show pages in a frame."""
    expected = None
    if schema is not None:
        from ffrfs.schema import Schema, load

        expected = load(schema, Schema)
    with contextlib.ExitStack() as failed:
        sets = []
        for one in (source,) if second is None else (source, second):
            sets.append(open_sources(one))
            failed.callback(sets[-1].collection.close)
        if sets[-1].collection.kind != sets[0].collection.kind:
            raise OptionError(f"{sets[-1].collection.name}: files and Examples are not compared")
        if expected is not None and sets[0].collection.kind == "files":
            raise OptionError(f"{sets[0].collection.name}: its files have no features for a schema")
        listener = listen(os.fspath(address[0]), address[1], is_framed=is_framed)
        failed.pop_all()
    return View(sets, expected, listener)
