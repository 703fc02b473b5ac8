"""The server: a listening socket, and hypercorn on trio behind the guard.

Concurrency: serve() runs until its task is cancelled. Handlers run in threads; _THREADS_MAX of
them read at once, and others wait their turn.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import anyio.to_thread
import trio
from hypercorn.trio import serve as serve_asgi
from starlette.applications import Starlette

from ffrfs.errors import OptionError
from ffrfs.printable import quoted
from ffrfs.view.connection import ConnectionConfig
from ffrfs.view.guard import Guard

_THREADS_MAX = 8
_IDLE_S = 30
_LOOPBACK = "127.0.0.1"
# Jupyter's own page, wherever it is served on this machine.
_NOTEBOOKS = "http://localhost:* http://127.0.0.1:*"


@dataclass
class Listener:
    """A bound socket, and the link to it. serve() closes it.

    `is_framed`: a notebook on this machine may show pages in a frame.
    """

    socket: socket.socket
    host: str
    port: int
    token: str
    is_framed: bool = False

    @property
    def _name(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def link(self) -> str:
        return f"http://{self._name}:{self.port}/?token={self.token}"

    @property
    def host_headers(self) -> set[str]:
        """Return the names by which a browser may address this server."""
        names = {self._name.lower()}
        if self.host == _LOOPBACK:
            names.add("localhost")
        # Browsers leave out the port of http.
        bare = names if self.port == 80 else set()
        return {f"{one}:{self.port}" for one in names} | bare


def listen(host: str = _LOOPBACK, port: int = 0, *, is_framed: bool = False) -> Listener:
    """Bind and listen. `port` 0: a free one. Raises OSError, which names host and port.

    `host` must be one address: OptionError.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(128)
        bound.setblocking(False)
    except TypeError:  # the codec of names
        bound.close()
        raise OptionError(f"{host}: is not a name of a host") from None
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"{error.strerror}: cannot listen", f"{host}:{port}") from None
    if bound.getsockname()[0] in ("0.0.0.0", "::"):  # which the guard takes for no name of ours
        bound.close()
        raise OptionError(
            f"{host or quoted(host)}: means all addresses; name one address of this machine"
        )
    # Browsers write an address in one way only, and send that.
    with contextlib.suppress(OSError):
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
        host = bound.getsockname()[0]
    return Listener(bound, host, bound.getsockname()[1], secrets.token_urlsafe(24), is_framed)


@contextlib.contextmanager
def _closing(listening: socket.socket) -> Iterator[None]:
    """Close the socket in the end, also for processes that were forked meanwhile."""
    with listening, listening.dup() as copy:  # hypercorn may have closed it before the end
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                copy.shutdown(socket.SHUT_RDWR)


async def serve(app: Starlette, listener: Listener) -> None:
    """Serve until cancelled."""
    config = ConnectionConfig(listener.socket)
    config.accesslog = None
    config.errorlog = None
    config.loglevel = "CRITICAL"
    config.include_server_header = False
    config.h11_max_incomplete_size = 16 << 10
    config.keep_alive_timeout = _IDLE_S
    framed_by = _NOTEBOOKS if listener.is_framed else "'none'"
    guarded = Guard(app, listener.token, listener.host_headers, framed_by)
    anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS_MAX
    with _closing(listener.socket):
        await serve_asgi(guarded, config, shutdown_trigger=trio.sleep_forever, mode="asgi")  # type: ignore[arg-type]
