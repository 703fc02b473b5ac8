"""A fetcher and its cache: shared with other fetchers, lost, full, used again."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.cache.cached_object import CachedObject
from ffrfs.cache.directory import CacheDirectory
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.object_fetcher import ObjectFetcher
from ffrfs.remote.pin import Pin
from ffrfs.remote.protocol import BLOCK_SIZE, Ask, Tell
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.start import Start as FetcherStart
from ffrfs.remote.url import parse_url
from tests.mount.command import stop, wait_until
from tests.remote.running_fetcher import SIZE, Running, Start, content, put
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import faulty
from tests.remote.servers.scripted import good, scripted

BLOCKS = -(-SIZE // BLOCK_SIZE)


@contextlib.contextmanager
def without_descriptors(running: Running) -> Iterator[None]:
    pid, limit = running.process.pid, resource.RLIMIT_NOFILE
    before = resource.prlimit(pid, limit)
    resource.prlimit(pid, limit, (3, before[1]))  # descriptors 0 to 2 are open
    try:
        yield
    finally:
        resource.prlimit(pid, limit, before)


def test_fetched_blocks_are_cached_for_the_next_fetcher(start: Start, tmp_path: Path) -> None:
    url = put(tmp_path, "a", content())
    for fetched in (BLOCKS, 0):
        running = start()
        client = running.client()
        assert client.read_all(client.open(url)) == content()
        assert running.figure("remote_blocks_fetched") == fetched
        running.process.close()


@pytest.mark.promise("S64")
def test_two_fetchers_fetch_each_block_once(start: Start, tmp_path: Path) -> None:
    blocks = 40
    data = content(blocks * BLOCK_SIZE)
    (tmp_path / "a.bin").write_bytes(data)
    with faulty(tmp_path) as server:
        server.shape(latency_s=0.01)
        both = [start(), start()]
        clients = [running.client() for running in both]
        opened = [client.open(f"{server.url}/a.bin") for client in clients]
        asked = [
            (client, client.send(Ask.WANT, one.number, first=first, count=5))
            for first in range(0, blocks, 5)
            for client, one in zip(clients, opened, strict=True)
        ]
        assert all(client.answer(id_).kind is Tell.READY for client, id_ in asked)
        assert all(one.read(0, len(data)) == data for one in opened)
        assert sum(running.figure("remote_blocks_fetched") for running in both) == blocks


def test_blocks_of_a_killed_fetcher_are_fetched_by_another(start: Start, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(content())
    with faulty(tmp_path) as server:
        killed, other = start(), start()
        url = f"{server.url}/a.bin"
        first = killed.client()
        one = first.open(url)
        client = other.client()
        opened = client.open(url)
        server.shape(latency_s=0.2)
        first.send(Ask.WANT, one.number, first=0, count=BLOCKS)
        first.ask(one, 0, 1, Ask.SOON)
        asked = client.send(Ask.WANT, opened.number, first=0, count=BLOCKS)
        os.kill(killed.process.pid, signal.SIGKILL)
        assert client.answer(asked).kind is Tell.READY
        assert opened.read(0, SIZE) == content()


@pytest.mark.promise("S64")
@pytest.mark.parametrize("lacks_descriptors", [False, True])
def test_blocks_of_a_stopped_fetcher_are_fetched_by_another(
    start: Start, tmp_path: Path, lacks_descriptors: bool
) -> None:
    (tmp_path / "a.bin").write_bytes(content())
    with faulty(tmp_path) as server:
        stopped, other = start(), start(timeout_s=9.0)
        url = f"{server.url}/a.bin"
        first = stopped.client()
        one = first.open(url)
        client = other.client()
        opened = client.open(url)
        server.do(Kind.STALL)
        server.forget_counts()
        first.send(Ask.WANT, one.number, first=0, count=BLOCKS)
        wait_until(lambda: server.counts().most_under_way, "it holds the blocks", 60)
        stop(stopped.process.pid)
        server.mend()
        try:
            if lacks_descriptors:  # at first too few for a cache in memory
                with without_descriptors(other):
                    answer = client.ask(opened, 0, BLOCKS)
                assert (answer.kind, "Too many open" in answer.reason) == (Tell.FAILED, True)
            assert client.read_all(opened) == content()
        finally:
            os.kill(stopped.process.pid, signal.SIGCONT)
        assert other.log().count("another process has locked it") == 1
        assert (other.figure("remote_moved"), other.figure("remote_in_memory")) == (1, 0)


def test_a_cancelled_open_leaves_no_file_open(start: Start, tmp_path: Path) -> None:
    running = start()
    client = running.client()
    urls = [put(tmp_path, str(number), content(100)) for number in range(300)]
    for number, url in enumerate(urls):
        opening = client.send(Ask.OPEN, number, url=url)
        time.sleep(number / 100_000)  # to meet each moment of an opening
        client.send(Ask.CLOSE, number, id=opening)
    folder = Path(f"/proc/{running.process.pid}/fd")

    def is_open() -> bool:
        with contextlib.suppress(FileNotFoundError):
            return any(os.readlink(each).endswith(".data") for each in folder.iterdir())
        return True

    client.open(put(tmp_path, "last", content(100)), number=1000)
    client.send(Ask.CLOSE, 1000)
    wait_until(lambda: not is_open(), "all are closed")


def test_a_moment_without_descriptors_leaves_the_cache_in_use(start: Start, tmp_path: Path) -> None:
    running = start()
    client = running.client()
    client.open(put(tmp_path, "a", content(100)))
    url = put(tmp_path, "b", content())
    with without_descriptors(running):
        answer = client.answer(client.send(Ask.OPEN, 1, url=url))
    assert (answer.kind, "Too many open files" in answer.reason) == (Tell.FAILED, True)
    assert client.read_all(client.open(url)) == content()
    assert running.figure("remote_in_memory") == 0


@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
def test_files_that_wait_to_be_sent_need_no_descriptors(
    start: Start, tmp_path: Path, is_closed: bool
) -> None:
    """They do not stay open if the client closes their object before it has taken them."""
    running = start()
    client, other = running.client(), running.client()
    opened, url = client.open(put(tmp_path, "a", content())), put(tmp_path, "b", content(seed=2))
    pin, beside = other.open(url).pin, other.open(put(tmp_path, "c", b"c"))
    assert (client.read_all(opened), other.read_all(beside)) == (content(), b"c")

    def let_it_take_all() -> None:
        for _ in range(50):  # the fetcher takes some of its messages each turn
            assert other.ask(beside, 0, 1).kind is Tell.READY

    with without_descriptors(running):
        asked = [client.send(Ask.WANT, opened.number, first=0, count=1) for _ in range(1000)]
        opening = client.send(Ask.OPEN, 1, url=url, pin=pin)
        let_it_take_all()
        if is_closed:
            client.send(Ask.CLOSE, 1)
            other.send(Ask.CLOSE, 0)
            let_it_take_all()
        assert all(client.answer(id_).kind is Tell.READY for id_ in asked)
        if not is_closed:
            assert client.answer(opening).kind is Tell.OPENED
    again = client.open(url, number=1) if is_closed else client.objects[1]
    assert client.read_all(again) == content(seed=2)


def test_an_object_that_is_too_large_leaves_the_cache_in_use(start: Start, tmp_path: Path) -> None:
    huge = good(b"x")[0].replace(b"/10", b"/99999999999999999")
    running = start()
    client = running.client()
    with scripted(lambda _: (huge, False)) as port:
        answer = client.answer(client.send(Ask.OPEN, 1, url=f"http://127.0.0.1:{port}/a"))
    assert (answer.kind, "too many for one object" in answer.reason) == (Tell.FAILED, True)
    assert client.read_all(client.open(put(tmp_path, "a", content()))) == content()
    assert running.figure("remote_in_memory") == 0


def test_ranges_in_flight_fit_into_a_small_cache(start: Start, tmp_path: Path) -> None:
    """All ranges come at the same rate: no range is whole before much of each has come."""
    blocks = 48
    (tmp_path / "a.bin").write_bytes(content(blocks * BLOCK_SIZE))
    with faulty(tmp_path) as server:
        server.shape(latency_s=0.01, bytes_per_s=40e6)
        running = start(cache_size=16 << 20)
        client = running.client()
        opened = client.open(f"{server.url}/a.bin")
        assert client.ask(opened, 0, blocks).kind is Tell.READY
        assert running.figure("remote_in_memory") == 0


def goes_on_in_memory(running: Running, client, opened) -> None:
    for first in range(BLOCKS):
        assert client.ask(opened, first, 1).kind is Tell.READY
    assert client.moved == [opened.number]
    assert opened.read(BLOCK_SIZE, SIZE) == content()[BLOCK_SIZE:]
    assert running.figure("remote_in_memory") == 1
    assert running.log().count("<4>") == 1


@pytest.mark.promise("S64")
def test_a_fetcher_goes_on_without_a_removed_cache(start: Start, tmp_path: Path) -> None:
    running = start()
    client = running.client()
    opened = client.open(put(tmp_path, "a", content()))
    client.ask(opened, 0, 1)
    shutil.rmtree(tmp_path / "cache")
    goes_on_in_memory(running, client, opened)
    other = running.client()
    assert other.read_all(other.open(f"file://{tmp_path}/a")) == content()


@pytest.mark.promise("S64")
def test_a_given_cache_directory_that_cannot_be_made_is_an_error(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file")
    client = start().client()
    answer = client.answer(client.send(Ask.OPEN, url=put(tmp_path, "a", content())))
    assert (answer.kind, answer.error) == (Tell.FAILED, "CacheError")
    assert (
        answer.reason
        == f"{tmp_path}/cache: File exists; choose another with --cache-dir or FFRFS_CACHE_DIR"
    )


@pytest.mark.promise("S64")
@pytest.mark.parametrize("how", ["the user's own", "another fetcher before"])
def test_a_fetcher_works_without_a_cache_that_cannot_be_made(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    url = put(tmp_path, "a", content())
    pin = start().client().open(url).pin if how == "another fetcher before" else ""
    (tmp_path / "file").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    running = start(cache_dir=str(tmp_path / "file" / "none") if pin else None)
    client = running.client()
    assert client.read_all(client.open(url, pin)) == content()
    assert client.moved == []
    assert running.log().count("<4>") == 1


def read_once(running: Running, url: str) -> bytes:
    client = running.client()
    data = client.read_all(client.open(url))
    running.process.close()
    return data


@pytest.mark.promise("S62")
def test_blocks_without_a_version_do_not_outlive_their_fetcher(
    start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "a.bin"
    with faulty(tmp_path) as server:
        server.do(Kind.NO_VERSION)
        for seed in (1, 2):
            path.write_bytes(content(seed=seed))
            running = start()
            assert read_once(running, f"{server.url}/a.bin") == content(seed=seed)
            [line] = running.log().splitlines()
            assert "neither ETag nor Last-Modified" in line
            assert running.figure("remote_in_memory") == 0
    assert not list((tmp_path / "cache").rglob("*.data"))


@pytest.mark.promise("S64")
def test_urls_with_different_queries_are_two_objects(start: Start, tmp_path: Path) -> None:
    """Even if their ETag, time and size are the same."""
    path = tmp_path / "a.bin"
    with faulty(tmp_path) as server:
        server.do(Kind.CHANGED)  # all files get one ETag
        for seed in (1, 2, 1):
            path.write_bytes(content(seed=seed))
            os.utime(path, (1, 1))
            url = f"{server.url}/a.bin?file={seed}"
            assert read_once(start(), url) == content(seed=seed)
        assert len(server.counts().gets("/a.bin")) < 3 * BLOCKS  # the third read was cached
    for each in (tmp_path / "cache").rglob("*.state"):
        assert b"file=" not in each.read_bytes()


@pytest.mark.promise("S64")
def test_a_small_cache_serves_a_large_object(start: Start, tmp_path: Path) -> None:
    data = content(48 * BLOCK_SIZE)
    running = start(cache_size=16 * BLOCK_SIZE)
    client = running.client()
    opened = client.open(put(tmp_path, "a", data))
    for first in range(48):
        begin = first * BLOCK_SIZE
        assert client.ask(opened, first, 1).kind is Tell.READY
        assert opened.read(begin, BLOCK_SIZE) == data[begin : begin + BLOCK_SIZE]
    held = sum(
        each.stat().st_blocks * 512
        for each in (tmp_path / "cache").rglob("*.data")
        if each.is_file()
    )
    assert held <= 16.16 * BLOCK_SIZE


def test_many_clients_at_once_get_their_own_bytes(start: Start, tmp_path: Path) -> None:
    running = start()
    urls = [put(tmp_path, f"{seed}", content(seed=seed)) for seed in range(6)]
    wrong: list[int] = []

    def read(seed: int) -> None:
        client = running.client()
        if client.read_all(client.open(urls[seed])) != content(seed=seed):
            wrong.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_an_object_too_large_for_a_file_of_the_cache_leaves_the_directory_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server may claim any size; file systems differ in the size that a file may have."""
    real = os.ftruncate
    cache = tmp_path / "cache"

    def ftruncate(fd: int, size: int) -> None:
        if size > 1 << 40 and os.readlink(f"/proc/self/fd/{fd}").startswith(str(cache)):
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        real(fd, size)

    monkeypatch.setattr(os, "ftruncate", ftruncate)
    pins = [Pin(parse_url("http://h/x"), size, "e", None, 0) for size in (1 << 41, 1 << 20)]

    async def opened() -> list[CachedObject]:
        settings = RemoteSettings(cache_dir=str(cache))
        fetcher = ObjectFetcher(FetcherStart(settings, {}, 16 << 20), FetchCounters())
        found = [await fetcher._opened(pin, False) for pin in pins]
        assert isinstance(fetcher._cache, CacheDirectory)
        return found

    for one in asyncio.run(opened()):
        one.close()
    assert [path.stat().st_size for path in cache.rglob("*.data")] == [1 << 20]
    (line,) = caplog.messages
    assert line.startswith("http://h/x: has 2,199,023,255,552 bytes, too many for a file")
