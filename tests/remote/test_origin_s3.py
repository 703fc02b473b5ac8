"""Objects of a real S3 service (SeaweedFS): pinned, read, listed; where credentials come from."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from ffrfs.errors import ChangedAtOriginError, RemoteDeniedError, RemoteNotFoundError
from ffrfs.remote.settings import RemoteSettings
from tests.remote.origins import names, pin, read
from tests.remote.servers.seaweedfs import SeaweedFS


@pytest.mark.parametrize("name", ["a.ffr", "deep/er/a b%é#?+~.ffr"])
def test_ranges(bucket: str, store: S3Store, settings: RemoteSettings, name: str) -> None:
    data = os.urandom(1 << 20)
    obstore.put(store, name, data)
    found = pin(f"s3://{bucket}/{name}", settings)
    assert (found.size, bool(found.etag)) == (len(data), True)
    for offset, size in ((0, 1), (1000, 500_000), (len(data) - 1, 1)):
        assert read(found, offset, size, settings) == data[offset : offset + size]


def test_an_empty_object(bucket: str, store: S3Store, settings: RemoteSettings) -> None:
    obstore.put(store, "empty", b"")
    assert pin(f"s3://{bucket}/empty", settings).size == 0


def test_listing(bucket: str, store: S3Store, settings: RemoteSettings) -> None:
    for name in ("set/b", "set/a", "set/below/c", "set2/d", "top"):
        obstore.put(store, name, b"x")
    base = f"s3://{bucket}/"
    assert names(base + "set/", settings) == [base + "set/a", base + "set/b"]
    assert names(base, settings) == [base + "top"]
    assert names(base + "none/", settings) == []
    obstore.delete(store, ["set/a", "set/b", "set/below/c"])
    assert names(base + "set/", settings) == []  # SeaweedFS lists the directory itself


def test_an_object_that_changed(bucket: str, store: S3Store, settings: RemoteSettings) -> None:
    obstore.put(store, "a", b"before")
    found = pin(f"s3://{bucket}/a", settings)
    obstore.put(store, "a", b"after!")
    with pytest.raises(ChangedAtOriginError):
        read(found, 0, 6, settings)
    obstore.delete(store, "a")
    with pytest.raises(ChangedAtOriginError):
        read(found, 0, 6, settings)


def test_missing_objects_and_buckets(bucket: str, settings: RemoteSettings) -> None:
    missing = rf"^s3://{bucket}/none: there is no such object[^\n]*$"
    with pytest.raises(RemoteNotFoundError, match=missing):
        pin(f"s3://{bucket}/none", settings)
    with pytest.raises(RemoteNotFoundError, match="there is no bucket 'no-such-bucket'"):
        pin("s3://no-such-bucket/none", settings)
    with pytest.raises(RemoteNotFoundError, match="there is no bucket 'no-such-bucket'"):
        names("s3://no-such-bucket/", settings)


def test_wrong_credentials(
    bucket: str, settings: RemoteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-and-hush")
    with pytest.raises(RemoteDeniedError, match=r"^[^\n]*credentials are wrong[^\n]*$") as caught:
        pin(f"s3://{bucket}/a", settings)
    assert "hush" not in str(caught.value)


def test_anonymous(bucket: str, settings: RemoteSettings) -> None:
    anonymous = RemoteSettings(settings.endpoint_url, anonymous=True, timeout_s=30)
    with pytest.raises(RemoteDeniedError, match="refused"):
        pin(f"s3://{bucket}/a", anonymous)


@pytest.mark.parametrize(
    "profile_and_place", [*itertools.product(["default", "work"], ["config", "credentials"])]
)
def test_profiles(
    s3: SeaweedFS,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    profile_and_place: tuple[str, str],
) -> None:
    """Keys, region and endpoint come from ~/.aws, as for all programs that use AWS."""
    profile, place = profile_and_place
    obstore.put(s3.store(bucket), "a", b"hello")
    for name in s3.environment():
        monkeypatch.delenv(name)
    section = profile if place == "credentials" or profile == "default" else f"profile {profile}"
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / place).write_text(
        f"[{section}]\n{s3.keys.profile()}region = us-east-1\nendpoint_url = {s3.url}\n"
    )
    if profile != "default":
        monkeypatch.setenv("AWS_PROFILE", profile)
    assert pin(f"s3://{bucket}/a", RemoteSettings(timeout_s=30)).size == 5


def test_profiles_that_cannot_be_used(
    bucket: str, settings: RemoteSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_PROFILE", "work")
    with pytest.raises(RemoteDeniedError, match=r"profile 'work' .* is neither in"):
        pin(f"s3://{bucket}/a", settings)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile work]\nrole_arn = arn:hush\n")
    monkeypatch.setitem(sys.modules, "boto3", None)  # as if it were not installed
    with pytest.raises(RemoteDeniedError, match="needs boto3"):
        pin(f"s3://{bucket}/a", settings)
    (tmp_path / ".aws" / "config").write_text("[profile work\nsecret = hush\n")
    with pytest.raises(RemoteDeniedError, match="not a valid file of AWS profiles") as caught:
        pin(f"s3://{bucket}/a", settings)
    assert "hush" not in str(caught.value)
