"""Finds what a program leaves behind, which runs in namespaces of its own.

There, all processes, mounts and runtime directories that the program finds are its own. The
test calls run_alone() and check_nothing_left(); the program calls the other functions, and
prints what they have found as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.kernel import state
from tests.mount.preloaded import preloaded
from tests.own_mounts import with_own_mounts

# The runtime directory of root is below /run.
_OWN_NAMESPACES = with_own_mounts(
    *("sh", "-c"),
    "mount -t tmpfs -o mode=755 ffrfs-test /run && mount -t tmpfs ffrfs-test /dev/shm && "
    'exec "$0" "$@"',
    options=("--pid", "--fork", "--kill-child", "--mount-proc"),
)
_SETTLING_S = 60.0
_RUNTIME_DIRECTORY = "/run/ffrfs"

Found = dict[str, list[str]]


def run_alone(program: Path, *arguments: object, timeout_s: float) -> Any:
    """Run `program` as the first process of its namespaces; return the JSON that it prints."""
    if os.geteuid() != 0:
        pytest.skip("only root can have namespaces of its own without a user namespace")
    done = subprocess.run(
        [*_OWN_NAMESPACES, sys.executable, program, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    print(done.stderr, end="")
    return json.loads(done.stdout)


def check_nothing_left(before: Found, after: Found) -> None:
    """Assert that the program has found the same as before, and no trace of a mount."""
    differences = {kind: sorted({*after[kind]} ^ {*before[kind]}) for kind in before}
    assert after == before, differences
    traces = [path for path in after["files"] if path.startswith(f"{_RUNTIME_DIRECTORY}/")]
    assert not traces, traces


def found(folder: str) -> Found:
    """Return what a leak would add to; files are those in /run, /dev/shm and `folder`."""
    return {
        "descriptors": sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in _descriptors()),
        "threads": os.listdir("/proc/self/task"),
        "processes": _processes(),
        "mounts": Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines(),
        "files": sorted(
            os.path.join(place, name)
            for top in ("/run", "/dev/shm", folder)
            for place, folders, files in os.walk(top)
            for name in folders + files
            if not (place == _RUNTIME_DIRECTORY and name.endswith(state.KEPT))
        ),
    }


def found_in_the_end(folder: str, expected: Found) -> Found:
    """Return what is left after the last daemons, which may still be ending, had some time."""
    deadline_s = time.monotonic() + _SETTLING_S
    while (after := found(folder)) != expected and time.monotonic() < deadline_s:
        time.sleep(0.1)
        reap()
    return after


def reap() -> None:
    """Reap daemons: as orphans, they are children of this first process of a namespace.

    Not to be called while other code waits for the end of a child.
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


def wait_for_daemons() -> None:
    """Wait for all daemons to end: the last one may end some time after its mount."""
    deadline_s = time.monotonic() + _SETTLING_S
    staying = sorted(map(str, (os.getpid(), preloaded().pid)))
    while _processes() != staying and time.monotonic() < deadline_s:
        time.sleep(0.1)
        reap()


def _processes() -> list[str]:
    return sorted(name for name in os.listdir("/proc") if name.isdigit())


def _descriptors() -> list[str]:
    """Return all descriptors but the one that the listing itself takes."""
    return [fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
