"""A connection to a web server, or to the proxy before it; it connects again after it was closed.

Not here: requests, and which connection is used (http_origin.py).
Concurrency: one thread at a time; any thread may call give_up().
"""

from __future__ import annotations

import contextlib
import socket
from http.client import HTTPConnection

from ffrfs.remote.failures import NoProxyError


class Line:
    """A connection. `proxy`: its host and port, if there is one."""

    def __init__(self, http: HTTPConnection, proxy: str) -> None:
        self.http = http
        self.idle_since_s = 0.0
        self.is_given_up = False
        self.silence_s: float | None = None  # after which a request fails
        self._proxy = proxy

    def open(self) -> None:
        """Connect unless it is connected. Raises OSError, or NoProxyError."""
        if self.http.sock is None:
            try:
                self.http.connect()
            except OSError as error:
                # With a socket, or an answer, it was the server behind the proxy that failed.
                if self._proxy and self.http.sock is None and "Tunnel" not in str(error):
                    raise NoProxyError(self._proxy, error) from None
                raise
        if self.http.sock is not None:
            self.http.sock.settimeout(self.silence_s)
        if self.is_given_up:
            raise ConnectionAbortedError

    def give_up(self) -> None:
        """Close the socket, so that a thread that waits for it gets an error."""
        self.is_given_up = True
        if (at := self.http.sock) is not None:
            with contextlib.suppress(OSError):  # by the kernel, without TLS's close_notify
                socket.socket.shutdown(at, socket.SHUT_RDWR)

    def __del__(self) -> None:
        self.http.close()
