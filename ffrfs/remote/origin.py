"""The interface of all origins of bytes, and the choice of the origin for a URL.

Not here: clouds (object_origin.py), web servers (http_origin.py), slow file systems
(local_origin.py), the cache alone (offline_origin.py).
Concurrency: asyncio, in the fetcher alone (and in `ffrfs pack`, which uploads).
"""

from __future__ import annotations

from typing import Protocol

from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.pin import Pin
from ffrfs.remote.receiving import Take
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl


class Origin(Protocol):
    """A source of objects. Every method may raise RemoteError, or the subclass that fits."""

    async def pin(self, url: RemoteUrl) -> Pin:
        """Return the pin of the object as it is now."""
        ...

    async def read(self, pin: Pin, offset: int, size: int, take: Take) -> None:
        """Give `take` exactly `size` bytes of the pinned object, and of no other.

        A RemoteError of `take` ends the read, and reaches the caller.
        """
        ...

    async def list(self, url: RemoteUrl) -> list[str]:
        """Return the URLs of the objects directly in directory `url`, sorted by name."""
        ...


def origin_for(
    url: RemoteUrl, settings: RemoteSettings, counters: FetchCounters | None = None
) -> Origin:
    """Return the origin for the scheme and bucket of `url`. Raises RemoteError.

    Callers may call it for each object: connections are shared.
    """
    counters = counters or FetchCounters()
    if url.scheme == "file":
        from ffrfs.remote.local_origin import LocalOrigin

        return LocalOrigin(settings, counters)
    if settings.offline:
        from ffrfs.remote.offline_origin import OfflineOrigin

        return OfflineOrigin(settings)
    if url.scheme in ("http", "https"):
        from ffrfs.remote.http_origin import HttpOrigin

        return HttpOrigin(settings, counters)
    from ffrfs.remote.object_origin import ObjectOrigin

    return ObjectOrigin(settings, counters)


async def read_bytes(origin: Origin, pin: Pin, offset: int, size: int) -> bytearray:
    """Return `size` bytes of the pinned object, all in memory."""
    data = bytearray()
    await origin.read(pin, offset, size, data.extend)
    return data
