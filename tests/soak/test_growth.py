"""One mount under everything at once, for as long again as it took to warm up: reads, listings,
hints, names that are not there, and questions for its statistics. Nothing has grown.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mount.command import Mount, ffrfs
from tests.soak.askers import asking
from tests.soak.hints import hint_too_large, hinting
from tests.soak.load import check_bytes, load
from tests.soak.scale import GROWTH_S, PACK_MB, READERS, TEST_TIMEOUT_S

CACHE_MB = 32
HINTERS = 2
TTL_S = 1  # of what was read ahead
# Allocators keep some of what they once had.
GROWTH_KB_MAX = 12 << 10
GROWTH_COUNT_MAX = 4
_ANONYMOUS = re.compile(r"Rss(?:Anon|Shmem):\s*(\d+) kB")

MakeMount = Callable[[Path], Mount]


def held(mount: Mount) -> dict[str, int]:
    """What daemon and worker hold while nobody asks anything."""
    time.sleep(2 * TTL_S)
    found = {"kB": 0, "descriptors": 0, "threads": 0}
    for process in filter(None, (mount.process, mount.worker)):
        place = Path(f"/proc/{process.pid}")
        found["kB"] += sum(map(int, _ANONYMOUS.findall((place / "status").read_text())))
        found["descriptors"] += len(os.listdir(place / "fd"))
        found["threads"] += len(os.listdir(place / "task"))
    return found


def use(mount: Mount) -> None:
    with (
        hinting(mount, HINTERS, GROWTH_S) as hinters,
        asking(mount, GROWTH_S) as askers,
        load(mount, READERS, GROWTH_S, drop=0.8) as readers,
    ):
        results = readers.results(GROWTH_S + 60)
        assert all(program.answer(60) > 0 for program in (*hinters, *askers))
    assert {result["errno"] for result in results} == {0}
    print(check_bytes(results))


@pytest.mark.promise("S13", "S53")
@pytest.mark.timeout(TEST_TIMEOUT_S)
@pytest.mark.usefixtures("two_cores")
def test_nothing_grows_under_load(
    new_mount: MakeMount, pack_checkable: Callable[[int], Path]
) -> None:
    mount = new_mount(pack_checkable(PACK_MB))
    done = mount.mount("--cache-mb", str(CACHE_MB), "--prefetch-ttl", str(TTL_S))
    assert (done.status, done.err) == (0, "")
    hint_too_large(mount)
    use(mount)
    early = held(mount)
    use(mount)
    late = held(mount)
    print(f"{mount.engine}, twice {GROWTH_S:.0f} s: {early}, then {late}")
    assert late["kB"] - early["kB"] < GROWTH_KB_MAX
    assert late["descriptors"] - early["descriptors"] <= GROWTH_COUNT_MAX
    assert late["threads"] - early["threads"] <= GROWTH_COUNT_MAX
    assert ffrfs("umount", mount.path).status == 0
    mount.wait_for_daemon()
