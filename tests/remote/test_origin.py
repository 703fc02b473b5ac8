"""Pins, and files of slow file systems as an origin."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.errors import ChangedAtOriginError, RemoteError, RemoteNotFoundError, RemoteTimeoutError
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.origin import origin_for, read_bytes
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl, parse_url
from tests.cache.blocks import in_child
from tests.remote import origins
from tests.remote.origins import SETTINGS, names, read


def url_of(path: Path) -> RemoteUrl:
    return RemoteUrl("file", "", str(path))


def pin(path: Path) -> Pin:
    return origins.pin(url_of(path))


def test_a_pin_as_text_keeps_no_signature() -> None:
    url = parse_url("https://host/a.ffr?sig=hush")
    made = Pin(url, 5, '"e"', None, 7)
    assert "hush" not in made.to_text()
    assert Pin.from_text(made.to_text(), url) == made
    renewed = parse_url("https://host/a.ffr?sig=new")
    assert Pin.from_text(made.to_text(), renewed).url == renewed
    with pytest.raises(RemoteError):
        Pin.from_text(made.to_text(), parse_url("https://host/b.ffr"))
    label = made.to_text(with_url=False)
    assert "host" not in label
    for text in (label, made.to_text()):
        assert Pin.from_text(text, url, with_url=False) == made
    for text, other in ((label, url), (made.to_text(), parse_url("https://host/b.ffr"))):
        with pytest.raises(RemoteError):
            Pin.from_text(text, other, with_url=other == url)


@pytest.mark.parametrize(
    "change",
    [
        {"size": -1},
        {"size": 1 << 63},
        {"size": True},
        {"size": "5"},
        {"etag": 5},
        {"etag": "a\nb"},
        {"etag": "x" * 2000},
        {"mtime_ns": 1 << 64},
        {"mtime_ns": None},
        {"other": 1},
        {"url": 5},
    ],
)
def test_hostile_pins(change: dict[str, Any]) -> None:
    url = parse_url("s3://b/k")
    fields = json.loads(Pin(url, 5, '"e"', None, 7).to_text()) | change
    with pytest.raises(RemoteError, match=r"s3://b/k: (its pin|the server sent)"):
        Pin.from_text(json.dumps(fields), url)


@given(st.text(max_size=40))
def test_texts_that_are_not_pins(text: str) -> None:
    with pytest.raises(RemoteError):
        Pin.from_text(text, parse_url("s3://b/k"))


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a b"
    path.write_bytes(bytes(range(256)) * 100)
    found = pin(path)
    assert found.size == 25_600
    assert found.mtime_ns == path.stat().st_mtime_ns
    assert read(found, 1000, 5000) == path.read_bytes()[1000:6000]
    assert read(found, 25_600, 0) == b""
    for offset, size in ((-1, 5), (25_590, 11), (0, -1)):
        with pytest.raises(RemoteError, match="has no bytes"):
            read(found, offset, size)


@pytest.mark.parametrize("how", ["written", "cut", "replaced", "removed"])
def test_a_file_that_changed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    found = pin(path)
    if how == "written":
        path.write_bytes(b"y" * 100)
        os.utime(path, ns=(0, found.mtime_ns + 1))
    elif how == "cut":
        os.truncate(path, 50)
    elif how == "replaced":
        (tmp_path / "b").write_bytes(b"y" * 100)
        os.utime(tmp_path / "b", ns=(0, found.mtime_ns))
        os.replace(tmp_path / "b", path)
    else:
        path.unlink()
    with pytest.raises(ChangedAtOriginError, match="changed at its origin"):
        read(found, 0, 10)


def test_paths_that_are_not_regular_files(tmp_path: Path) -> None:
    with pytest.raises(RemoteNotFoundError, match="no such file"):
        pin(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(RemoteError, match="not a regular file"):
            pin(tmp_path / name)


def test_a_directory_is_listed(tmp_path: Path) -> None:
    for name in ("b", "a", "ä é", "c%20"):
        (tmp_path / name).touch()
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "x").touch()
    (tmp_path / "loop").symlink_to("loop")  # opening it reports the error
    (tmp_path / "gone").symlink_to("nowhere")
    found = names(parse_url(f"file://{tmp_path}/"))
    assert [parse_url(text).key for text in found] == [
        f"{tmp_path}/{name}" for name in ("a", "b", "c%20", "gone", "loop", "ä é")
    ]
    with pytest.raises(RemoteError):
        names(parse_url(f"file://{tmp_path}/none/"))


def test_a_file_system_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader gets an error while the thread still hangs."""
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    found = pin(path)
    ends, begins = os.pipe()
    # open(2) hangs like this if the server of the file system does not answer.
    monkeypatch.setattr(os, "open", lambda *_: os.read(ends, 1))
    origin = origin_for(found.url, RemoteSettings(timeout_s=0.2))
    try:
        with pytest.raises(RemoteTimeoutError, match=r"not answered for 0\.2 s"):
            asyncio.run(read_bytes(origin, found, 0, 10))
    finally:
        os.close(begins)
        monkeypatch.undo()


def test_a_child_of_fork_has_threads_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    found = pin(path)

    def work() -> None:
        origin = origin_for(found.url, RemoteSettings(timeout_s=10))
        assert asyncio.run(origin.pin(found.url)) == found

    in_child(work)


def test_traffic_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    traffic = FetchCounters()
    origin = origin_for(url_of(path), SETTINGS, traffic)
    found = asyncio.run(origin.pin(url_of(path)))
    asyncio.run(read_bytes(origin, found, 0, 60))
    assert (traffic["remote_requests"], traffic["remote_bytes"]) == (2, 60)
