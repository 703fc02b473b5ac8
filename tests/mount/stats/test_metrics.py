"""A mount's figures for Prometheus, on request and in a file; and slow requests."""

from __future__ import annotations

import json
import random
import re
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.stats.metrics import BOUNDS_US
from tests.ffrecord_file import record_extents
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import Mount, ffrfs, wait_until
from tests.mount.exposition import Figures
from tests.mount.makers import MakeDisk, MakeMount, PackTree, by_both

DURATIONS = "ffrfs_request_duration_seconds"
TREE = {f"file{i:02d}": random.Random(i).randbytes(5000) for i in range(30)}
SLOW_S = 1.1


def told_as_json(tree: Mount) -> dict[str, Any]:
    done = ffrfs("stats", "--json", tree.path)
    assert (done.status, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def told_to_prometheus(tree: Mount) -> Figures:
    done = ffrfs("stats", "--prometheus", tree.path)
    assert (done.status, done.err) == (0, "")
    return Figures(done.out)


@by_both
@pytest.mark.promise("S56")
def test_metrics_agree_with_stats(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree(dict(TREE)))
    tree.ask(probes.read_all_in, "", list(TREE))
    tree.requests()  # waits until all are counted
    found, figures = told_as_json(tree), told_to_prometheus(tree)
    place = {"mountpoint": str(tree.path)}
    about = {"pack": str(tree.pack), "engine": tree.engine, "transport": "dev"}
    assert figures.value("ffrfs_mount_info", **place, **about) == 1
    assert figures.value("ffrfs_reads_total", **place) == found["reads"] >= len(TREE)
    assert figures.value("ffrfs_served_bytes_total", **place) == found["bytes_served"] > 0
    assert figures.value("ffrfs_checksums_failed_total", **place) == 0
    assert figures.by_label("ffrfs_source_bytes_total", "source", **place) == {
        source: found[f"bytes_{source}"] for source in ("memory", "page_cache", "storage")
    }
    assert figures.value("ffrfs_cache_limit_bytes", **place) == found["cache_limit_bytes"]
    processes = figures.by_label("ffrfs_resident_memory_bytes", "process", **place)
    assert processes.keys() == ({"daemon", "worker"} if found["worker_pid"] else {"daemon"})
    assert figures.types["ffrfs_reads"] == "counter"
    assert figures.types[DURATIONS] == "histogram"
    for kind, times in found["requests"].items():
        check_histogram(figures, times, place | {"kind": kind})


def check_histogram(figures: Figures, times: dict[str, Any], labels: dict[str, str]) -> None:
    cumulative = figures.histogram(DURATIONS, **labels)
    assert len(cumulative) == len(BOUNDS_US) + 1
    assert figures.value(f"{DURATIONS}_count", **labels) == times["count"]
    assert figures.value(f"{DURATIONS}_sum", **labels) == pytest.approx(times["total_us"] / 1e6)
    for bound_us, count in zip(BOUNDS_US, cumulative.values(), strict=False):
        assert count == sum(each for end_us, each in times["buckets"] if end_us <= bound_us)
    # The sum is that of the times in the buckets, each of which is exact to a quarter.
    longest_us = sum(end_us * count for end_us, count in times["buckets"])
    assert times["total_us"] <= longest_us <= times["total_us"] * 1.25 + times["count"] * 0.256


@pytest.mark.promise("S56")
def test_metrics_file_exists_as_long_as_the_mount(
    new_mount: MakeMount, pack_tree: PackTree, tmp_path: Path
) -> None:
    file = tmp_path / "ffrfs.prom"
    tree = new_mount(pack_tree(dict(TREE)))
    assert tree.mount("--metrics-file", str(file), umask=0o077).status == 0
    wait_until(file.exists, "the figures are written")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    figures = Figures(file.read_text())
    assert figures.value("ffrfs_mount_age_seconds", mountpoint=str(tree.path)) < 60
    assert [path.name for path in tmp_path.glob("ffrfs.prom*")] == ["ffrfs.prom"]
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()
    assert not file.exists()


@by_both
@pytest.mark.promise("S56")
def test_slow_request_is_logged_and_counted(
    new_disk: MakeDisk, new_mount: MakeMount, pack_tree: PackTree
) -> None:
    name = "a\nffrfs_reads_total 9\x1b[2J\\é"
    pack = pack_tree({"folder": {name: random.Random(1).randbytes(100_000)}})
    disk = new_disk(pack, {"file": record_extents(pack)[0]})
    tree = new_mount(disk.pack)
    assert tree.mount().status == 0
    disk.stall("file")
    with child(probes.read, tree / f"folder/{name}") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        time.sleep(SLOW_S)
        disk.go()
        assert reader.answer()
    wait_until(lambda: " slow read: " in tree.log(), "it is logged")
    log = ffrfs("log", tree.path).out
    found = re.search(r"^.* INFO slow read: (\d+) ms for (.*), from (.*)$", log, re.MULTILINE)
    assert found is not None
    assert found.groups()[1:] == ("folder/a\\nffrfs_reads_total 9\\x1b[2J\\é", str(disk.pack))
    told = told_as_json(tree)["requests"]
    assert told["read"]["slow"] >= 1
    assert SLOW_S * 1000 <= int(found[1]) <= told["read"]["total_us"] / 1000
    assert told_to_prometheus(tree).by_label(
        "ffrfs_slow_requests_total", "kind", mountpoint=str(tree.path)
    ) == {kind: times["slow"] for kind, times in told.items()}
    row = re.search(r"^read +\d.*", ffrfs("stats", tree.path).out, re.MULTILINE)
    assert row is not None
    assert int(row[0].split()[-1]) == told["read"]["slow"]
    assert ffrfs("umount", tree.path).status == 0


@pytest.mark.promise("S56")
def test_request_rate_is_shown_by_a_single_query(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree(dict(TREE)))

    def is_told() -> bool:
        tree.ask(probes.statvfs, "")  # the rate covers only the last seconds
        return bool(tree.statistics()["requests_per_s"] > 0)

    wait_until(is_told, "some are told")
    assert tree.statistics()["requests_per_s"] < 10_000
