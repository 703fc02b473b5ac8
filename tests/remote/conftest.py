"""The servers that these tests use: a process of pytest starts each once, when a test asks for it.

Tests share them, so each makes a folder or a bucket of its own. A test that kills a server or
makes it misbehave starts its own: `with nginx(tmp_path) as server`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from ffrfs.remote import store as stores
from ffrfs.remote.settings import RemoteSettings
from tests.remote.reading import reading_urls
from tests.remote.running_fetcher import Running, Start
from tests.remote.servers.azurite import Azurite, azurite
from tests.remote.servers.fake_gcs import FakeGcs, fake_gcs
from tests.remote.servers.issuer import Issuer, issuer
from tests.remote.servers.moto import Moto, moto
from tests.remote.servers.nginx import Nginx, nginx
from tests.remote.servers.seaweedfs import SeaweedFS, seaweedfs

# The large servers: tests that use them run in one process of pytest-xdist, so that each server
# is started once, and leaves the CPU to tests that measure time.
_LARGE = {"s3", "azure", "gcs", "aws"}

# Keep the user's own credentials out of the tests.
_OF_CLOUDS = ("AWS_", "AZURE_", "GOOGLE_", "GCE_")
for _name in [name for name in os.environ if name.startswith(_OF_CLOUDS)]:
    del os.environ[_name]

# Puts credentials into the environment.
Give = Callable[[dict[str, str]], None]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _LARGE & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("clouds"))


@pytest.fixture(scope="session")
def web_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `web` serves."""
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="session")
def web(web_root: Path) -> Iterator[Nginx]:
    with nginx(web_root) as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[SeaweedFS]:
    with seaweedfs() as server:
        yield server


@pytest.fixture
def give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Give:
    """Puts credentials into the environment; the test has no others, in files or variables."""
    monkeypatch.setenv("HOME", str(tmp_path))

    def give(environment: dict[str, str]) -> None:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        # A store keeps the credentials that it was made with.
        stores._bucket_store.cache_clear()

    return give


@pytest.fixture
def bucket(s3: SeaweedFS, give: Give) -> str:
    """An empty bucket, whose credentials are in the environment."""
    give(s3.environment())
    # All tests share it, since each new bucket makes SeaweedFS reserve gigabytes. A directory stays
    # for a while after its last object, so no test gives it the name of another test's object.
    store = s3.make_bucket("tests")
    for found in obstore.list(store):
        obstore.delete(store, [meta["path"] for meta in found])
    return "tests"


@pytest.fixture
def store(s3: SeaweedFS, bucket: str) -> S3Store:
    return s3.store(bucket)


@pytest.fixture
def settings(s3: SeaweedFS) -> RemoteSettings:
    return RemoteSettings(endpoint_url=s3.url, timeout_s=30)


@pytest.fixture(scope="session")
def azure() -> Iterator[Azurite]:
    with azurite() as server:
        yield server


@pytest.fixture(scope="session")
def gcs() -> Iterator[FakeGcs]:
    with fake_gcs() as server:
        yield server


@pytest.fixture(scope="session")
def aws() -> Iterator[Moto]:
    with moto() as server:
        yield server


@pytest.fixture(scope="session")
def machine(aws: Moto) -> Iterator[Issuer]:
    """The server that gives credentials to a machine in `aws`, or to a pod."""
    with issuer(aws) as server:
        yield server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[Running] = []

    def start(
        roots: list[str] | None = None, signed: dict[str, str] | None = None, **settings
    ) -> Running:
        settings = {"cache_dir": str(tmp_path / "cache"), "timeout_s": 30.0} | settings
        running.append(Running(RemoteSettings(**settings), roots, signed))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture
def staging(
    s3: SeaweedFS, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The directory for files before their upload, which must be empty after each test."""
    place = tmp_path / "tmp"
    place.mkdir()
    with reading_urls(monkeypatch, tmp_path, s3.url):
        yield place
    assert list(place.iterdir()) == []
