"""A fetcher closes objects that nobody reads any more, and meanwhile goes on with the others."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import pytest

from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.fetched_object import FetchedObject
from ffrfs.remote.object_fetcher import ObjectFetcher
from ffrfs.remote.origin import origin_for
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.start import Start
from ffrfs.remote.url import parse_url
from tests.cache.blocks import WAIT_S
from tests.remote.running_fetcher import put


class OnSlowDisk:
    """A cached object whose close() waits for the disk."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.was_in_time = False

    def close(self) -> None:
        self.was_in_time = self.released.wait(WAIT_S)
        raise OSError("the disk has failed")


def test_closing_an_object_does_not_block_the_fetcher(tmp_path: Path) -> None:
    settings = RemoteSettings(cache_dir=str(tmp_path / "cache"))
    url = parse_url(put(tmp_path, "a", b"x"))
    slow = OnSlowDisk()
    retired = OnSlowDisk()
    retired.released.set()

    async def run() -> None:
        fetcher = ObjectFetcher(Start(settings, {}, 1 << 20), FetchCounters())
        origin = origin_for(url, settings)
        target = FetchedObject(await origin.pin(url), origin, slow)
        target.retired.append(retired)
        fetcher.close_if_idle(target)
        slow.released.set()

    asyncio.run(run())
    assert slow.was_in_time
    assert retired.was_in_time


def test_a_fetcher_ends_while_an_object_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its client has given up before."""
    settings = RemoteSettings(cache_dir=str(tmp_path / "cache"))
    url = parse_url(put(tmp_path, "a", b"x"))
    slow, opens = OnSlowDisk(), threading.Event()
    monkeypatch.setattr(ObjectFetcher, "_open_cached", lambda *_: opens.wait(WAIT_S) and slow)

    async def run() -> None:
        fetcher = ObjectFetcher(Start(settings, {}, 16 << 20), FetchCounters())
        pin = await origin_for(url, settings).pin(url)
        opening = asyncio.create_task(fetcher._opened(pin, False))
        await asyncio.sleep(0)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening
        threading.Timer(0.2, opens.set).start()  # by then the loop waits for its threads

    asyncio.run(run())
    assert caplog.text == ""
