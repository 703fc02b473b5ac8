"""Pins, reads and lists as a fetcher does, but waits for the result."""

from __future__ import annotations

import asyncio

from ffrfs.remote.origin import origin_for, read_bytes
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl, parse_url

SETTINGS = RemoteSettings(timeout_s=30)


def pin(url: RemoteUrl | str, settings: RemoteSettings = SETTINGS) -> Pin:
    parsed = _parsed(url)
    return asyncio.run(origin_for(parsed, settings).pin(parsed))


def read(of: Pin, offset: int, size: int, settings: RemoteSettings = SETTINGS) -> bytes:
    return bytes(asyncio.run(read_bytes(origin_for(of.url, settings), of, offset, size)))


def names(url: RemoteUrl | str, settings: RemoteSettings = SETTINGS) -> list[str]:
    parsed = _parsed(url)
    return asyncio.run(origin_for(parsed, settings).list(parsed))


def _parsed(url: RemoteUrl | str) -> RemoteUrl:
    return parse_url(url) if isinstance(url, str) else url
