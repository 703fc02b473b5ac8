"""--max-memory holds under the worst loads, and nothing grows with the time of use."""

from __future__ import annotations

import errno
import os
import random
import re
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from ffrfs.mount.config.config import make_config
from ffrfs.mount.config.request import make_request
from ffrfs.mount.daemon import memory_limit
from ffrfs.mount.daemon.memory_limit import MemoryLimit, anonymous_bytes
from tests.ffrecord_file import write_folder
from tests.mount import memory_loads, probes
from tests.mount.child import child
from tests.mount.command import Mount, ffrfs, mount_command_fails, wait_until
from tests.mount.hinted_files import DIGESTS, NAMES, hint_all, shuffled, texts, write_hinted_files
from tests.mount.makers import MakeMount, PackTree, by_all_ways, by_both
from tests.page_cache import drop_pages

MIB = 1 << 20
READERS = 16  # in each of four processes
LOAD_S = 1.2
CLIENTS = 80  # more than the daemon lets in
RECORD_COUNT = 1000
ROUNDS = 200
CACHE_MB = 24
BESIDE_MB = 4


def held_bytes(tree: Mount) -> int:
    return sum(anonymous_bytes(process.pid) for process in (tree.process, tree.worker) if process)


def taken(tree: Mount) -> dict[str, int]:
    """Return how many descriptors, threads and mappings daemon and worker have."""
    pids = [process.pid for process in (tree.process, tree.worker) if process]
    return {
        "descriptors": sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        "threads": sum(len(os.listdir(f"/proc/{pid}/task")) for pid in pids),
        "mappings": sum(len(Path(f"/proc/{pid}/maps").read_text().splitlines()) for pid in pids),
    }


def test_cache_limit_stays_if_memory_use_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = make_config(packs=["/x.ffr"], mountpoint="/m", settings={"max_memory_bytes": 512 * MIB})
    applied: list[int] = []
    engine: Any = SimpleNamespace(
        **dict.fromkeys(("deaths", "worker_pid", "fetcher_pid", "may_use_rings")),
        limit_cache=applied.append,
        limit_pushed=lambda size_bytes: None,
    )
    limit = MemoryLimit(make_request(asked), engine, base_bytes=32 * MIB)
    before = limit.figures()["cache_limit_bytes"]
    is_looking = trio.Event()

    def look(pid: int | None) -> int:
        is_looking.set()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(limit.run)
            await is_looking.wait()
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    monkeypatch.setattr(memory_limit, "anonymous_bytes", look)
    trio.run(run)
    assert (applied, limit.figures()["cache_limit_bytes"]) == ([], before)


@pytest.fixture(scope="module")
def large_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pack of files held as blocks, files verified as a whole, and many to hint at."""
    chance = random.Random(1)
    return write_folder(
        tmp_path_factory.mktemp("large") / "large.ffr",
        {
            "blocks": {str(i): chance.randbytes(3_900_000 - 1000 * i) for i in range(8)},
            "large": {str(i): chance.randbytes(12_000_000 + i) for i in range(3)},
            "small": {f"{i:04d}": b"%d" % i * 500 for i in range(RECORD_COUNT)},
        },
    )


def highest_under_load(tree: Mount, pack: Path, folders: tuple[str, ...], is_flooded: bool) -> int:
    """Return the most memory that daemon and worker had while readers and hints asked for all."""
    highest_bytes = 0
    with ExitStack() as stack:
        clients = stack.enter_context(
            child(memory_loads.flood, str(tree.path), CLIENTS if is_flooded else 0, RECORD_COUNT)
        )
        readers = [
            stack.enter_context(
                child(memory_loads.read_at_random, tree / folder, READERS, seed, LOAD_S)
            )
            for seed, folder in enumerate(folders)
        ]
        for one in (clients, *readers):
            one.ask_next()
        while not all(one.has_answered() for one in readers):
            highest_bytes = max(highest_bytes, held_bytes(tree))
            drop_pages(pack)
            time.sleep(0.005)
        assert clients.answer() > (16 if is_flooded else -1)
        assert all(reader.answer() for reader in readers)
        clients.next()
    return highest_bytes


@pytest.mark.long
@pytest.mark.promise("S52")
@pytest.mark.promise("S15")
@by_all_ways
def test_max_memory_is_kept_under_the_heaviest_loads(
    engine: str, mount: MakeMount, large_pack: Path
) -> None:
    limit_mb = 104 if engine == "uring" else 96  # rings take memory, too
    tree = mount(large_pack, "--max-memory", f"{limit_mb}M", "--cache-mb", "64")
    idle_bytes = held_bytes(tree)
    found = tree.statistics()
    assert found["memory_limit_bytes"] == limit_mb * MIB
    assert 8 * MIB <= found["cache_limit_bytes"] < 48 * MIB
    assert idle_bytes + found["cache_limit_bytes"] < limit_mb * MIB
    tree.hint_too_large("large/0")
    folders = ("blocks", "large", "blocks", "large")
    highest_bytes = highest_under_load(tree, large_pack, folders, is_flooded=True)
    assert highest_bytes > idle_bytes + 16 * MIB  # the load was real
    assert highest_bytes <= limit_mb * MIB


@by_both
@pytest.mark.promise("S15")
def test_cache_mb_limits_all_buffers(mount: MakeMount, large_pack: Path) -> None:
    """--cache-mb covers all buffers, but not threads' stacks and the memory that malloc keeps."""
    tree = mount(large_pack, "--cache-mb", str(CACHE_MB))
    idle_bytes = held_bytes(tree)
    folders = ("blocks", "large", "blocks", "large")
    grown_bytes = highest_under_load(tree, large_pack, folders, is_flooded=False) - idle_bytes
    assert grown_bytes > CACHE_MB * MIB / 4  # the load was real
    print(f"{grown_bytes / MIB:.1f} MiB of --cache-mb {CACHE_MB}")
    assert grown_bytes <= (CACHE_MB + BESIDE_MB) * MIB


@pytest.mark.promise("S52")
def test_max_memory_that_is_too_small_is_refused(new_mount: MakeMount, pack_tree: PackTree) -> None:
    tree = new_mount(pack_tree({"a": b"content"}))
    done = tree.mount("--max-memory", "16M")
    mount_command_fails(done, 1, "--max-memory 16M", "give it", "--prefetch-window")
    assert not tree.is_mounted
    wait_until(lambda: not tree.processes(), "the daemon has ended")
    needed = re.search(r"give it (\d+)M or more", done.err)
    assert needed
    least_mb = int(needed[1])
    assert tree.mount("--max-memory", f"{least_mb // 2}M").status == 1
    assert tree.mount("--max-memory", f"{least_mb}M").status == 0
    # The number is rounded up, and the memory at the start is not the same each time.
    assert 8 * MIB <= tree.statistics()["cache_limit_bytes"] <= 15 * MIB
    why = " MiB, less than the 256.0 MiB asked for: --max-memory leaves no more\n"
    assert why in ffrfs("stats", tree.path).out
    assert tree.ask(probes.read, "a") == b"content"


@by_both
@pytest.mark.promise("S53")
def test_threads_descriptors_and_memory_do_not_grow(mount: MakeMount, tmp_path: Path) -> None:
    pack = write_hinted_files(tmp_path)
    tree = mount(pack, "--cache-mb", "16")
    before: dict[str, int] = {}
    with child(probes.misread_in_batches, tree / "d", DIGESTS, shuffled(1) * ROUNDS, 16) as reader:
        for serial in range(ROUNDS):
            if serial % 20 == 0:
                drop_pages(pack)
                assert tree.ask(memory_loads.knock, "", 20) > 0
                assert tree.ask(probes.errno_of, f"absent {serial}", "stat") == errno.ENOENT
                assert tree.ask(os.listdir, "d") != []
            hint_all(tree, texts(NAMES[:32]))
            assert reader.next() == []
            tree.statistics()
            if serial == ROUNDS // 2:
                before = taken(tree)
                before_bytes = held_bytes(tree)
    assert ffrfs("stats", tree.path).status == 0
    # The last rounds may have needed one more queue for batches, or thread of a pool.
    few = before["descriptors"] + 4
    wait_until(lambda: taken(tree)["descriptors"] <= few, "descriptors are few")
    after = taken(tree)
    assert after["threads"] <= before["threads"] + 4
    assert after["mappings"] <= before["mappings"] + 20
    assert held_bytes(tree) <= before_bytes + 4 * MIB
    threads_most, descriptors_most = (200, 48) if tree.worker else (170, 36)
    assert after["threads"] <= threads_most
    assert after["descriptors"] <= descriptors_most
