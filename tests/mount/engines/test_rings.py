"""The thread of a ring runs on the CPU of its readers, but leaves it to a stream."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.ffrecord_file import write_folder
from tests.mount import probes
from tests.mount.command import Mount, wait_until
from tests.mount.makers import MakeMount

LARGE = random.Random(7).randbytes(32 << 20)
SMALL = {f"{i:02d}": bytes([i]) * 100 for i in range(99)}
OWN_CPUS = len(os.sched_getaffinity(0))


def widths(pid: int) -> dict[int, int]:
    """Return, for each thread, on how many CPUs it may run."""
    return {
        int(task): len(os.sched_getaffinity(int(task))) for task in os.listdir(f"/proc/{pid}/task")
    }


@pytest.mark.parametrize("engine", ["uring"], indirect=True)
def test_a_rings_thread_leaves_its_cpu_to_a_stream_and_comes_back(
    engine: str, mount: MakeMount, tmp_path: Path
) -> None:
    tree: Mount = mount(write_folder(tmp_path / "pack.ffr", {"large": LARGE, **SMALL}))
    assert tree.worker is not None
    pid = tree.worker.pid
    rings = {task for task, width in widths(pid).items() if width == 1}
    assert len(rings) >= min(OWN_CPUS, 2)
    cpu = min(os.sched_getaffinity(0))  # all requests go to one ring
    assert tree.ask(probes.read_all_on_cpu_in, "", cpu, ["large"]) == [LARGE]
    assert max(widths(pid)[task] for task in rings) == OWN_CPUS
    assert tree.ask(probes.read_all_on_cpu_in, "", cpu, list(SMALL)) == list(SMALL.values())
    wait_until(lambda: max(widths(pid)[task] for task in rings) == 1, "rings are pinned again")


@pytest.mark.parametrize("engine", ["uring"], indirect=True)
def test_rings_for_which_no_memory_may_be_locked(
    engine: str, new_mount: MakeMount, tmp_path: Path
) -> None:
    tree: Mount = new_mount(write_folder(tmp_path / "pack.ffr", SMALL))
    # By a capability, root may lock any amount of memory.
    dropped = [] if os.geteuid() else ["setpriv", "--bounding-set=-ipc_lock"]
    done = tree.mount(prefix=["prlimit", "--memlock=0:0", *dropped])
    assert done.status != 0
    assert "all rings of a user may lock 0 KiB here" in done.err
    assert "ulimit -l" in done.err
