"""Objects in a bucket that keeps versions (moto): the opened version is read, also later."""

from __future__ import annotations

import asyncio
import secrets

import obstore
import pytest
from obstore.store import S3Store

from ffrfs.errors import ChangedAtOriginError
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.origin import origin_for, read_bytes
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import parse_url
from tests.remote.conftest import Give
from tests.remote.origins import pin, read
from tests.remote.servers.moto import Moto

BEFORE, AFTER = secrets.token_bytes(5000), secrets.token_bytes(5000)


@pytest.fixture
def name() -> str:
    return f"bucket{secrets.token_hex(4)}"


@pytest.fixture
def kept(aws: Moto, name: str, give: Give) -> S3Store:
    give(aws.admin.environment())
    return aws.make_bucket(name, versions=True)


@pytest.fixture
def settings(aws: Moto) -> RemoteSettings:
    return RemoteSettings(endpoint_url=aws.url, timeout_s=30)


@pytest.mark.promise("S62")
@pytest.mark.parametrize("how", ["replaced", "the same", "shorter", "removed"])
def test_the_version_that_was_opened_is_read(
    kept: S3Store, name: str, settings: RemoteSettings, how: str
) -> None:
    url = f"s3://{name}/a"
    obstore.put(kept, "a", BEFORE)
    found = pin(url, settings)
    assert found.version
    if how == "removed":
        obstore.delete(kept, "a")
    else:
        obstore.put(kept, "a", {"replaced": AFTER, "the same": BEFORE, "shorter": b"x"}[how])
    traffic = FetchCounters()
    origin = origin_for(parse_url(url), settings, traffic)

    async def parts() -> list[bytes]:
        return [bytes(await read_bytes(origin, found, offset, 100)) for offset in (0, 1000, 4900)]

    assert asyncio.run(parts()) == [BEFORE[:100], BEFORE[1000:1100], BEFORE[4900:]]
    # Only one request finds out that the object was replaced.
    assert (traffic["remote_requests"], traffic["remote_retries"]) == (4, 0)
    if how != "removed":
        again = pin(url, settings)
        assert again.version != found.version


@pytest.mark.promise("S62")
def test_a_version_that_was_not_kept(
    aws: Moto, kept: S3Store, name: str, settings: RemoteSettings
) -> None:
    obstore.put(kept, "a", BEFORE)
    found = pin(f"s3://{name}/a", settings)
    obstore.put(kept, "a", AFTER)
    aws.clients["s3"].delete_object(Bucket=name, Key="a", VersionId=found.version)
    with pytest.raises(ChangedAtOriginError, match="changed at its origin"):
        read(found, 0, 10, settings)


@pytest.mark.promise("S62")
def test_a_version_that_may_not_be_read(
    aws: Moto, kept: S3Store, name: str, settings: RemoteSettings, give: Give
) -> None:
    """Reading an object and reading a version of it are two permissions."""
    obstore.put(kept, "a", BEFORE)
    give(aws.assume(aws.make_role(f"role{name}", "s3:GetObject")).environment())
    found = pin(f"s3://{name}/a", settings)
    assert read(found, 0, 10, settings) == BEFORE[:10]
    obstore.put(kept, "a", AFTER)
    with pytest.raises(ChangedAtOriginError, match="changed at its origin"):
        read(found, 0, 10, settings)


@pytest.mark.promise("S62")
def test_a_bucket_that_keeps_no_versions(
    aws: Moto, name: str, settings: RemoteSettings, give: Give
) -> None:
    give(aws.admin.environment())
    store = aws.make_bucket(name)
    obstore.put(store, "a", BEFORE)
    found = pin(f"s3://{name}/a", settings)
    obstore.put(store, "a", AFTER)
    with pytest.raises(ChangedAtOriginError, match="changed at its origin"):
        read(found, 0, 10, settings)
