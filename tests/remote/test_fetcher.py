"""A fetcher as its clients see it: blocks that arrive, failures, ends; over files and HTTP."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

import pytest

from ffrfs.remote.changed_before import ChangedBefore
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.pin import Pin
from ffrfs.remote.protocol import BLOCK_SIZE, REQUESTS_MAX, Ask, Tell
from ffrfs.remote.url import parse_url
from tests.cache.blocks import in_child
from tests.mount.command import wait_until
from tests.remote.fetch_client import FetchClient
from tests.remote.running_fetcher import Running, Start, content, put
from tests.remote.servers.nginx import Nginx


def test_only_requested_blocks_are_fetched(start: Start, tmp_path: Path) -> None:
    running = start()
    client = running.client()
    opened = client.open(put(tmp_path, "a", content()))
    assert client.ask(opened, 1, 2).kind is Tell.READY
    assert opened.read(BLOCK_SIZE, 2 * BLOCK_SIZE) == content()[BLOCK_SIZE : 3 * BLOCK_SIZE]
    assert running.figure("remote_blocks_fetched") == 2


@pytest.mark.promise("S63")
def test_a_block_requested_by_many_is_fetched_once(start: Start, tmp_path: Path) -> None:
    running = start()
    clients = [running.client() for _ in range(4)]
    url = put(tmp_path, "a", content())
    opened = [client.open(url) for client in clients]
    asked = [
        (client, client.send(kind, one.number, first=0, count=6))
        for client, one in zip(clients, opened, strict=True)
        for kind in (Ask.SOON, Ask.WANT, Ask.WANT)
    ]
    assert all(client.answer(id_).kind is Tell.READY for client, id_ in asked)
    assert running.figure("remote_blocks_fetched") == 6


def test_a_block_is_fetched_again_at_most_twice_a_minute(start: Start, tmp_path: Path) -> None:
    running = start()
    client = running.client()
    opened = client.open(put(tmp_path, "a", content()))
    client.read_all(opened)
    for _ in range(4):
        assert client.ask(opened, 0, 2, Ask.AGAIN).kind is Tell.READY
    assert running.figure("remote_blocks_again") == 4
    assert running.figure("remote_blocks_fetched") == 10


def test_hits_count_blocks_read_without_a_fetch(start: Start, tmp_path: Path) -> None:
    """The cache is measured every five seconds."""
    url = put(tmp_path, "a", content())
    running = start()
    client = running.client()
    opened = client.open(url)
    limit = "remote_cache_limit_bytes"
    assert running.figure(limit) == 20 << 30  # known before the first measurement
    client.read_all(opened)

    def hits_after_reading(first: int, count: int) -> int:
        client.send(Ask.USED, opened.number, first=first, count=count)
        client.ask(opened, 0, 1)  # answered after USED was handled
        return running.figure("remote_blocks_hit")

    assert hits_after_reading(0, 4) == 0
    assert hits_after_reading(2, 4) == 2
    assert hits_after_reading(0, 6) == 8
    assert running.figure("remote_blocks_fetched") == 6
    held = "remote_cache_bytes"
    wait_until(lambda: running.figure(held) >= len(content()), "the cache is measured", 60)


@pytest.mark.promise("S65")
def test_a_client_of_a_mount_opens_only_the_mounted_urls(start: Start, tmp_path: Path) -> None:
    (tmp_path / "set" / "deep").mkdir(parents=True)
    mounted, inside = put(tmp_path, "a", content()), put(tmp_path / "set", "b", content())
    folder = f"file://{tmp_path}/set/"
    client = start(roots=[mounted, folder]).client()
    assert client.read_all(client.open(mounted)) == content()
    assert client.list(folder) == [inside]
    assert client.read_all(client.open(inside)) == content()
    put(tmp_path, "ab", b"x")
    put(tmp_path / "set" / "deep", "c", b"x")
    for other in ("ab", "set/deep/c", "set/../a", "", "set/deep/"):
        for kind in (Ask.OPEN, Ask.LIST):
            answer = client.answer(client.send(kind, 9, url=f"file://{tmp_path}/{other}"))
            assert (answer.kind, answer.error) == (Tell.FAILED, "RemoteDeniedError"), other
            assert "not among the packs of this mount" in answer.reason


@pytest.mark.promise("S65")
def test_a_client_of_a_mount_does_not_choose_the_query(
    start: Start, web: Nginx, web_root: Path
) -> None:
    (web_root / "queries").mkdir(exist_ok=True)
    (web_root / "queries" / "a").write_bytes(content())
    place = f"{web.url}/queries/"
    client = start(roots=[f"{place}a?file=1", f"{place}?file=2"]).client()
    for allowed in ("a?file=1", "a?file=2"):
        assert client.open(place + allowed).size == len(content())
    for other in ("a?file=3", "a", "a?file=1&file=3"):
        answer = client.answer(client.send(Ask.OPEN, 9, url=place + other))
        assert (answer.kind, answer.error) == (Tell.FAILED, "RemoteDeniedError"), other


@pytest.mark.promise("S65")
def test_a_client_of_a_mount_needs_no_signature_of_a_directory(
    start: Start, web: Nginx, web_root: Path
) -> None:
    (web_root / "signed").mkdir(exist_ok=True)
    (web_root / "signed" / "a").write_bytes(content())
    place = f"{web.url}/signed/"
    client = start(roots=[f"{place}?k=hush"], signed={place: f"{place}?k=hush"}).client()
    assert client.list(place) == [f"{place}a"]
    assert client.open(f"{place}a").size == len(content())
    assert any("/signed/a?k=hush" in line for line in web.requests())


@pytest.mark.promise("S65")
def test_a_client_of_a_mount_does_not_choose_the_server(start: Start, web: Nginx) -> None:
    client = start(roots=["s3://bucket/a"], anonymous=True).client()
    store = f"endpoint_url={web.url}".replace("/", "%2F")
    answer = client.answer(client.send(Ask.OPEN, 9, url=f"s3://{store}@bucket/a"))
    assert (answer.kind, answer.error) == (Tell.FAILED, "OptionError")


def test_a_cancelled_request_gets_no_answer(start: Start, tmp_path: Path) -> None:
    client = start().client()
    opened = client.open(put(tmp_path, "a", content()))
    cancelled = client.send(Ask.WANT, opened.number, first=0, count=6)
    client.send(Ask.CANCEL, id=cancelled)
    assert client.ask(opened, 0, 6).kind is Tell.READY
    # The answer may have been under way before the cancellation arrived.
    assert len(client.kept.get(cancelled, [])) <= 1


def test_a_closed_number_can_be_used_again(start: Start, tmp_path: Path) -> None:
    running = start()
    client = running.client()
    for turn in range(3):
        opened = client.open(put(tmp_path, f"{turn}", content(seed=turn)), number=7)
        assert client.read_all(opened) == content(seed=turn)
        client.send(Ask.CLOSE, 7)
        client.objects.pop(7).close()
    last = put(tmp_path, "last", b"x")
    for number in (7, 8):  # both open the same object
        client.open(last, number=number)
    figures = running.figure("remote_objects"), running.figure("remote_object_bytes")
    assert figures == (1, 1)


def test_a_directory_is_listed(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    names = [f"pack-{number:05}.ffr" for number in range(2000)]
    for name in names:
        (folder / name).touch()
    client = start().client()
    assert client.list(f"file://{folder}/") == [f"file://{folder}/{name}" for name in names]


def test_an_open_that_fails_is_answered_with_the_reason(start: Start, tmp_path: Path) -> None:
    client = start().client()
    answer = client.answer(client.send(Ask.OPEN, 0, url=f"file://{tmp_path}/none"))
    assert (answer.kind, answer.error) == (Tell.FAILED, "RemoteNotFoundError")
    assert answer.reason == "there is no such file"
    answer = client.answer(client.send(Ask.OPEN, 0, url="ftp://a/b"))
    assert (answer.kind, answer.error) == (Tell.FAILED, "OptionError")
    answer = client.list(f"file://{tmp_path}/none/")
    assert answer.kind is Tell.FAILED
    url = put(tmp_path, "a", content())
    answer = client.answer(client.send(Ask.OPEN, 0, url=url, pin="{}"))
    assert answer.kind is Tell.FAILED


@pytest.mark.parametrize("of_mount", [True, False])
def test_old_and_new_bytes_of_an_object_are_not_mixed(
    start: Start, tmp_path: Path, of_mount: bool
) -> None:
    """A mount logs the error, as its readers get EIO; a program raises it."""
    url = put(tmp_path, "a", content())
    running = start(roots=[url] if of_mount else None)
    client = running.client()
    opened = client.open(url)
    client.ask(opened, 0, 1)
    put(tmp_path, "new", content(seed=9))
    (tmp_path / "new").rename(tmp_path / "a")
    for _ in range(3):
        answer = client.ask(opened, 2, 1)
        assert (answer.kind, answer.error) == (Tell.FAILED, "ChangedAtOriginError")
    assert client.ask(opened, 0, 1).kind is Tell.READY  # a cached block can still be read
    assert running.log().count("<4>") == of_mount
    fresh = client.open(url, number=1)
    assert client.read_all(fresh) == content(seed=9)
    assert running.figure("remote_changed") == 1
    client.send(Ask.CLOSE, opened.number)
    wait_until(lambda: running.figure("remote_changed") == 0, "the old one is closed")


@pytest.mark.promise("S63")
def test_an_object_that_was_missing_for_a_moment_is_read_again(
    start: Start, tmp_path: Path, web: Nginx, web_root: Path
) -> None:
    """The fetcher looks every two seconds whether an object is there again."""
    (web_root / "away").write_bytes(content())
    urls = [put(tmp_path, "a", content()), f"{web.url}/away"]
    for url, path in zip(urls, [tmp_path / "a", web_root / "away"], strict=True):
        running = start(roots=[url])
        client = running.client()
        opened = client.open(url)
        aside = path.rename(tmp_path / "aside")
        assert client.ask(opened, 0, 1).error == "ChangedAtOriginError"
        path.write_bytes(content(seed=9))
        os.utime(path, (1, 1))  # nginx makes an ETag of size and seconds
        while running.figure("remote_errors") < 3:  # the fetcher asks now and then
            assert client.ask(opened, 0, 1).error == "ChangedAtOriginError"
            time.sleep(0.02)
        assert running.figure("remote_changed") == 1
        aside.rename(path)
        wait_until(lambda: client.ask(opened, 0, 1).kind is Tell.READY, "it is read again")  # noqa: B023
        assert client.read_all(opened) == content()
        assert running.figure("remote_changed") == 0
        assert running.log().count("<4>") == 1


def test_changed_objects_are_counted_until_requested_again() -> None:
    """A new fetcher does not know which objects had changed."""
    pins = [Pin(parse_url(f"file:///{name}"), 1, name, None, 0) for name in "abc"]
    counters = FetchCounters()
    counters.set("remote_objects", 3)
    counters.set("remote_changed", 2)
    before = ChangedBefore(counters)
    for pin, is_changed, left in ((0, False, 2), (0, False, 2), (1, True, 1), (2, False, 0)):
        before.asked(pins[pin], is_changed=is_changed)
        assert counters["remote_changed"] == left
    before.asked(pins[2], is_changed=True)
    assert counters["remote_changed"] == 0


def test_another_fetcher_takes_over(start: Start, tmp_path: Path) -> None:
    running = start()
    client = running.client()
    url = put(tmp_path, "a", content())
    pin = client.open(url).pin
    first = running.process.pid
    os.kill(first, signal.SIGKILL)
    assert client.has_ended()
    client = running.client()
    assert running.process.pid != first
    assert client.read_all(client.open(url, pin)) == content()
    assert running.figure("remote_starts") == 2


def test_a_fetcher_ends_with_its_hub(start: Start, tmp_path: Path) -> None:
    running = start()
    client = running.client()
    client.open(put(tmp_path, "a", content()))
    watched = os.pidfd_open(running.process.pid)
    try:
        running.process.close()
        assert select.select([watched], [], [], 5)[0]
    finally:
        os.close(watched)
    assert client.has_ended()


def test_a_protocol_violation_ends_only_its_own_link(start: Start, tmp_path: Path) -> None:
    running = start()
    url = put(tmp_path, "a", content())
    good = running.client()
    opened = good.open(url)
    breaches = [
        lambda client: client.socket.send(b"x"),
        lambda client: client.send(Ask.WANT, 0, first=6, count=1),  # beyond the end
        lambda client: client.send(Ask.WANT, 0, first=5, count=2),
        lambda client: client.send(Ask.WANT, 1, first=0, count=1),  # not open
        lambda client: client.send(Ask.OPEN, 0, url=url),  # in use
    ]
    for breach in breaches:
        bad = running.client()
        bad.open(url)
        breach(bad)
        assert bad.has_ended()
    assert good.read_all(opened) == content()
    assert running.log().count("was disconnected") == len(breaches)


def test_a_client_that_reads_no_answers_blocks_no_other_client(
    start: Start, tmp_path: Path
) -> None:
    running = start()
    url = put(tmp_path, "a", content())
    greedy, other = running.client(), running.client()
    opened = greedy.open(url)
    greedy.socket.setblocking(False)
    with contextlib.suppress(BlockingIOError, ConnectionError):
        for sent in range(20 * REQUESTS_MAX):
            greedy.send(Ask.WANT, opened.number, first=0, count=1)
            if sent % 100 == 0:
                time.sleep(0.001)
    assert other.read_all(other.open(url)) == content()


def read_anew(running: Running, url: str) -> None:
    """Read an object through a new link of this process."""
    client = FetchClient(running.process.link())
    assert client.read_all(client.open(url)) == content()


def test_a_forked_child_connects_to_its_parents_fetcher(start: Start, tmp_path: Path) -> None:
    running = start()
    url = put(tmp_path, "a", content())
    running.client().open(url)
    in_child(lambda: read_anew(running, url))
    assert running.figure("remote_starts") == 1


def test_a_forked_child_starts_a_fetcher_if_there_is_none(start: Start, tmp_path: Path) -> None:
    running = start()
    url = put(tmp_path, "a", content())
    client = running.client()
    client.open(url)
    os.kill(running.process.pid, signal.SIGKILL)
    assert client.has_ended()

    def work() -> None:
        read_anew(running, url)
        running.process.close()

    in_child(work)


def test_no_secret_is_on_the_command_line_of_a_fetcher(start: Start, tmp_path: Path) -> None:
    running = start(endpoint_url="http://127.0.0.1:1")
    running.client().open(put(tmp_path, "a", b"x"))
    words = Path(f"/proc/{running.process.pid}/cmdline").read_bytes().split(b"\0")[:-1]
    assert all(word.isdigit() for word in words[words.index(b"ffrfs.remote.object_fetcher") + 1 :])
