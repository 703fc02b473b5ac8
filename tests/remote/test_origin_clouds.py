"""Objects of Azure (Azurite) and of GCS (fake-gcs-server): pinned, read, listed, uploaded."""

from __future__ import annotations

import os
from pathlib import Path

import obstore
import pytest

from ffrfs.errors import ChangedAtOriginError, RemoteDeniedError, RemoteNotFoundError
from ffrfs.remote.bucket import remove, upload
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import parse_url
from tests.remote.conftest import Give
from tests.remote.origins import names, pin, read
from tests.remote.servers.azurite import Azurite
from tests.remote.servers.fake_gcs import FakeGcs

DATA = os.urandom(1 << 20)


@pytest.fixture
def in_azure(azure: Azurite, give: Give) -> RemoteSettings:
    give(azure.environment())
    return RemoteSettings(endpoint_url=azure.url, timeout_s=30)


@pytest.fixture
def in_gcs(gcs: FakeGcs) -> RemoteSettings:
    return RemoteSettings(endpoint_url=gcs.url, anonymous=True, timeout_s=30)


def test_azure(azure: Azurite, in_azure: RemoteSettings, tmp_path: Path) -> None:
    store = azure.make_container("origin")
    obstore.put(store, "set/a b%é.ffr", DATA)
    obstore.put(store, "set/below/b", b"x")
    obstore.put(store, "empty", b"")
    found = pin("az://origin/set/a b%é.ffr", in_azure)
    assert found.size == len(DATA)
    assert read(found, 1000, 500_000, in_azure) == DATA[1000:501_000]
    assert names("az://origin/set/", in_azure) == ["az://origin/set/a b%é.ffr"]
    assert pin("az://origin/empty", in_azure).size == 0
    obstore.put(store, "set/a b%é.ffr", DATA)
    with pytest.raises(ChangedAtOriginError):
        read(found, 0, 10, in_azure)
    (tmp_path / "large").write_bytes(DATA * 20)
    upload(str(tmp_path / "large"), parse_url("az://origin/new"), in_azure, lambda _: None)
    assert read(pin("az://origin/new", in_azure), 5 << 20, 1 << 20, in_azure) == DATA
    remove(parse_url("az://origin/new"), in_azure)
    with pytest.raises(RemoteNotFoundError, match=r"^az://origin/new: [^\n]*no such object[^\n]*$"):
        pin("az://origin/new", in_azure)
    with pytest.raises(RemoteNotFoundError, match="no bucket 'none'"):
        pin("az://none/a", in_azure)


def test_wrong_credentials_of_azure(azure: Azurite, in_azure: RemoteSettings, give: Give) -> None:
    give({"AZURE_STORAGE_ACCOUNT_KEY": "aHVzaA=="})
    with pytest.raises(RemoteDeniedError, match=r"^[^\n]*refused[^\n]*$") as caught:
        pin("az://origin/a", in_azure)
    assert "aHVzaA" not in str(caught.value)


def test_gcs(gcs: FakeGcs, in_gcs: RemoteSettings) -> None:
    gcs.make_bucket("origin")
    gcs.put("origin", "set/a b.ffr", DATA)
    gcs.put("origin", "set/below/b", b"x")
    found = pin("gs://origin/set/a b.ffr", in_gcs)
    assert found.size == len(DATA)
    assert read(found, 1000, 500_000, in_gcs) == DATA[1000:501_000]
    assert names("gs://origin/set/", in_gcs) == ["gs://origin/set/a b.ffr"]
    gcs.put("origin", "set/a b.ffr", DATA[::-1])
    with pytest.raises(ChangedAtOriginError):
        read(found, 0, 10, in_gcs)
    with pytest.raises(
        RemoteNotFoundError, match=r"^gs://origin/none: [^\n]*no such object[^\n]*$"
    ):
        pin("gs://origin/none", in_gcs)
