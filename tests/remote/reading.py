"""Lets tests read URLs in this process, by a fetcher that starts with the test's environment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.remote.session import session, use_urls
from ffrfs.remote.settings import RemoteSettings


@contextlib.contextmanager
def reading_urls(
    monkeypatch: pytest.MonkeyPatch, folder: Path, endpoint_url: str | None = None
) -> Iterator[None]:
    """Keep caches and indexes in `folder`."""
    if endpoint_url is not None:
        monkeypatch.setenv("FFRFS_ENDPOINT_URL", endpoint_url)
    monkeypatch.setenv("FFRFS_REMOTE_TIMEOUT", "20")
    monkeypatch.setenv("FFRFS_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "indexes"))
    use_urls(RemoteSettings.from_environment())
    try:
        yield
    finally:
        session.configure(RemoteSettings())
        session.settings = None
