"""Records that are larger than the cache: they are read right, though more slowly.

A cache of 16M keeps 12 blocks at a time, as it evicts blocks before it is full.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import random
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from ffrfs.cli.main import main
from ffrfs.remote.session import session, use_urls
from ffrfs.remote.settings import RemoteSettings
from ffrfs.tfrecord import TFRecordReader, tf_record_iterator
from tests.mount import probes
from tests.mount.command import ENGINES, mount_command_fails
from tests.mount.makers import closing_mounts
from tests.remote.servers.faulty import Faulty, faulty
from tests.tfrecord_file import framed, write_tfrecord

SMALL = 16 << 20
DISK = ["--cache-size", "16M"]
# With the least memory that a mount over a fetcher accepts, 48M are left for blocks.
MEMORY = ["--cache-mode", "stream", "--max-memory", "192M"]

pytestmark = pytest.mark.xdist_group("small caches")  # the records take seconds to make


@functools.cache
def packed_records() -> list[bytes]:
    sizes = (9, 52 << 20, 5 << 20)
    return [random.Random(seed).randbytes(size) for seed, size in enumerate(sizes)]


@functools.cache
def digests() -> list[str]:
    return [hashlib.sha256(record).hexdigest() for record in packed_records()]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    folder = tmp_path_factory.mktemp("small")
    (folder / "source").mkdir()
    (folder / "web").mkdir()
    for number, record in enumerate(packed_records()):
        (folder / "source" / str(number)).write_bytes(record)
    ffrfs.pack_folder(folder / "source", folder / "web" / "tree.ffr")
    write_tfrecord(folder / "web" / "x.tfrecord", packed_records())
    (folder / "web" / "x.gz").write_bytes(gzip.compress(framed(packed_records()), 0))
    with faulty(folder / "web") as server:
        server.shape(latency_s=0.002)
        yield server


@pytest.fixture
def small_cache(tmp_path: Path) -> Iterator[None]:
    use_urls(RemoteSettings(cache_dir=str(tmp_path / "cache"), cache_size=SMALL, timeout_s=30))
    yield
    session.configure(RemoteSettings())
    session.settings = None


def are_packed(found: Iterable[Any]) -> bool:
    """Return whether `found` are the packed records in their order."""
    return list(map(bytes, found)) == packed_records()


@pytest.mark.usefixtures("small_cache")
def test_readers_of_whole_records(server: Faulty) -> None:
    folder = ffrfs.PackedFolder(f"{server.url}/tree.ffr")
    names = [str(number) for number in range(3)]
    assert are_packed(folder[name] for name in names)
    assert are_packed(folder.read(names))
    reader = ffrfs.FileReader(f"{server.url}/tree.ffr")
    assert {bytes(reader.read_one(number)) for number in range(3)} == {*packed_records()}
    assert are_packed(TFRecordReader(f"{server.url}/x.tfrecord")[:])


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize("name", ["x.tfrecord", "x.gz"])
def test_streams(server: Faulty, name: str) -> None:
    with tf_record_iterator(f"{server.url}/{name}") as found:
        assert are_packed(found)


@pytest.mark.usefixtures("small_cache")
def test_many_readers_at_once(server: Faulty) -> None:
    folder = ffrfs.PackedFolder(f"{server.url}/tree.ffr")
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda name: folder[name], ["0", "1", "2"] * 2))
    assert are_packed(found[:3]) and are_packed(found[3:])


@pytest.mark.usefixtures("small_cache")
def test_verify_and_extract(server: Faulty, tmp_path: Path) -> None:
    assert main(["verify", f"{server.url}/tree.ffr"]) == 0
    assert main(["extract", f"{server.url}/tree.ffr", str(tmp_path / "out")]) == 0
    out = [(tmp_path / "out" / str(number)).read_bytes() for number in range(3)]
    assert are_packed(out)


@pytest.mark.parametrize(
    ("engine", "name", "cache"),  # every pair of values occurs once
    [
        ("native", "tree.ffr", DISK),
        ("native", "x.tfrecord", MEMORY),
        ("pyfuse3", "tree.ffr", MEMORY),
        ("pyfuse3", "x.tfrecord", DISK),
    ],
)
@pytest.mark.usefixtures("fuse")
def test_mounts(server: Faulty, tmp_path: Path, engine: str, name: str, cache: list[str]) -> None:
    with closing_mounts(tmp_path, tmp_path) as new:
        tree = new(engine, f"{server.url}/{name}")
        done = tree.mount(
            *("--cache-dir", str(tmp_path / "cache"), "--remote-timeout", "30", *cache)
        )
        assert (done.status, done.out, done.err) == (0, "", "")
        for _ in range(2):
            found = tree.ask(probes.digests, ".", timeout_s=120)
            assert sorted(filter(None, found.values())) == sorted(digests())


@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("engine", ENGINES)
def test_too_little_memory_is_reported_as_for_any_mount(
    server: Faulty, tmp_path: Path, engine: str
) -> None:
    with closing_mounts(tmp_path, tmp_path) as new:
        done = new(engine, f"{server.url}/tree.ffr").mount(
            *("--cache-mode", "stream", "--max-memory", "32M")
        )
        mount_command_fails(done, 1, "--max-memory 32M cannot hold this mount")
