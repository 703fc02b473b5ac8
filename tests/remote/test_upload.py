"""Uploads to a real S3 service: the whole object has its name, or nothing is left.

Not here: a server that is killed meanwhile (test_pack_to_bucket.py).
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from ffrfs.errors import RemoteDeniedError, RemoteError
from ffrfs.remote.bucket import remove, upload
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import parse_url

PART_SIZE = 8 << 20


def names(store: S3Store) -> list[str]:
    """Return all names, also of partial uploads, which SeaweedFS keeps below .uploads."""
    return sorted(meta["path"] for chunk in obstore.list(store) for meta in chunk)


def written(folder: Path, size: int) -> Path:
    path = folder / "data"
    path.write_bytes(os.urandom(min(size, 1 << 20)) * max(1, size >> 20))
    return path


@pytest.mark.parametrize("size", [0, 1, PART_SIZE, PART_SIZE + (1 << 20), 5 * PART_SIZE])
def test_an_uploaded_object_is_complete(
    bucket: str, store: S3Store, settings: RemoteSettings, tmp_path: Path, size: int
) -> None:
    path = written(tmp_path, size) if size else tmp_path / "empty"
    path.touch()
    seen: list[int] = []
    upload(str(path), parse_url(f"s3://{bucket}/deep/a b%é.ffr"), settings, seen.append)
    assert bytes(obstore.get(store, "deep/a b%é.ffr").bytes()) == path.read_bytes()
    assert seen == sorted(seen)
    assert seen[-1] == path.stat().st_size
    assert names(store) == ["deep/a b%é.ffr"]


def test_the_old_object_stays_until_the_upload_ends(
    bucket: str, store: S3Store, settings: RemoteSettings, tmp_path: Path
) -> None:
    obstore.put(store, "a", b"before")
    path = written(tmp_path, 3 * PART_SIZE)

    def look(sent: int) -> None:
        if sent < path.stat().st_size:
            assert bytes(obstore.get(store, "a").bytes()) == b"before"

    upload(str(path), parse_url(f"s3://{bucket}/a"), settings, look)
    assert obstore.head(store, "a")["size"] == path.stat().st_size


@pytest.mark.promise("S70")
@pytest.mark.parametrize("size", [1, 3 * PART_SIZE])
def test_an_existing_object_is_kept_without_replace(
    bucket: str, store: S3Store, settings: RemoteSettings, tmp_path: Path, size: int
) -> None:
    url, path = parse_url(f"s3://{bucket}/a"), written(tmp_path, size)
    obstore.put(store, "a", b"another's")
    assert not upload(str(path), url, settings, lambda _: None, replace=False)
    assert bytes(obstore.get(store, "a").bytes()) == b"another's"
    obstore.delete(store, "a")
    assert upload(str(path), url, settings, lambda _: None, replace=False)
    assert bytes(obstore.get(store, "a").bytes()) == path.read_bytes()


def test_an_upload_whose_answer_was_lost_counts_as_done(
    bucket: str, store: S3Store, settings: RemoteSettings, tmp_path: Path
) -> None:
    path = written(tmp_path, 1)
    obstore.put(store, "a", path.read_bytes())
    assert upload(str(path), parse_url(f"s3://{bucket}/a"), settings, lambda _: None, replace=False)


def test_the_progress_callback_may_end_the_upload(
    bucket: str, store: S3Store, settings: RemoteSettings, tmp_path: Path
) -> None:
    path = written(tmp_path, 20 * PART_SIZE)

    def stop(sent: int) -> None:
        if sent >= PART_SIZE:
            raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        upload(str(path), parse_url(f"s3://{bucket}/a"), settings, stop)
    assert set(threading.enumerate()) <= before  # threads of other tests may end
    assert names(store) == []


def test_a_file_that_is_truncated_while_uploaded(
    bucket: str, store: S3Store, settings: RemoteSettings, tmp_path: Path
) -> None:
    path = written(tmp_path, 10 * PART_SIZE)

    def cut(sent: int) -> None:
        os.truncate(path, PART_SIZE)

    with pytest.raises(RemoteError, match="bytes arrived of"):
        upload(str(path), parse_url(f"s3://{bucket}/a"), settings, cut)


def test_refused_uploads(
    bucket: str, settings: RemoteSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(written(tmp_path, 10))
    for text in ("https://host/a", "file:///tmp/a", f"s3://{bucket}/a/"):
        with pytest.raises(RemoteError, match="only objects of"):
            upload(path, parse_url(text), settings, print)
    with pytest.raises(FileNotFoundError):
        upload(str(tmp_path / "none"), parse_url(f"s3://{bucket}/a"), settings, print)
    anonymous = RemoteSettings(settings.endpoint_url, anonymous=True, timeout_s=30)
    with pytest.raises(RemoteDeniedError, match="refused"):
        upload(path, parse_url(f"s3://{bucket}/a"), anonymous, print)


def test_removing(bucket: str, store: S3Store, settings: RemoteSettings) -> None:
    obstore.put(store, "a", b"x")
    url = parse_url(f"s3://{bucket}/a")
    remove(url, settings)
    remove(url, settings)
    assert names(store) == []
