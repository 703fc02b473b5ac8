"""The cache as an origin: objects are pinned by the files in its directory; nothing is fetched.

An object is found if the cache keeps its pin; of several versions, the one read last. A directory
has the entries that it had when it was last listed; opening an object that is not in the cache is
an error.

Not here: the blocks themselves, which the fetcher reads in the cache before it asks an origin.
Concurrency: asyncio; directories are read in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import NoReturn

from ffrfs.errors import RemoteError, RemoteNotFoundError
from ffrfs.printable import shown_name
from ffrfs.remote.named_store import settings_for
from ffrfs.remote.pin import Pin
from ffrfs.remote.receiving import Take
from ffrfs.remote.settings import RemoteSettings, default_cache_dir
from ffrfs.remote.url import RemoteUrl

_URL_MAX = 3600  # the header of a state file has 4096 bytes, and keeps longer ones in part


class OfflineOrigin:
    """The objects in the cache directory of `settings`."""

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

    async def list(self, url: RemoteUrl) -> list[str]:
        return [url.child(name).text for name in await asyncio.to_thread(self._listed, url)]

    def _absent(self, url: RemoteUrl) -> RemoteNotFoundError:
        why = f"offline, and it is not in the cache {self._path}"
        if len(url.shown.encode()) > _URL_MAX:
            why += f", where an object of a URL over {_URL_MAX:,} bytes is not found again"
        return RemoteNotFoundError.at(url.shown, why)

    def _pins(self, url: RemoteUrl) -> Iterator[Pin]:
        """Yield the pins of the object, the one read last first. Raises CacheError."""
        from ffrfs.cache.state_file import object_name

        endpoint = settings_for(url, self._settings).endpoint_url
        for _, name, shown, text in sorted(self._labels(), reverse=True):
            if shown == url.shown:
                with contextlib.suppress(RemoteError):  # damaged, or it was too long to be kept
                    pin = Pin.from_text(text, url, with_url=False)
                    if object_name(*pin.identity(endpoint)) == name:
                        yield pin

    def _listed(self, url: RemoteUrl) -> Sequence[str]:
        """Return the names of the objects directly in the directory. Raises RemoteError."""
        from ffrfs.cache.listings import kept_listing
        from ffrfs.cache.place import CachePlace

        if os.path.lexists(self._path):
            shared = self._settings.cache_shared
            with contextlib.closing(CachePlace(self._path, make=False, shared=shared)) as place:
                names = kept_listing(place, _listing_name(url, self._settings), url.shown)
            if names is not None:
                return names
        if count := len(self._names(url)):
            why = (
                f"offline, and the cache {self._path} has no listing of it: it may hold more than "
                f"what is cached ({count:,}); name the files, or read it once without --offline"
            )
            raise RemoteNotFoundError.at(url.shown, why)
        raise self._absent(url)

    def _names(self, url: RemoteUrl) -> set[str]:
        """Return the names of cached objects directly in the directory. Raises CacheError."""
        labels = self._labels()
        found = (shown[len(url.shown) :] for *_, shown, _ in labels if shown.startswith(url.shown))
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


def keep_listing(url: RemoteUrl, urls: Sequence[str], settings: RemoteSettings) -> None:
    """Keep the list of the objects in directory `url`, if there is a cache; ignore failures."""
    if url.scheme == "file" or settings.offline or settings.cache_mode != "full" or not urls:
        return
    from ffrfs.cache import listings
    from ffrfs.cache.place import CachePlace

    path = settings.cache_dir or default_cache_dir()
    names = [shown_name(one)[len(url.shown) :] for one in urls]
    # A CacheError is an OSError; opening an object reports it.
    with (
        contextlib.suppress(OSError),
        contextlib.closing(CachePlace(path, shared=settings.cache_shared)) as place,
    ):
        name = _listing_name(url, settings)
        listings.keep_listing(place, name, url.shown, names, settings.cache_size)


def _listing_name(url: RemoteUrl, settings: RemoteSettings) -> str:
    from ffrfs.cache.state_file import object_name

    endpoint = settings_for(url, settings).endpoint_url
    return object_name(url.shown, f"listing\0{endpoint}\0{url.query}", 0)
