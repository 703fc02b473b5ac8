"""`ffrfs stats` on a mount that is well, and on one whose daemon is in trouble."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.client import control_client
from ffrfs.mount.kernel import state
from ffrfs.mount.stats.request_times import KINDS
from tests.ffrecord_file import flip_byte, record_extents
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import Mount, ffrfs, mount_command_fails, wait_until
from tests.mount.disk import Disk
from tests.mount.disk_files import content
from tests.mount.makers import AskAsUser, MakeMount, PackTree, by_both

SIZE = 110 << 10
TREE = {name: random.Random(name).randbytes(SIZE) for name in ("a", "b")}
FIELDS = [
    *("mountpoint", "pack", "packs", "on_conflict", "engine", "transport", "threads"),
    *("daemon_pid", "worker_pid", "fetcher_pid", "age_s"),
    *("requests_per_s", "request_count", "requests", "reads", "bytes_served", "bytes_memory"),
    *("bytes_page_cache", "bytes_storage", "checksums_verified", "checksums_failed"),
    *("read_failures", "queue_depth", "prefetch", "readahead", "read_around"),
    *("warm", "cache_bytes"),
    *("remote", "worker", "refusal"),
    *("cache_limit_bytes", "cache_asked_bytes", "cache_limited_by"),
    *("memory_limit_bytes", "memory_pressure", "pushed_limit_bytes", "resident_bytes"),
    *("daemon_resident_bytes", "worker_resident_bytes", "fetcher_resident_bytes"),
    *("unreadable_files", "daemon_starts", "log_file", "journal"),
]


@pytest.fixture
def tree(mount: MakeMount, pack_tree: PackTree) -> Mount:
    pack = pack_tree(dict(TREE))
    pack.read_bytes()  # now the pack is in the page cache
    made: Mount = mount(pack)
    return made


def stats(tree: Mount) -> dict[str, Any]:
    return control_client.ask(str(tree.path), "stats", timeout_s=30)


def counts(tree: Mount) -> dict[str, int]:
    """Return how many requests of each kind there were."""
    return {kind: times["count"] for kind, times in stats(tree)["requests"].items()}


def differences(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in before if after[name] != before[name]}


@by_both
@pytest.mark.promise("S22")
def test_first_read_of_a_file_is_one_request(tree: Mount) -> None:
    tree.ask(probes.read, "a")  # sends the requests that come only once per mount
    wait_until(lambda: counts(tree)["read"] == 1, "the first read is counted")
    before, count_before = stats(tree), counts(tree)
    assert tree.ask(probes.read, "b") == TREE["b"]
    # A request is counted after its answer, which the reader may have before.
    wait_until(lambda: counts(tree)["read"] > count_before["read"], "the read is counted")
    after = stats(tree)
    assert after["requests"]["read"]["count"] - count_before["read"] == 1
    assert after["requests"]["read"]["p50_us"] <= after["requests"]["read"]["p99_us"]
    from_where = ("bytes_memory", "bytes_page_cache", "bytes_storage")
    assert sum(after[name] - before[name] for name in from_where) == SIZE
    assert after["bytes_served"] - before["bytes_served"] == SIZE
    assert after["reads"] - before["reads"] == 1
    assert after["checksums_verified"] - before["checksums_verified"] == 1
    assert (after["checksums_failed"], after["queue_depth"]) == (0, 0)


@by_both
@pytest.mark.promise("S22")
def test_second_read_of_a_file_is_no_request(tree: Mount) -> None:
    opened = {"open": 1, "release": 1} if tree.engine == "pyfuse3" else {}
    for name in TREE:
        tree.ask(probes.read, name)
    # A reader may have its answer before the request is counted, and does not wait for a release.
    wait_until(lambda: counts(tree)["read"] == len(TREE), "both are counted")
    wait_until(lambda: tree.engine == "native" or counts(tree)["release"] == 2, "both closed")
    before = counts(tree)
    assert tree.ask(probes.read, "b") == TREE["b"]
    wait_until(lambda: differences(before, counts(tree)) == opened, f"just {opened}")


@by_both
def test_damaged_record_is_counted(mount: MakeMount, pack_tree: PackTree) -> None:
    pack = pack_tree(dict(TREE))
    offset, _ = record_extents(pack)[0]
    flip_byte(pack, offset + 100)
    tree = mount(pack)
    tree.expect_log("cannot read a")
    assert stats(tree)["checksums_failed"] == 0
    tree.ask(probes.errno_of, "a", "read")
    failed = stats(tree)["checksums_failed"]
    assert failed >= 1
    tree.ask(probes.read, "b")
    found = stats(tree)
    assert (found["checksums_failed"], found["bytes_served"]) == (failed, SIZE)


@by_both
def test_json_output_has_every_field(tree: Mount) -> None:
    done = ffrfs("stats", tree.path, "--json")
    assert (done.status, done.err) == (0, "")
    found = json.loads(done.out)
    assert list(found) == FIELDS
    assert list(found["requests"]) == list(KINDS)
    for times in found["requests"].values():
        assert times.keys() == {"count", "total_us", "p50_us", "p99_us", "slow", "buckets"}
        assert sum(count for _, count in times["buckets"]) == times["count"]
        assert (times["p50_us"] is None) == (times["p99_us"] is None) == (times["count"] == 0)
    assert found["request_count"] == sum(times["count"] for times in found["requests"].values())
    assert found["mountpoint"] == str(tree.path)
    assert (found["pack"], found["packs"]) == (str(tree.pack), [str(tree.pack)])
    assert found["engine"] == tree.engine
    assert tree.process is not None
    assert found["daemon_pid"] == tree.process.pid
    assert 0 < found["age_s"] < 120
    assert found["cache_limit_bytes"] == 256 << 20
    check_memory(found)


def check_memory(found: dict[str, Any]) -> None:
    daemon, worker = found["daemon_resident_bytes"], found["worker_resident_bytes"]
    assert found["resident_bytes"] == daemon + (worker or 0)
    assert 1 << 20 < daemon < 1 << 30
    if found["engine"] == "native":
        assert os.readlink(f"/proc/{found['worker_pid']}/exe").endswith("worker")
        assert 1 << 19 < worker < 1 << 30
    else:
        assert (found["worker_pid"], worker, found["threads"]) == (None, None, 1)


def test_human_readable_lines(tree: Mount) -> None:
    tree.ask(probes.read, "a")
    wait_until(lambda: counts(tree)["read"] == 1, "the read is counted")
    tree.requests()  # waits until all are counted
    done = ffrfs("stats", tree.path)
    assert (done.status, done.err) == (0, "")
    facts, table = done.out.split("\n\n")
    assert f"pack             {tree.pack}\n" in facts
    assert "served           110.0 KiB in 1 read\n" in facts
    assert "checksums        1 verified, 0 failed\n" in facts  # the file's; the index is mapped
    head, *rows = table.splitlines()
    assert head.split() == ["request", "count", "p50", "p99", "slow"]
    assert [row.split()[:2] for row in rows] == [
        [kind, str(count)] for kind, count in counts(tree).items() if count
    ]
    assert f"log              {tree.log_file}\n" in facts
    texts = [line for line in done.out.splitlines() if str(tree.pack.parent) not in line]
    assert max(map(len, texts)) < 100


def test_stats_command_sends_no_requests_to_the_mount(tree: Mount) -> None:
    before = tree.requests()
    for _ in range(5):
        assert ffrfs("stats", tree.path).status == 0
        assert ffrfs("stats", "--json", f"{tree.path}/").status == 0
    assert tree.requests() == before


@by_both
@pytest.mark.promise("S22")
def test_reads_that_wait_for_the_disk_are_shown(stalling: Mount, disk: Disk) -> None:
    disk.stall("stalled")
    size, before = len(content("stalled")), stats(stalling)
    with child(probes.read, stalling / "stalled") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        found = stats(stalling)
        assert found["queue_depth"] == 1
        assert size <= found["cache_bytes"] < size * 5 / 4  # the size of its buffer
        assert found["requests"]["read"]["count"] == 0
        assert found["bytes_storage"] == before["bytes_storage"]
        disk.go()
        assert reader.answer() == content("stalled")
    wait_until(lambda: stats(stalling)["queue_depth"] == 0, "nothing waits")
    found = stats(stalling)
    assert found["bytes_served"] == size
    assert found["bytes_storage"] - before["bytes_storage"] == size
    assert found["cache_bytes"] <= found["cache_limit_bytes"]


def test_stats_work_while_the_worker_is_stopped(tree: Mount) -> None:
    worker = stats(tree)["worker_pid"]
    os.kill(worker, signal.SIGSTOP)
    try:
        assert stats(tree)["worker_pid"] == worker
    finally:
        os.kill(worker, signal.SIGCONT)


def socket_of(tree: Mount) -> Path:
    found = state.find(str(tree.path))
    assert found is not None
    return Path(state.socket_path(found[0], str(tree.path)))


@pytest.mark.promise("S22")
def test_dead_daemon_is_reported_and_umount_removes_its_socket(tree: Mount) -> None:
    path = socket_of(tree)
    tree.kill()
    tree.wait_for_daemon()
    for arguments in ([], ["--json"]):
        done = ffrfs("stats", tree.path, *arguments)
        mount_command_fails(done, 1, str(tree.path), "has died", f"ffrfs umount {tree.path}")
    assert path.exists()
    assert ffrfs("umount", tree.path).status == 0
    assert not path.exists()
    assert tree.mount().status == 0
    assert stats(tree)["pack"] == str(tree.pack)


@pytest.mark.promise("S22")
def test_command_does_not_hang_with_a_stopped_daemon(tree: Mount) -> None:
    with tree.stopped():
        done = ffrfs("stats", tree.path)
    mount_command_fails(done, 1, str(tree.path), "has not answered within 5 s")
    assert stats(tree)["pack"] == str(tree.pack)


def test_mount_of_an_ordinary_user(as_ordinary_user: AskAsUser, places: Path) -> None:
    seen = as_ordinary_user("ordinary_user_stats.py")
    daemon = seen["user"].pop("daemon")
    assert seen["user"] == {"mountpoint": str(places / "home" / "mount"), "daemon_pid": daemon}
    assert seen["root"].keys() == {"error"}
    assert "mounted by another user" in seen["root"]["error"]
    assert seen["left"] == []
