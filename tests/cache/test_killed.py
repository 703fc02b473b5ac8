"""SIGKILL at each step of making an object, of writing a block, and of evicting one.

strace(1) sends the signal when the program begins a certain system call, so that each call
that changes a file is in turn the first that does not happen.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.cache.directory import CacheDirectory
from tests.cache.blocks import URL, check, count, crash, fill, held, start, state_files
from tests.cache.filling import MARK, PREPARED, SIZE, fill_traced

CHANGES = ("pwrite64", "fdatasync", "fallocate", "linkat", "ftruncate", "fchmod", "mkdirat")
TIMEOUT_S = 120
MIB = 1 << 20

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="there is no strace(1) here")


def strace(place: Path, act: str, *options: str) -> int:
    """Return the exit status of a process that does `act`, or its signal as a negative number."""
    pid = start(lambda: fill_traced(str(place), act))
    try:
        subprocess.run(
            ["strace", "-f", "-p", str(pid), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
            check=True,
        )
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def steps(tmp_path: Path, act: str) -> Iterator[tuple[str, int]]:
    """Yield (call, its count since the start) for each call of the act that changes a file."""
    trace = tmp_path / "trace"
    calls = ",".join((*CHANGES, "access"))
    assert strace(tmp_path / "tried", act, "-o", str(trace), "-e", f"trace={calls}") == 0
    lines = trace.read_text().splitlines()
    main = lines[0].split()[0]
    seen: Counter[str] = Counter()
    has_begun = False
    for line in lines:
        match = re.match(rf"{main} +(\w+)\(", line)  # strace(1) counts for each thread
        if match is None:
            continue
        seen[match[1]] += 1
        has_begun = has_begun or MARK in line
        if has_begun and match[1] in CHANGES:
            yield match[1], seen[match[1]]


def reopen(place: Path, least: set[int]) -> None:
    """No present block is wrong, those of `least` are present, and the others can be filled."""
    count(place, 32 * MIB)
    lines: list[str] = []
    cache = CacheDirectory(str(place), 32 * MIB, lines.append)
    kept = cache.open(URL, "v1", SIZE)
    there = check(kept)
    assert there >= least
    assert held(place) <= len(there) * MIB + MIB // 2
    for block in set(range(SIZE // MIB)) - there:
        fill(kept, block)
    assert check(kept) == set(range(SIZE // MIB))
    kept.close()
    cache.close()
    assert lines == []
    for _, state in state_files(place):
        assert sum(map(len, state.durable())) == SIZE // MIB


@pytest.mark.parametrize(
    ("act", "changed"),
    [("open", set(range(PREPARED))), ("fill", set()), ("again", {0}), ("evict", {0})],
)
def test_a_kill_at_any_step(tmp_path: Path, act: str, changed: set[int]) -> None:
    least = set(range(PREPARED)) - changed

    def kill(call: str, count: int) -> None:
        place = tmp_path / f"{call}-{count}"
        inject = f"inject={call}:signal=SIGKILL:when={count}"
        assert (
            strace(place, act, "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
            == -signal.SIGKILL
        )
        rebooted = tmp_path / f"{call}-{count}-rebooted"
        subprocess.run(["cp", "-r", "--sparse=always", place, rebooted], check=True, timeout=60)
        crash(rebooted, b"\x01\x00\x05")
        reopen(place, least)
        reopen(rebooted, least)
        shutil.rmtree(place)
        shutil.rmtree(rebooted)

    found = list(steps(tmp_path, act))
    assert len(found) >= 5
    for step in found:
        kill(*step)
