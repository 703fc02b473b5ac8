"""Many readers at once on two cores: every byte right, in the memory that was allowed;
and whatever ends the mount under them, an error at most.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ffrfs.mount.engines.worker import PATH_VARIABLE
from tests.hostile.conftest import check_nothing_left
from tests.mount.command import WAYS, Mount, ffrfs, wait_until
from tests.soak.hints import hint_too_large, hinting
from tests.soak.load import Load, Result, check_bytes, load
from tests.soak.scale import DURATION_S, PACK_MB, READERS, TEST_TIMEOUT_S

CACHE_MB = 32
# Of daemon and worker: programs, libraries, stacks, request buffers, blocks on their way to a
# reader.
PROCESS_MB = {"native": 75, "uring": 80, "pyfuse3": 100}
ERROR_TIMEOUT_S = 60.0
BEFORE_END_S = 2.0  # that readers are left alone before their mount is ended
HINTERS = 3
LASTING_S = 1000.0  # they are to be ended by an error
ENDS_OF_CONNECTION = {errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED}

MakeMount = Callable[[Path], Mount]

pytestmark = [
    pytest.mark.timeout(TEST_TIMEOUT_S),
    pytest.mark.usefixtures("two_cores"),
    pytest.mark.parametrize("engine", WAYS, indirect=True),
]


@pytest.fixture
def tree(new_mount: MakeMount, pack_checkable: Callable[[int], Path]) -> Mount:
    mount = new_mount(pack_checkable(PACK_MB))
    done = mount.mount("--cache-mb", str(CACHE_MB))
    assert (done.status, done.err) == (0, "")
    return mount


@pytest.mark.promise("S13", "S15", "S32", "S33")
@pytest.mark.parametrize("hinter_count", [0, HINTERS])
def test_every_byte_is_right_in_bounded_memory(tree: Mount, hinter_count: int) -> None:
    if hinter_count:
        hint_too_large(tree)
    with (
        hinting(tree, hinter_count, DURATION_S) as hinters,
        load(tree, READERS, DURATION_S, drop=0.8) as readers,
    ):
        results = readers.results(DURATION_S + 60)
        assert all(hinter.answer(60) > 0 for hinter in hinters)
    assert {result["errno"] for result in results} == {0}
    figures = check_bytes(results)
    peak_mb = tree.peak_memory_mb()
    print(f"{tree.engine}: {DURATION_S:.0f} s, {figures}, peak memory {peak_mb:.0f} MB")
    if PATH_VARIABLE not in os.environ:  # a worker under a sanitizer needs its shadow, too
        assert peak_mb < CACHE_MB + PROCESS_MB[tree.engine]
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


def results_after(readers: Load, end_mount: Callable[[], None]) -> list[Result]:
    """Ends the mount under the readers: each ends, soon, with an error."""
    time.sleep(BEFORE_END_S)
    ended_s = time.monotonic()
    end_mount()
    results = readers.results(ERROR_TIMEOUT_S)
    latest_s = max(result["ended_s"] for result in results) - ended_s
    errors = {errno.errorcode[result["errno"]] for result in results}
    print(f"{check_bytes(results)}; {sorted(errors)} within {latest_s:.2f} s")
    return results


@pytest.mark.promise("S19")
@pytest.mark.parametrize("killed", ["daemon", "daemon and worker"])
def test_killed_daemon_gives_errors_under_load(tree: Mount, killed: str) -> None:
    if tree.worker is None and killed != "daemon":
        pytest.skip("this engine has no worker")

    def kill() -> None:
        tree.kill()
        if killed != "daemon":
            with contextlib.suppress(ProcessLookupError):  # it ends with its daemon
                os.kill(tree.worker.pid, signal.SIGKILL)

    with load(tree, READERS, LASTING_S, drop=1) as readers:
        results = results_after(readers, kill)
    assert {result["errno"] for result in results} <= ENDS_OF_CONNECTION
    tree.wait_for_daemon()
    assert tree.is_mounted
    done = ffrfs("umount", tree.path)
    assert (done.status, done.err) == (0, "")
    check_nothing_left(tree)


@pytest.mark.promise("S19")
def test_killed_worker_under_load(tree: Mount) -> None:
    """Over /dev/fuse no reader notices; over rings they get an error and a new mount."""
    if tree.worker is None:
        pytest.skip("this engine has no worker")
    tree.expect_log("the worker was killed by SIGKILL")
    if tree.engine == "native":
        with load(tree, READERS, DURATION_S, drop=0.8) as readers:
            for _ in range(5):
                time.sleep(min(BEFORE_END_S, DURATION_S / 10))
                tree.replace_worker()
            results = readers.results(DURATION_S + 60)
        print(f"{check_bytes(results)}; {tree.statistics()['worker']}")
        assert {result["errno"] for result in results} == {0}
        return
    with load(tree, READERS, LASTING_S, drop=1) as readers:
        results = results_after(readers, lambda: os.kill(tree.worker.pid, signal.SIGKILL))
    # Some come while nothing is mounted there.
    assert {result["errno"] for result in results} <= ENDS_OF_CONNECTION | {errno.ENOENT}
    tree.wait_until_anew()
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)


@pytest.mark.promise("S18")
def test_stopped_daemon_gives_no_wrong_byte(tree: Mount) -> None:
    tree.expect_log("busy: detached")
    keepers = READERS // 2
    with load(tree, READERS, DURATION_S, drop=0.8, keepers=keepers) as readers:
        time.sleep(min(BEFORE_END_S, DURATION_S / 2))
        tree.signal(signal.SIGTERM)
        wait_until(lambda: not tree.is_mounted, "the mount is detached")
        results = readers.results(DURATION_S + 60)
        assert tree.is_served  # for those who keep the folder open
    print(f"{tree.engine}: {check_bytes(results)}")
    assert {result["errno"] for result in results[:keepers]} == {0}
    assert {result["errno"] for result in results[keepers:]} == {errno.ENOENT}
    check_nothing_left(tree)
