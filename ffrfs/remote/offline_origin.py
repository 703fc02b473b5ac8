"""The cache as an origin: objects are pinned by what is in its directory, and nothing is fetched.

An object is found if the cache keeps its pin; of several versions, the one read last.

Not here: the blocks themselves, which the fetcher reads in the cache before it asks an origin.
Concurrency: asyncio; directories are read in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from typing import NoReturn

from ffrfs.errors import RemoteError, RemoteNotFoundError
from ffrfs.remote.named_store import settings_for
from ffrfs.remote.pin import Pin
from ffrfs.remote.receiving import Take
from ffrfs.remote.settings import RemoteSettings, default_cache_dir
from ffrfs.remote.url import RemoteUrl


class OfflineOrigin:
    """What the cache directory of `settings` holds."""

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings
        self._path = settings.cache_dir or default_cache_dir()

    async def pin(self, url: RemoteUrl) -> Pin:
        pins = await asyncio.to_thread(lambda: list(self._pins(url)))
        if not pins:
            raise self._absent(url)
        return pins[0]

    async def read(self, pin: Pin, offset: int, size: int, take: Take) -> NoReturn:
        raise RemoteError.at(
            pin.url.shown, "offline, and not all of it is in the cache; read it without --offline"
        )

    async def list(self, url: RemoteUrl) -> AsyncIterator[str]:
        names = await asyncio.to_thread(lambda: sorted(self._names(url)))
        if not names:
            raise self._absent(url)
        for name in names:
            yield url.child(name).text

    def _absent(self, url: RemoteUrl) -> RemoteNotFoundError:
        why = f"offline, and it is not in the cache {self._path}"
        return RemoteNotFoundError.at(url.shown, why)

    def _pins(self, url: RemoteUrl) -> Iterator[Pin]:
        """Yield the pins of the object, the one read last first. Raises CacheError."""
        from ffrfs.cache.state_file import object_name

        endpoint = settings_for(url, self._settings).endpoint_url
        for _, name, shown, text in sorted(self._labels(), reverse=True):
            if shown == url.shown:
                with contextlib.suppress(RemoteError):  # it is damaged, or was too long to be kept
                    pin = Pin.from_text(text, url)
                    if object_name(*pin.identity(endpoint)) == name:
                        yield pin

    def _names(self, url: RemoteUrl) -> set[str]:
        """Return the names of the objects directly in the directory. Raises CacheError."""
        found = (shown.removeprefix(url.shown) for *_, shown, _ in self._labels())
        return {name for name in found if name and "/" not in name}

    def _labels(self) -> Iterator[tuple[float, str, str, str]]:
        """Yield time, name, URL and pin of the objects with blocks in the cache."""
        from ffrfs.cache.inventory import Inventory

        if not os.path.lexists(os.path.join(self._path, "usage")):
            return  # nothing was cached there yet
        with contextlib.closing(Inventory(self._path)) as inventory:
            for facts in inventory.objects():
                if facts.blocks:
                    yield facts.used_s, facts.name, facts.url, facts.pin
