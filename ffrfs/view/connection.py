"""A connection of the viewer: HTTP/1.1 alone, and an error in one ends no other.

hypercorn has no setting for either: it speaks HTTP/2 with every client that asks for it, before the
guard sees a request, and an exception in a connection ends its whole server. Other servers of
hypercorn in the same program are not changed: ours are known by their configuration.

Concurrency: in the loop of the server.
"""

from __future__ import annotations

import logging
import socket
from typing import Any, Final

import hypercorn.protocol
import hypercorn.trio.run
from hypercorn.config import Config, Sockets
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer

log = logging.getLogger(__name__)

# Programs without the token can connect, too: this limit leaves descriptors for the data set.
_CONNECTIONS_MAX: Final = 256


class ConnectionConfig(Config):
    """The configuration of a server at this socket, whose connections are as above."""

    def __init__(self, listening: socket.socket) -> None:
        super().__init__()
        self._listening = listening
        self.connection_count = 0

    def create_sockets(self) -> Sockets:
        """Return the socket itself: the server may be cancelled before hypercorn asks for it."""
        return Sockets([], [self._listening], [])


class _Http1(H11Protocol):
    async def _check_protocol(self, event: Any) -> None:  # noqa: ANN401 - one of h11
        """Do not switch to HTTP/2 if the request asks for it, as hypercorn would."""
        if not isinstance(self.config, ConnectionConfig):
            await super()._check_protocol(event)


class _Connection(TCPServer):
    async def run(self) -> None:
        if not isinstance(self.config, ConnectionConfig):
            return await super().run()
        if self.config.connection_count >= _CONNECTIONS_MAX:
            return await self.stream.aclose()
        self.config.connection_count += 1
        try:
            await super().run()
        except* Exception as errors:
            log.warning("a connection has failed: %r", errors.exceptions[0])
        finally:
            self.config.connection_count -= 1

    async def _read_data(self) -> None:
        """Read until the client has closed; then do not wait for the end of the idle time."""
        await super()._read_data()
        await self.idle_task.stop()


class _Once(logging.Filter):
    """Log once that no descriptors are left: trio does so ten times a second, with a traceback."""

    has_said = False

    def filter(self, record: logging.LogRecord) -> bool:
        if "EMFILE" not in record.getMessage():
            return True
        if not self.has_said:
            _Once.has_said = True
            log.warning("no connection is accepted: too many open files")
        return False


hypercorn.protocol.H11Protocol = _Http1  # type: ignore[attr-defined]
hypercorn.trio.run.TCPServer = _Connection  # type: ignore[attr-defined]
logging.getLogger("trio.serve_listeners").addFilter(_Once())
