"""Servers that do wrong: a request is tried again if its fault may pass, and fails otherwise."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.errors import ChangedAtOriginError, RemoteDeniedError, RemoteError, RemoteTimeoutError
from ffrfs.remote.fetch_counters import FetchCounters
from ffrfs.remote.origin import origin_for, read_bytes
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import parse_url
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import Faulty, faulty

DATA = os.urandom(1 << 20)
PATIENT = RemoteSettings(timeout_s=20)
IMPATIENT = RemoteSettings(timeout_s=2)


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faulty")


@pytest.fixture(scope="module")
def shared(shared_root: Path) -> Iterator[Faulty]:
    (shared_root / "a.ffr").write_bytes(DATA)
    with faulty(shared_root) as server:
        yield server


@pytest.fixture
def server(shared: Faulty) -> Iterator[Faulty]:
    shared.forget_counts()
    yield shared
    shared.mend()


def pin(server: Faulty, settings: RemoteSettings = PATIENT) -> Pin:
    url = parse_url(f"{server.url}/a.ffr")
    return asyncio.run(origin_for(url, settings).pin(url))


def read(of: Pin, settings: RemoteSettings, traffic: FetchCounters | None = None) -> bytes:
    origin = origin_for(of.url, settings, traffic)
    return bytes(asyncio.run(read_bytes(origin, of, 1000, 500_000)))


@pytest.mark.parametrize(
    "kind", [Kind.SLOW_DOWN, Kind.ERROR, Kind.RESET, Kind.SHORT, Kind.ENDLESS_HEADER]
)
def test_temporary_faults_are_retried(server: Faulty, kind: Kind) -> None:
    found = pin(server)
    traffic = FetchCounters()
    server.do(kind, times=3)
    assert read(found, PATIENT, traffic) == DATA[1000:501_000]
    counts = [traffic[f"remote_{name}"] for name in ("requests", "retries", "bytes")]
    assert counts == [4, 3, 500_000]
    assert traffic["remote_throttled"] == (3 if kind is Kind.SLOW_DOWN else 0)


def test_bytes_that_have_arrived_are_not_requested_again(server: Faulty, shared_root: Path) -> None:
    data = DATA * 3 + DATA[:-1]
    (shared_root / "b.ffr").write_bytes(data)
    url = parse_url(f"{server.url}/b.ffr")
    origin = origin_for(url, PATIENT)
    found = asyncio.run(origin.pin(url))
    server.do(Kind.SHORT, times=1)  # half of it comes
    assert asyncio.run(read_bytes(origin, found, 0, len(data))) == data
    half = len(data) // 2
    _, first, second = (seen.range for seen in server.counts().gets("/b.ffr"))
    assert (first, second) == (f"bytes=0-{len(data) - 1}", f"bytes={half}-{len(data) - 1}")


def test_a_slow_line_is_not_taken_for_silence(server: Faulty) -> None:
    """The range takes longer than the limit for silence; the test waits, and takes no CPU."""
    settings = RemoteSettings(timeout_s=8)
    found = pin(server)
    server.shape(bytes_per_s=60_000)
    try:
        assert read(found, settings) == DATA[1000:501_000]
    finally:
        server.shape()


@pytest.mark.parametrize("kind", [Kind.STALL, Kind.STALL_IN_BODY])
def test_a_silent_request_is_retried_before_the_deadline(server: Faulty, kind: Kind) -> None:
    found = pin(server)
    server.do(kind, times=1)
    settings = RemoteSettings(timeout_s=6)
    assert read(found, settings) == DATA[1000:501_000]


@pytest.mark.parametrize("place", ["{}", "s3:/"])
def test_a_slow_first_byte_is_waited_for(
    server: Faulty, shared_root: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The first request is sent again, as if it were lost; the second one is waited for at once."""
    (shared_root / "bucket").mkdir(exist_ok=True)
    (shared_root / "bucket/a.ffr").write_bytes(DATA)
    url = parse_url(f"{place.format(server.url)}/bucket/a.ffr")
    settings = RemoteSettings(endpoint_url=server.url, region="eu-1", anonymous=True, timeout_s=3)
    traffic = FetchCounters()
    origin = origin_for(url, settings, traffic)
    found = asyncio.run(origin.pin(url))
    server.shape(latency_s=0.45)  # each way: longer than a quarter of the time-out
    try:
        for requests in (1 + 2, 1 + 2 + 1):
            assert asyncio.run(read_bytes(origin, found, 0, 1000)) == DATA[:1000]
            assert traffic["remote_requests"] == requests
        # Opening waits for a quarter of a long time-out, but at least as long as most servers need.
        monkeypatch.setattr("ffrfs.remote.object_origin._PATIENCE_S", 0.1)
        patient = dataclasses.replace(settings, timeout_s=16)
        assert asyncio.run(origin_for(url, patient).pin(url)) == found
    finally:
        server.shape()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Kind.SLOW_DOWN, "the server throttles requests .503 SlowDown."),
        (Kind.ERROR, "the server failed .500."),
        (Kind.RESET, "the connection broke off"),
        (Kind.SHORT, "the connection broke off"),
        (Kind.STALL, "did not answer in time"),
        (Kind.STALL_IN_BODY, "did not answer in time"),
    ],
)
def test_lasting_faults_fail_at_the_deadline(server: Faulty, kind: Kind, reason: str) -> None:
    found = pin(server)
    server.do(kind)
    begin_s = time.monotonic()
    # The error names the fault of the last attempt. Each attempt has a quarter of the time, which
    # has to be enough for the server to get a CPU.
    with pytest.raises(RemoteTimeoutError, match=rf"no answer for 3\.6 s .*{reason}"):
        read(found, RemoteSettings(timeout_s=4))
    assert 3 < time.monotonic() - begin_s < PATIENT.timeout_s
    server.mend()
    assert read(found, PATIENT) == DATA[1000:501_000]


@pytest.mark.parametrize(
    ("kind", "error", "reason"),
    [
        (Kind.DENIED, RemoteDeniedError, "refused"),
        (Kind.CHANGED, ChangedAtOriginError, "changed at its origin"),
        (Kind.CHANGED_SILENTLY, ChangedAtOriginError, "changed at its origin"),
        (Kind.NO_ETAG, ChangedAtOriginError, "changed at its origin"),
        (Kind.NO_VERSION, ChangedAtOriginError, "changed at its origin"),
        (Kind.WRONG_TOTAL, ChangedAtOriginError, "changed at its origin"),
        (Kind.WRONG_RANGE, RemoteError, "other bytes than requested"),
        (Kind.WHOLE, RemoteError, "whole files only"),
        (Kind.ENDLESS, RemoteError, "does not say how many bytes"),
        (Kind.LOGIN, RemoteError, "whole files only"),
    ],
)
def test_wrong_answers_are_errors_at_once(
    server: Faulty, kind: Kind, error: type[RemoteError], reason: str
) -> None:
    found = pin(server)
    server.do(kind)
    traffic = FetchCounters()
    with pytest.raises(error, match=reason) as caught:
        read(found, PATIENT, traffic)
    assert str(caught.value).startswith(f"{server.url}/a.ffr: ")
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, RemoteTimeoutError)
    assert (traffic["remote_requests"], traffic["remote_bytes"]) == (1, 0)


def test_a_login_page_is_not_taken_for_a_file(server: Faulty) -> None:
    server.do(Kind.LOGIN)
    with pytest.raises(RemoteError, match="a web page, perhaps a login page"):
        pin(server)


@pytest.mark.promise("S65")
@pytest.mark.parametrize("place", ["localhost:{}", "127.0.0.1:{}"])
def test_redirects_to_other_servers_are_not_followed(
    server: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Another port is another place, even on the host that gives a cloud's credentials."""
    found = pin(server)
    (tmp_path / "a.ffr").write_bytes(DATA)
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://localhost:1")
    with faulty(tmp_path) as other:
        server.do(Kind.REDIRECT, location=f"http://{place.format(other.port)}")
        for ask in (lambda: pin(server, PATIENT), lambda: read(found, PATIENT)):
            with pytest.raises(RemoteError, match="redirects to another place, which ffrfs does"):
                ask()
        assert other.counts().requests == []


def test_a_redirect_within_the_server_is_followed(server: Faulty) -> None:
    found = pin(server)
    for location in ("", server.url):  # the part before the path
        server.do(Kind.REDIRECT, location=location, times=2)
        assert pin(server, PATIENT) == found
    server.do(Kind.REDIRECT, location="")  # again and again
    with pytest.raises(RemoteError, match="the server redirects again and again: its fault"):
        pin(server, PATIENT)


def test_unreadable_headers(server: Faulty) -> None:
    server.do(Kind.ODD_HEADERS)
    with pytest.raises(RemoteError, match=r"the server sent an ETag or version over 1024 charact"):
        pin(server)


def test_a_server_without_etags(server: Faulty) -> None:
    """The time of the last change is compared instead."""
    server.do(Kind.NO_ETAG)
    found = pin(server)
    assert found.etag is None
    assert read(found, PATIENT) == DATA[1000:501_000]
    other = Pin(found.url, found.size, None, None, found.mtime_ns - 1_000_000_000)
    with pytest.raises(ChangedAtOriginError):
        read(other, PATIENT)


def test_memory_is_bounded(server: Faulty) -> None:
    """Headers and bodies do not end, for seconds each: memory must not grow by all that comes."""
    found = pin(server)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for kind in (Kind.ENDLESS, Kind.ENDLESS_HEADER):
        server.do(kind)
        with pytest.raises(RemoteError):
            read(found, IMPATIENT)
        server.mend()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


def test_the_request_of_a_cancelled_reader_is_given_up(server: Faulty) -> None:
    """Its request is given up, without waiting for the deadline."""
    found = pin(server)
    server.do(Kind.STALL)

    async def give_up() -> None:
        task = asyncio.create_task(read_bytes(origin_for(found.url, PATIENT), found, 0, 10))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    begin_s = time.monotonic()
    asyncio.run(give_up())
    assert time.monotonic() - begin_s < PATIENT.timeout_s / 2


def test_faults_of_a_bucket_endpoint(server: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same holds for buckets; here a folder of the server is the bucket."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    settings = RemoteSettings(endpoint_url=server.url, region="eu-1", timeout_s=20)
    url = parse_url("s3://bucket/missing.ffr")
    server.do(Kind.REDIRECT, location=f"http://localhost:{server.port}/other", times=1)
    with pytest.raises(RemoteError, match="redirects to another place"):
        asyncio.run(origin_for(url, settings).pin(url))
    server.do(Kind.SLOW_DOWN, times=1)
    with pytest.raises(RemoteError, match="there is no such object"):
        asyncio.run(origin_for(url, settings).pin(url))
