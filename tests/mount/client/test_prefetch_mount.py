"""Hints from end to end: a program, a daemon, an engine, and what a reader gets."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import ffrfs as package
from ffrfs.errors import MountError
from ffrfs.mount.client import control_client
from ffrfs.mount.engines.worker import PATH_VARIABLE
from tests.checkout import CHECKOUT
from tests.mount import probes
from tests.mount.child import ask, child
from tests.mount.command import TIMEOUT_S, Mount, ffrfs, mount_command_fails, wait_until
from tests.mount.makers import MakeMount, PackTree, by_both
from tests.mount.prefetch_probes import read_files

COUNT = 60
TREE = {f"{i:02}": random.Random(i).randbytes(20_000 + 1000 * i) for i in range(COUNT)}


@pytest.fixture
def tree(mount: MakeMount, pack_tree: PackTree) -> Mount:
    made: Mount = mount(pack_tree({"d": dict(TREE)}))
    return made


def prefetched(tree: Mount) -> dict[str, int]:
    answer: Any = control_client.ask(str(tree.path), "stats")
    found: dict[str, int] = answer["prefetch"]
    return found


def check_files(tree: Mount, names: list[str]) -> None:
    assert tree.ask(read_files, "d", names) == [TREE[name] for name in names]


def shuffled() -> list[str]:
    names = list(TREE)
    random.Random(1).shuffle(names)
    return names


@by_both
def test_hinted_files_are_prefetched_before_they_are_read(tree: Mount) -> None:
    tree.ask(probes.listdir, "d")  # the kernel knows their inodes
    names = shuffled()
    with package.prefetch([tree.path / "d" / name for name in names]) as hints:
        assert hints.wait(20)
        assert (hints.sent, hints.skipped) == (COUNT, 0)
        wait_until(lambda: prefetched(tree)["fetched"] > COUNT // 2, "fetched ahead")
        check_files(tree, names)
        wait_until(lambda: prefetched(tree)["hinted"] == COUNT, "all are known")
        found = prefetched(tree)
        assert found["pushed"] > 0
        assert found["late"] + found["dropped"] < COUNT
        assert found["queue_depth_max"] > 0
    assert tree.ask(probes.digests, "d").keys() == TREE.keys()


def test_mount_without_prefetch(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree({"d": dict(TREE)}), "--prefetch-window", "0")
    with pytest.raises(MountError, match=r"answers: it was mounted without prefetch"):
        package.prefetch([0], tree.path)
    done = ffrfs("prefetch", tree.path, "d/01")
    mount_command_fails(done, 1, "it was mounted without prefetch (--prefetch-window 0)")
    check_files(tree, list(TREE))
    assert set(prefetched(tree).values()) == {0}


@by_both
def test_options_reach_the_engine(mount: MakeMount, pack_tree: PackTree) -> None:
    window = ("--prefetch-window", "4,1M", "--prefetch-ttl", "0.2")
    tree = mount(pack_tree({"d": dict(TREE)}), *window)
    # Without a listing the kernel knows no inodes: the engine holds the files until the TTL ends.
    began_s = time.monotonic()
    found: dict[str, int] = {}
    with package.prefetch([tree.path / "d" / name for name in TREE]):

        def is_wasted() -> bool:
            found.update(prefetched(tree))
            return found["wasted_bytes"] > 0

        wait_until(is_wasted, "nobody has read them")
        # At most one window at the beginning, and another one each 0.2 s.
        assert found["fetched"] <= 4 * (2 + (time.monotonic() - began_s) / 0.2)
    check_files(tree, list(TREE))


def test_stopped_worker_blocks_neither_hints_nor_daemon(tree: Mount) -> None:
    assert tree.worker is not None
    with tree.stopped():
        assert tree.process is not None
        os.kill(tree.process.pid, signal.SIGCONT)
        clients = []
        end_s = time.monotonic() + 6  # a worker that is stopped for 10 s is killed
        while len(clients) < 300 and time.monotonic() < end_s:  # more clients than the socket takes
            clients.append(package.prefetch([0], tree.path))
        assert prefetched(tree)["hinted"] == 0
        for hints in clients:
            hints.close()
    assert ask(probes.read, tree / "d/01") == TREE["01"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_killed_worker_with_a_thread_in_the_kernel_is_replaced(
    new_mount: MakeMount, pack_tree: PackTree, tmp_path: Path, number: signal.Signals
) -> None:
    worker = tmp_path / "worker"
    program = CHECKOUT / "tests/mount" / "holding_worker.py"
    second = tmp_path / "second"
    worker.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "{second}" "$@"\n')
    worker.chmod(0o755)
    tree = new_mount(pack_tree({"file": bytes(4096)}))
    assert tree.mount(env=os.environ | {PATH_VARIABLE: str(worker)}).status == 0
    tree.expect_log(f"killed by {number.name}")
    with child(probes.errno_of, tree / "file", "read") as reader:
        reader.ask_next()
        wait_until(lambda: "holds a thread" in tree.log(), "it stores a page")
        time.sleep(0.1)
        second.touch()
        assert tree.worker is not None
        os.kill(tree.worker.pid, number)
        assert reader.answer() == 0  # an answer also frees the first worker
        assert tree.worker.wait(TIMEOUT_S)
