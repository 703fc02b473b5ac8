"""nginx over a folder: byte ranges, ETags, If-Match, listings (autoindex). Or as a proxy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.remote.servers.program import Server, answers_at, own_place, require, serving

_CONFIGURATION = """\
daemon off;
{user}
worker_processes {workers};
pid {folder}/pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  log_format lines '$request_method $request_uri $status $body_bytes_sent $http_range';
  access_log {folder}/access.log lines;
  default_type application/octet-stream;
  sendfile on;
  tcp_nodelay on;
  keepalive_requests 1000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{trial_port};
    access_log off;
    return 204;
  }}
{servers}
}}
"""
_FILES = """\
  server {{
    listen 127.0.0.1:{port} backlog=1024 {tls};
    root {root};
    autoindex on;
    autoindex_format html;
  }}
"""


@dataclass(frozen=True)
class Nginx(Server):
    trial_port: int  # answers when nginx has begun
    access_log: Path  # use `requests`
    scheme: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def requests(self) -> list[str]:
        """Return the lines of the log. nginx writes a line after the client has its answer."""
        self.program.wait_until(self.program.is_at_rest)
        return self.access_log.read_text().splitlines()

    def answers(self) -> bool:
        return answers_at(f"http://127.0.0.1:{self.trial_port}/")


@contextlib.contextmanager
def nginx(root: Path, *, workers: int = 1, certificate: Path | None = None) -> Iterator[Nginx]:
    """Serve the files below `root`; a file `a/b` is at `url + "/a/b"`.

    `certificate`: a key and its chain, for https.
    """
    tls = f"ssl; ssl_certificate {certificate}; ssl_certificate_key {certificate}"

    def files(_: Path, port: int) -> str:
        return _FILES.format(port=port, root=root, tls=tls if certificate else "")

    with _running(files, workers, "https" if certificate else "http") as server:
        yield server


@contextlib.contextmanager
def nginx_of(servers: Callable[[Path, int], str], *, workers: int = 1) -> Iterator[Nginx]:
    """Run nginx; `servers` makes the content of `http { }` from a folder of its own and a port."""
    with _running(servers, workers, "http") as server:
        yield server


@contextlib.contextmanager
def _running(servers: Callable[[Path, int], str], workers: int, scheme: str) -> Iterator[Nginx]:
    binary = require("nginx", remedy="apt-get install nginx-light")
    with own_place("nginx", 2) as (folder, (port, trial_port)):
        configuration = folder / "nginx.conf"
        configuration.write_text(
            _CONFIGURATION.format(
                # As root, nginx runs workers as another user, who may not read pytest's folders.
                user="user root;" if folder.owner() == "root" else "",
                workers=workers,
                folder=folder,
                trial_port=trial_port,
                servers=servers(folder, port),
            )
        )
        command = [binary, "-e", "stderr", "-p", str(folder), "-c", str(configuration)]
        access_log = folder / "access.log"
        with serving(
            lambda program: Nginx(program, port, trial_port, access_log, scheme),
            *(command, folder / "log"),
        ) as server:
            yield server
