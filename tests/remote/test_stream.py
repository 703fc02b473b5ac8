"""The bytes of an object from front to end, by a fetcher: also if it dies, or loses blocks."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.errors import RemoteNotFoundError, RemoteTimeoutError
from ffrfs.remote.session import session, use_urls
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.stream import RemoteStream
from ffrfs.tfrecord import TFRecordWriter, tf_record_iterator
from ffrfs.tfrecord.info import info
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import Faulty, faulty

DATA = os.urandom((12 << 20) + 12345)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    (root / "data").write_bytes(DATA)
    (root / "empty").touch()
    return root


@pytest.fixture(scope="module")
def shared(root: Path) -> Iterator[Faulty]:
    with faulty(root) as server:
        yield server


@pytest.fixture
def server(shared: Faulty) -> Iterator[Faulty]:
    yield shared
    shared.mend()


@pytest.fixture(autouse=True)
def fetcher(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """A fetcher whose cache is on disk, or has the mode of the parameter."""
    cache_dir, mode = str(tmp_path / "cache"), getattr(request, "param", "full")
    timeout_s = 6 if "goes_wrong" in request.node.name else 60
    use_urls(RemoteSettings(cache_dir=cache_dir, cache_mode=mode, timeout_s=timeout_s))
    yield
    session.configure(RemoteSettings())
    session.settings = None


in_both_modes = pytest.mark.parametrize("fetcher", ["full", "stream"], indirect=True)


@in_both_modes
def test_a_whole_stream(server: Faulty) -> None:
    with RemoteStream(f"{server.url}/data") as stream:
        assert stream.size == len(DATA)
        assert b"".join(iter(lambda: stream.read(100_000), b"")) == DATA
        assert stream.read(1) == b""
    with RemoteStream(f"{server.url}/empty") as stream:
        assert stream.read() == b""


@in_both_modes
@pytest.mark.parametrize("fault", [None, Kind.NO_VERSION])  # the server tells no versions apart
def test_a_fetcher_that_is_killed(server: Faulty, fault: Kind | None) -> None:
    if fault is not None:
        server.do(fault)
    with RemoteStream(f"{server.url}/data") as stream:
        begin = stream.read(100)
        assert session.pid is not None
        os.kill(session.pid, signal.SIGKILL)
        assert begin + stream.readall() == DATA


def test_a_stream_that_goes_wrong_raises_errors(server: Faulty) -> None:
    """The read tries again until its time is over."""
    place = server.url.replace("http", "HTTP")
    with pytest.raises(RemoteNotFoundError, match=f"^{place}/none: there is no such object"):
        RemoteStream(f"{place}/none")
    with RemoteStream(f"{server.url}/data") as stream:
        server.do(Kind.ERROR)
        with pytest.raises(RemoteTimeoutError):
            stream.readall()
        server.mend()
        assert stream.read(10)


@pytest.mark.promise("S64")
@in_both_modes
def test_a_cache_that_is_cut_off(server: Faulty, tmp_path: Path) -> None:
    with RemoteStream(f"{server.url}/data") as stream:
        begin = stream.read(100)
        for data in (tmp_path / "cache").rglob("*.data"):
            os.truncate(data, 0)
        assert begin + stream.readall() == DATA


@pytest.mark.parametrize("options", ["", "GZIP", "ZLIB"])
def test_records(server: Faulty, root: Path, options: str) -> None:
    records = [os.urandom(number * 300) for number in range(200)]
    with TFRecordWriter(root / "x", options) as writer:
        for record in records:
            writer.write(record)
    with tf_record_iterator(f"{server.url}/x") as found:
        assert list(found) == records
    with tf_record_iterator(f"{server.url}/x", options) as found:
        assert list(found) == records
    (file,) = info([f"{server.url}/x"]).files
    assert (file.compression, file.record_count) == (options, 200)
    assert file.file_size == (root / "x").stat().st_size


def test_a_damaged_stream(server: Faulty, root: Path) -> None:
    (root / "x.gz").write_bytes(gzip.compress(b"no record")[:-4])
    with pytest.raises(ValueError, match=r"x\.gz"):
        list(tf_record_iterator(f"{server.url}/x.gz"))
