"""`ffrfs stats --coverage`: which files were read since a mark, and which perhaps were."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
from typing import Any

import pytest

from ffrfs.errors import MountError
from ffrfs.mount.engines import coverage
from ffrfs.mount.engines.counter_page import PAGE_SIZE, CounterPage
from tests.mount import probes
from tests.mount.command import Mount, ffrfs, wait_until
from tests.mount.makers import MakeMount, PackTree

NAMES = [f"{n % 2}/{n:02}" for n in range(20)]
TREE = {top: {f"{n:02}": b"%d" % n * 100 for n in range(int(top), 20, 2)} for top in "01"}
OPTIONS = ("--read-around", "off")
ORDER = sorted(NAMES)  # the order of the pack
COUNTS = ("files", "hinted_once", "hinted_more", "requested", "requested_only", "pushed_only")


def covered(tree: Mount, *options: str) -> dict[str, Any]:
    done = ffrfs("stats", "--coverage", "--json", *options, tree.path)
    assert (done.status, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def counts(tree: Mount) -> list[int]:
    found = covered(tree)
    return [found[name] for name in (*COUNTS, "never")]


def hint(tree: Mount, names: list[str]) -> None:
    paths = "".join(f"{tree.path}/{name}\n" for name in names)
    listed = tree.path.parent / "order.txt"
    listed.write_text(paths)
    done = ffrfs("prefetch", tree.path, "--from", listed)
    listed.unlink()
    assert (done.status, done.err) == (0, "")


def digest_of(names: list[str]) -> str:
    return hashlib.sha256("".join(f"/{name}\0" for name in names).encode()).hexdigest()


def test_requests_are_counted_and_a_mark_resets_the_counts(tree: Mount) -> None:
    tree.ask(probes.read, NAMES[0])
    tree.ask(probes.read, NAMES[3])
    assert counts(tree) == [20, 0, 0, 2, 2, 0, 18]
    found = covered(tree, "--mark")
    assert (found["is_marked"], found["requested"]) == (False, 2)
    assert counts(tree) == [20, 0, 0, 0, 0, 0, 20]
    tree.ask(probes.read, NAMES[0])  # from the kernel's cache
    tree.ask(probes.read, NAMES[5])
    done = ffrfs("stats", "--coverage", "-v", tree.path)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("since            the mark, ")
    assert lines[1:7] == [
        "files            20, 5.00 % announced or asked for",
        "announced        0 once, 0 more often",
        "asked for        1, 1 not announced",
        "perhaps          0",
        "never            19",
        "Reads that the kernel answers from its cache are not seen; see ffrfs stats --help.",
    ]
    assert lines[7:] == [f"never: {name}" for name in ORDER if name != NAMES[5]]


def test_hints_are_counted_with_their_order(tree: Mount) -> None:
    order = [*reversed(NAMES), NAMES[4]]
    hint(tree, order)
    wait_until(lambda: covered(tree)["orders"] != [], "the client has ended")
    found = covered(tree)
    assert [found[name] for name in (*COUNTS[:3], "never")] == [20, 19, 1, 0]
    assert found["requested_only"] == found["pushed_only"] == 0
    whole = {"hints": 21, "is_complete": True, "sha256": digest_of(order)}
    assert found["orders"] == [whole]
    text = ffrfs("stats", "--coverage", tree.path).out
    assert f"order            21 hints, sha256 {digest_of(order)}\n" in text
    covered(tree, "--mark")
    assert covered(tree)["orders"] == []
    for number in range(18):
        hint(tree, [NAMES[number]])
    wait_until(lambda: covered(tree)["hinted_once"] == 18, "all hints have come")
    wait_until(lambda: len(covered(tree)["orders"]) == 16, "the last 16 have ended")
    assert covered(tree)["orders"][-1]["sha256"] == digest_of([NAMES[17]])


def test_warmed_files_count_as_perhaps_read(mount: MakeMount, pack_tree: PackTree) -> None:
    tree: Mount = mount(pack_tree(dict(TREE)))
    assert ffrfs("warm", tree.path, "0").status == 0
    found = covered(tree)
    assert (found["pushed_only"], found["never"], found["requested"]) == (10, 10, 0)
    assert found["never_files"] == ORDER[10:]


def test_counts_continue_with_the_next_worker(tree: Mount) -> None:
    tree.ask(probes.read, NAMES[0])
    worker = tree.statistics()["worker_pid"]
    tree.expect_log("the worker was killed")
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: tree.statistics()["worker_pid"] not in (None, worker), "another serves")
    tree.ask(probes.read, NAMES[1])
    assert counts(tree) == [20, 0, 0, 2, 2, 0, 18]


@pytest.mark.parametrize("engine", ["pyfuse3"], indirect=True)
def test_pyfuse3_engine_does_not_count_reads(mount: MakeMount, pack_tree: PackTree) -> None:
    done = ffrfs("stats", "--coverage", mount(pack_tree({"a": b"1"})).path)
    assert done.status == 1
    assert "does not count reads" in done.err


def counts_of(noted: bytes, count: int) -> list[int]:
    """Return the numbers of COUNTS, and how many were never read, counted record by record."""
    records = [noted[number // 2] >> 4 * (number % 2) & 15 for number in range(count)]
    files = [bits for bits in records if bits & 3 != 3]
    return [
        len(files),
        sum(bits & 3 == 1 for bits in files),
        sum(bits & 3 == 2 for bits in files),
        sum(bits & 4 != 0 for bits in files),
        sum(bits & 7 == 4 for bits in files),
        files.count(8),
        files.count(0),
    ]


@pytest.mark.parametrize("kinds", [1, 2, 16, 17, 256])
def test_counts_for_any_number_of_distinct_bytes(kinds: int) -> None:
    noted = bytes(random.Random(kinds).choices(range(256 - kinds, 256), k=10_000))
    page = CounterPage()
    try:
        os.pwrite(page.fd, noted, PAGE_SIZE + 4096)
        for count in (19_999, 20_000):
            found = coverage.coverage(page.fd, {"coverage_records": [count]}, 0)
            assert [found[name] for name in (*COUNTS, "never")] == counts_of(noted, count)
    finally:
        page.close()


def test_hostile_page() -> None:
    page = CounterPage()
    try:
        with pytest.raises(MountError, match="mount it again"):
            coverage.coverage(page.fd, {}, 0)
        with pytest.raises(MountError, match="mount it again"):
            coverage.coverage(page.fd, {"coverage_records": [1 << 40]}, 0)
        os.pwrite(page.fd, bytes(range(256)), PAGE_SIZE + 4096)
        single = coverage.coverage(page.fd, {"coverage_records": [1]}, 0)
        assert (single["files"], single["never_records"]) == (1, [0])
        whole = coverage.coverage(page.fd, {"coverage_records": [511]}, 0)
        never = [number for number in range(511) if not number // 2 >> 4 * (number % 2) & 15]
        assert whole["never_records"] == never
        assert [whole[name] for name in (*COUNTS, "never")] == counts_of(bytes(range(256)), 511)
        for row in ([2**64 - 1] * 97, [5], []):
            counters = {"coverage_records": [511], "hint_orders": row}
            found = coverage.coverage(page.fd, counters, 0)
            assert found["records"] == 511
            coverage.set_mark(page.fd, counters)
            cleared = coverage.coverage(page.fd, counters, 0)
            assert cleared["files"] == cleared["never"] == found["files"]
    finally:
        page.close()
