"""Pins, reads and lists as a fetcher does, but waits for the result."""

from __future__ import annotations

import asyncio

from ffrfs.remote.origin import origin_for, read_bytes
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import parse_url


def pin(text: str, settings: RemoteSettings) -> Pin:
    url = parse_url(text)
    return asyncio.run(origin_for(url, settings).pin(url))


def read(of: Pin, offset: int, size: int, settings: RemoteSettings) -> bytes:
    return bytes(asyncio.run(read_bytes(origin_for(of.url, settings), of, offset, size)))


def names(text: str, settings: RemoteSettings) -> list[str]:
    url = parse_url(text)
    return asyncio.run(origin_for(url, settings).list(url))
