"""The data of the part `remote`: packs and single objects on nginx and SeaweedFS, far away.

Both are real servers on loopback, behind a proxy that delays all bytes by LATENCY_S each way,
and counts them.

remote.py and remote_peers.py read the data; tests/remote/servers has the servers.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore

from benchmarks import data, mounts, packers
from benchmarks.mounts import Mount
from benchmarks.plan import Plan
from tests.remote.servers.delay import Delay, delay
from tests.remote.servers.nginx import nginx
from tests.remote.servers.seaweedfs import seaweedfs

LATENCY_S = 0.02  # each way
NGINX, SEAWEEDFS = "nginx", "SeaweedFS"
BUCKET = "bench"
RECORD_SIZE = 8  # of the files of INDEXED
PACK, INDEXED, VAST = "tree.ffr", "indexed.ffr", "vast.ffr"
SINGLE = "single"  # the folder of files that are objects of their own


@dataclass(frozen=True)
class Order:
    """Files in the order in which they are read."""

    listing: Path  # of these and their checksums, for reader.py
    count: int
    size_bytes: int


@dataclass(frozen=True)
class Site:
    folder: Path  # nginx serves it; local reads of packs use it, too
    work: Path
    lines: dict[str, Delay]
    programs: dict[str, tuple[int, int]]  # a server and its proxy
    whole: Order  # all files of PACK, shuffled
    single: Order  # some of them, which are also objects
    vast: Order  # some of the files of VAST, shuffled

    def url(self, server: str, name: str) -> str:
        return f"{self.lines[server].url}/{name}" if server == NGINX else f"s3://{BUCKET}/{name}"

    def options(self, server: str) -> list[str]:
        """Return the options of `ffrfs mount` to reach that server."""
        return [] if server == NGINX else ["--endpoint-url", self.lines[server].url]

    @contextlib.contextmanager
    def mounted(
        self, server: str, name: str, cache: Path, *, size: str = "100G", place: str = "mnt"
    ) -> Iterator[Mount]:
        """Mount a pack of that server with the native engine."""
        point = self.work / place
        point.mkdir(exist_ok=True)
        limits = ["--cache-dir", str(cache), "--cache-size", size]
        words = ["mount", "-f", "--engine", "native", "--transport", "dev"]
        command = [*packers.FFRFS, *words, *limits, *self.options(server)]
        with mounts.served([*command, self.url(server, name), point], point) as mount:
            yield mount

    def bytes_down(self) -> int:
        """Return the bytes that all servers have sent so far, with their headers."""
        return sum(line.carried().bytes_down for line in self.lines.values())


@contextlib.contextmanager
def opened(plan: Plan, work: Path) -> Iterator[Site]:
    """Make the site and serve it until the end. SeaweedFS's credentials are given as AWS's."""
    folder = work / "web"
    folder.mkdir()
    whole = _write_pack(folder / PACK, plan.remote_count, plan.large_size, work / "whole.json")
    vast = _write_pack(folder / VAST, plan.quota_count, plan.large_size, work / "vast.json")
    data.write_pack(folder / INDEXED, plan.opened_count, RECORD_SIZE)
    single = _write_single(folder / SINGLE, plan, whole, work / "single.json")
    with contextlib.ExitStack() as stack:
        web, storage = stack.enter_context(nginx(folder)), stack.enter_context(seaweedfs())
        store = storage.make_bucket(BUCKET)
        paths = [folder / PACK, folder / INDEXED, *(folder / SINGLE).rglob("*.bin")]
        for path in paths:
            obstore.put(store, str(path.relative_to(folder)), path)
        lines = {
            server: stack.enter_context(delay(port, LATENCY_S))
            for server, port in ((NGINX, web.port), (SEAWEEDFS, storage.port))
        }
        stack.enter_context(_set(storage.environment()))
        programs = {
            NGINX: (web.program.pid, lines[NGINX].program.pid),
            SEAWEEDFS: (storage.program.pid, lines[SEAWEEDFS].program.pid),
        }
        yield Site(folder, work, lines, programs, whole, single, vast)


@contextlib.contextmanager
def _set(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


def _write_pack(path: Path, count: int, size: int, listing: Path) -> Order:
    data.write_pack(path, count, size)
    checksums = [zlib.crc32(blob) for blob in data.blobs(count, size)]
    order = random.Random(count).sample(range(count), count)
    return _write_listing(listing, order, checksums, size)


def _write_single(folder: Path, plan: Plan, whole: Order, listing: Path) -> Order:
    """Write the first files of the whole order as single files."""
    found = json.loads(whole.listing.read_text())
    names = found["names"][: plan.remote_sample]
    wanted = set(names)
    for index, blob in enumerate(data.blobs(plan.remote_count, plan.large_size)):
        name = data.file_name(index)
        if name in wanted:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(blob)
    checksums = found["checksums"][: plan.remote_sample]
    listing.write_text(json.dumps({"names": names, "checksums": checksums}))
    return Order(listing, len(names), len(names) * plan.large_size)


def _write_listing(path: Path, order: list[int], checksums: list[int], size: int) -> Order:
    names = [data.file_name(index) for index in order]
    in_order = [checksums[index] for index in order]
    path.write_text(json.dumps({"names": names, "checksums": in_order}))
    return Order(path, len(names), len(names) * size)
