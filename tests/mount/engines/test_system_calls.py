"""The system calls of a native mount's worker while it serves small files from the page cache.

strace counts them, and its file has a line for each call: "% time, seconds, µs a call, calls,
errors, name".
"""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ffrecord_file import write_folder
from tests.mount import probes
from tests.mount.command import Mount
from tests.mount.makers import MakeMount

WARM_COUNT = 400  # after 256 cached reads in a row the worker no longer asks the page cache
COUNT = 300
NAMES = [f"{i:04d}" for i in range(WARM_COUNT + COUNT)]
random.Random(5).shuffle(NAMES)
WARM, COUNTED = NAMES[:WARM_COUNT], NAMES[WARM_COUNT:]
# For threads that wake up for something else, and for calls that began before strace did.
SLACK = 30
RECEIVE = {"native": ["read", "writev"], "uring": ["io_uring_enter"]}

pytestmark = pytest.mark.skipif(
    subprocess.run(["sh", "-c", "command -v strace"], capture_output=True, check=False).returncode
    != 0,
    reason="there is no strace",
)


@contextmanager
def counted(tree: Mount, file: Path) -> Iterator[dict[str, int]]:
    """Yield the counts of the worker's system calls by name, filled in once the block has ended."""
    assert tree.worker is not None
    strace = subprocess.Popen(
        ["strace", "-f", "-c", "-o", file, "-p", str(tree.worker.pid)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    calls: dict[str, int] = {}
    try:
        assert strace.stderr is not None
        # "strace: Process 7441 attached with 9 threads": it has all of them.
        assert "attached" in strace.stderr.readline()
        yield calls
    finally:
        strace.send_signal(signal.SIGINT)
        strace.communicate(timeout=60)
    for line in file.read_text().splitlines()[2:]:
        words = line.split()
        if len(words) >= 5 and words[3].isdigit() and words[-1] != "total":
            calls[words[-1]] = int(words[3])


@pytest.mark.promise("S23")
@pytest.mark.parametrize("engine", ["native", "uring"], indirect=True)
def test_a_small_file_takes_few_system_calls(engine: str, mount: MakeMount, tmp_path: Path) -> None:
    """A request takes its receipt and its answer; a READ also takes the read of its record."""
    files: dict[str, object] = {name: random.Random(name).randbytes(4500) for name in NAMES}
    pack = write_folder(tmp_path / "pack.ffr", {"d": files})
    # A neighbour that is pushed between its LOOKUP and its READ costs one more call.
    tree: Mount = mount(pack, "--read-around", "off")
    tree.ask(probes.read_all_by_descriptor_in, "d", WARM)
    with counted(tree, tmp_path / "calls") as calls:
        found = tree.ask(probes.read_all_by_descriptor_in, "d", COUNTED)
    assert found == [files[name] for name in COUNTED]
    requests = 2 * COUNT  # LOOKUP and READ of each
    for name in RECEIVE[engine]:
        assert abs(calls[name] - requests) <= SLACK, calls
    assert abs(calls["preadv2"] - COUNT) <= SLACK, calls
    once_in_a_while = {"futex", "poll", "restart_syscall", "write", *RECEIVE[engine], "preadv2"}
    others = {name: count for name, count in calls.items() if name not in once_in_a_while}
    assert all(count <= SLACK for count in others.values()), calls
    assert not {"statx", "newfstatat", "fstat", "getpid", "openat"} & calls.keys(), calls
