"""Packs on servers: on nginx and on SeaweedFS, 20 ms away each way, through a cache on disk.

The yardstick is the same pack as a local file, with no page cached. The peers have no packs: they
read some of the same files as single objects. All processes, also servers and proxies, share
this machine's cores.

Each session has a cache directory of its own, which is empty at first; before a second epoch the
pack is mounted again, and no page of the cache's files is in memory.

remote_site.py has the data and its servers, remote_peers.py the peers.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import contenders, measure, memory, mounting, page_cache, remote_peers
from benchmarks.contenders import HINTS, NATIVE
from benchmarks.figure import Comparison, Figure, Findings
from benchmarks.mounts import Mount
from benchmarks.plan import Plan
from benchmarks.reader import AS_LISTED, HINTED
from benchmarks.remote_peers import RCLONE, S3FS
from benchmarks.remote_quota import DiskUse
from benchmarks.remote_site import (
    INDEXED,
    NGINX,
    PACK,
    SEAWEEDFS,
    VAST,
    Order,
    Site,
    opened,
)

TIMEOUT_S = 900
READERS = 4
LOCAL = "ffrfs with hints, local disk"
FIRST, AGAIN = "first epoch", "second epoch, remounted, from the cache"
FETCHED, CPU = f"{FIRST}: bytes fetched", f"{FIRST}: CPU of daemon, worker, fetcher"
CPU_THERE, CPU_ALL = f"{FIRST}: CPU of server and proxy", f"{FIRST}: CPU of the whole machine"
LISTED, LISTED_BYTES = "mounted until ls answers", "the same: bytes fetched"
SHARED = "two mounts of one cache, the same epoch at once: bytes fetched"
USED, STALLED = "most of the disk in use", "slowest 100 files by the median 100"
Values = dict[str, float]
Samples = dict[str, measure.Samples[float]]


@dataclass(frozen=True)
class Measured:
    unit: str
    names: tuple[str, ...]


EPOCHS = (HINTS, NATIVE)
COMPARISONS = {
    **{
        f"{server}, {name}": Measured(unit, names)
        for server, peers in ((NGINX, ()), (SEAWEEDFS, (RCLONE, S3FS)))
        for name, unit, names in (
            (FIRST, "files/s", (LOCAL, *EPOCHS, *peers)),
            (AGAIN, "files/s", (LOCAL, *EPOCHS)),
            (FETCHED, "x the data", EPOCHS),
            *((each, "s a GB", EPOCHS) for each in (CPU, CPU_THERE, CPU_ALL)),
        )
    },
    LISTED: Measured("s", (NATIVE,)),
    LISTED_BYTES: Measured("MB", (NATIVE,)),
    SHARED: Measured("x the data", (HINTS,)),
    USED: Measured("x --cache-size", (HINTS,)),
    STALLED: Measured("x", (HINTS,)),
}


def run(plan: Plan) -> Findings:
    missing = {NATIVE: plan.field.missing.get(NATIVE, "")}
    missing |= dict.fromkeys((HINTS, LOCAL), missing[NATIVE])
    missing |= {name: remote_peers.why_missing(name) for name in (RCLONE, S3FS)}
    if why := page_cache.why_not_drop():
        missing = dict.fromkeys(missing, why)
    missing = {name: why for name, why in missing.items() if why}
    work = plan.folder / "remote"
    work.mkdir()
    try:
        samples = {} if NATIVE in missing else _measure(plan, work, missing)
    finally:
        shutil.rmtree(work)
    found = {
        name: Comparison(
            _data(plan, name),
            name,
            about.unit,
            samples.get(name, {}),
            {each: missing[each] for each in about.names if each in missing},
        )
        for name, about in COMPARISONS.items()
    }
    return Findings(_figures(found), list(found.values()))


def _data(plan: Plan, name: str) -> str:
    size = f"{plan.large_size / 1000:g} KB"
    if name in (LISTED, LISTED_BYTES):
        return f"{plan.opened_count:,} files, {NGINX}"
    if name in (USED, STALLED):
        return f"{plan.quota_count:,} files of {size}, cache of {plan.quota_size / 1e6:,.0f} MB"
    return (
        f"{plan.remote_count:,} files of {size}, shuffled, {READERS} readers; "
        f"{plan.remote_sample:,} of them as single objects"
    )


def _figures(found: dict[str, Comparison]) -> list[Figure]:
    figures = []
    for server, epoch_most, cpu_most in ((NGINX, 1.5, 1.2), (SEAWEEDFS, 2.0, 1.4)):
        first, again = found[f"{server}, {FIRST}"], found[f"{server}, {AGAIN}"]
        figures += [
            first.versus(LOCAL, HINTS, at_most=epoch_most),
            again.versus(HINTS, LOCAL, at_least=0.95),
            found[f"{server}, {FETCHED}"].of(HINTS, "x", at_most=1.05),
            found[f"{server}, {FETCHED}"].of(NATIVE, "x", at_most=1.1),
            found[f"{server}, {CPU}"].of(HINTS, "s a GB", at_most=cpu_most),
        ]
    first = found[f"{SEAWEEDFS}, {FIRST}"]
    return [
        *figures,
        first.versus(NATIVE, RCLONE, at_least=20),
        first.versus(NATIVE, S3FS, at_least=30),
        found[LISTED].of(NATIVE, "s", at_most=0.45),
        found[LISTED_BYTES].of(NATIVE, "MB", at_most=8),
        found[SHARED].of(HINTS, "x", at_most=1.05),
        found[USED].of(HINTS, "x", at_most=1.01),
        found[STALLED].of(HINTS, "x", at_most=2),
    ]


def _measure(plan: Plan, work: Path, missing: dict[str, str]) -> Samples:
    samples: Samples = {}
    with opened(plan, work) as site:
        sessions: list[dict[str, Callable[[], Values]]] = [
            {name: partial(_read, site, server, name) for name in COMPARISONS[first].names}
            for server, first in ((each, f"{each}, {FIRST}") for each in (NGINX, SEAWEEDFS))
        ]
        sessions += [
            {NATIVE: partial(_list, site)},
            {HINTS: partial(_share, site)},
            {HINTS: partial(_overfill, site, plan)},
        ]
        for session in sessions:
            able = {name: action for name, action in session.items() if name not in missing}
            for name, outcomes in measure.interleave(able, plan.long_rounds).items():
                for key in outcomes[0]:
                    samples.setdefault(key, {})[name] = [outcome[key] for outcome in outcomes]
    return samples


@contextlib.contextmanager
def _cache(site: Site) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cache-", dir=site.work) as name:
        yield Path(name)


def _read(site: Site, server: str, name: str) -> Values:
    """Measure both epochs of one contender."""
    first, again = f"{server}, {FIRST}", f"{server}, {AGAIN}"
    if name in (RCLONE, S3FS):
        page_cache.drop()
        with remote_peers.mounted(name, site) as mount:
            return {first: _rate(mount.root, site.single, "read")}
    if name == LOCAL:
        return {key: _read_local(site) for key in (first, again)}
    kind = f"{HINTED}read" if name == HINTS else "read"
    with _cache(site) as cache:
        before = site.bytes_down()
        with site.mounted(server, PACK, cache) as mount:
            began_s = _cpu_s(site, server, mount)
            rate = _rate(mount.root, site.whole, kind)
            values = {
                first: rate,
                f"{server}, {FETCHED}": (site.bytes_down() - before) / site.whole.size_bytes,
            }
            for row, used_s in _cpu_s(site, server, mount).items():
                values[row] = (used_s - began_s[row]) / (site.whole.size_bytes / 1e9)
            _check(mount.root, site.whole)
        page_cache.drop()
        with site.mounted(server, PACK, cache) as mount:
            values[again] = _rate(mount.root, site.whole, kind)
    return values


def _read_local(site: Site) -> float:
    page_cache.drop()
    point = site.work / "mnt"
    point.mkdir(exist_ok=True)
    with contenders.mounted(NATIVE, site.folder / PACK, point) as mount:
        return _rate(mount.root, site.whole, f"{HINTED}read")


def _cpu_s(site: Site, server: str, mount: Mount) -> dict[str, float]:
    return {
        f"{server}, {CPU}": memory.cpu_seconds(mount.daemon) if mount.daemon else 0.0,
        f"{server}, {CPU_THERE}": sum(map(memory.cpu_seconds, site.programs[server])),
        f"{server}, {CPU_ALL}": memory.machine_cpu_seconds(),
    }


def _list(site: Site) -> Values:
    """Measure from the start of the command until a program has listed the root."""
    with _cache(site) as cache, contextlib.ExitStack() as stack:
        before = site.bytes_down()

        def mount_and_list() -> None:
            mount = stack.enter_context(site.mounted(NGINX, INDEXED, cache))
            measure.run(["ls", mount.root], TIMEOUT_S)

        seconds = measure.seconds(mount_and_list)
        return {LISTED: seconds, LISTED_BYTES: (site.bytes_down() - before) / 1e6}


def _share(site: Site) -> Values:
    """Measure two programs, each on its own mount, that begin the same epoch at about one time."""
    before = site.bytes_down()
    with (
        _cache(site) as cache,
        site.mounted(NGINX, PACK, cache) as one,
        site.mounted(NGINX, PACK, cache, place="other") as other,
    ):
        with ThreadPoolExecutor() as pool:
            rates = [
                pool.submit(_rate, mount.root, site.whole, f"{HINTED}read")
                for mount in (one, other)
            ]
        for rate in rates:
            rate.result()
        return {SHARED: (site.bytes_down() - before) / site.whole.size_bytes}


def _overfill(site: Site, plan: Plan) -> Values:
    with (
        _cache(site) as cache,
        site.mounted(NGINX, VAST, cache, size=str(plan.quota_size)) as mount,
    ):
        use = DiskUse(cache)
        use.start()
        words = ["-m", "benchmarks.remote_quota", str(mount.root), str(site.vast.listing)]
        found = measure.run_python([*words, str(plan.quota_sample)], TIMEOUT_S)
        most_bytes = use.stop()
    if found["wrong"]:
        raise RuntimeError(f"{found['wrong']} files were read wrong through a small cache")
    windows = found["windows"]
    return {
        USED: most_bytes / plan.quota_size,
        STALLED: max(windows) / statistics.median(windows),
    }


def _rate(root: Path, order: Order, kind: str) -> float:
    """Return the files a second of all readers together."""
    found = mounting.read_passes(root, order.listing, AS_LISTED, order.count, READERS, kind)
    return order.count / float(found["seconds"][0])


def _check(root: Path, order: Order) -> None:
    mounting.read_passes(root, order.listing, AS_LISTED, order.count, READERS, "check")
