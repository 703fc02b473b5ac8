"""ffrfs.prefetch(): hints from a program, which a separate thread sends."""

from __future__ import annotations

import gc
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from ffrfs.errors import MountError
from ffrfs.mount.client import hint_paths
from ffrfs.mount.client import hints as hints_of_programs
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import FSTYPE, MountEntry
from tests.mount.command import wait_until
from tests.mount.hint_taker import TIMEOUT_S, HintTaker, receive, received
from tests.mount.waiting import files_in_calls, sends

MANY = 200_000  # more hints than a socket's buffer holds


@pytest.fixture
def place(known: state.MountState, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a mount point that the kernel's table seems to contain."""
    table = [MountEntry(known.mountpoint, FSTYPE, "x.ffr", "0:1")]
    monkeypatch.setattr(hint_paths, "read_mount_table", lambda: table)
    return Path(known.mountpoint)


@pytest.fixture(autouse=True)
def threads_end() -> Iterator[None]:
    yield
    gc.collect()
    wait_until(lambda: not any(t.name == "ffrfs-hints" for t in threading.enumerate()), "ended")


def test_list_of_paths(place: Path, taker: HintTaker) -> None:
    paths = [place / "a", str(place / "d" / "b"), os.fsencode(place / "c"), 12]
    with ffrfs.prefetch(paths) as hints, taker.client() as client:
        assert receive(client, 14) == b"/a\0/d/b\0/c\x0012\0"
        assert hints.wait(TIMEOUT_S)
        assert (hints.sent, hints.skipped) == (4, 0)


def test_given_mount_point(place: Path, taker: HintTaker) -> None:
    for mountpoint in (place, str(place), os.fsencode(place)):
        with ffrfs.prefetch(["a", 7, b"./7"], mountpoint), taker.client() as client:
            assert receive(client, 8) == b"/a\x007\0/7\0"


def test_all_skipped_of_no_paths_returns_at_once(
    place: Path, taker: HintTaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints_of_programs, "_LOOK_TIMEOUT_S", 2 * TIMEOUT_S)
    for mountpoint in (None, place):
        with ffrfs.prefetch([], mountpoint) as hints:
            assert not hints.all_skipped()


def test_paths_outside_the_mount_are_skipped(place: Path, taker: HintTaker) -> None:
    paths = ["/usr/a", place / "a", place, place.parent / "b", -5, place / "c"]
    with ffrfs.prefetch(paths) as hints, taker.client() as client:
        assert receive(client, 6) == b"/a\0/c\0"
        assert hints.wait(TIMEOUT_S)
        assert (hints.sent, hints.skipped) == (2, 4)


def test_each_path_is_sent_as_the_iterator_yields_it(place: Path, taker: HintTaker) -> None:
    coming: queue.Queue[str | None] = queue.Queue()
    paths = iter(coming.get, None)
    with ffrfs.prefetch(paths, place) as hints, taker.client() as client:
        for i in range(100):
            coming.put(str(i))
            assert receive(client, len(f"/{i}") + 1) == b"/%d\0" % i
        assert not hints.wait(0.05)
        coming.put(None)
        assert hints.wait(TIMEOUT_S)
        assert hints.sent == 100


def test_prefetch_does_not_block_if_the_mount_reads_no_hints(place: Path, taker: HintTaker) -> None:
    before = files_in_calls(os.getpid())  # hint threads of other tests wait for ever
    hints = ffrfs.prefetch(range(MANY), place)  # returns before any hint is read
    with taker.client() as client:
        wait_until(lambda: sends(os.getpid(), before), "no more are taken")
        sent = hints.sent
        assert not hints.wait(0.2)
        assert 0 < hints.sent == sent < MANY
        everything = b"".join(b"%d\0" % i for i in range(MANY))
        assert receive(client, len(everything)) == everything
        assert hints.wait(TIMEOUT_S)
        assert hints.sent == MANY
        hints.close()
        assert received(client) == b""


def test_closing_drops_hints_that_were_not_sent_yet(place: Path, taker: HintTaker) -> None:
    hints = ffrfs.prefetch(range(MANY), place)
    with taker.client() as client:
        wait_until(lambda: hints.sent > 0, "some were sent")
        hints.close()
        assert not hints.wait(TIMEOUT_S)
        data = received(client)
        assert not data.endswith(b"\0\0")
        assert data.count(b"\0") < MANY
    hints.close()


def test_closing_also_drops_hints_that_were_sent(place: Path, taker: HintTaker) -> None:
    hints = ffrfs.prefetch(["a"], place)
    with taker.client() as client:
        assert hints.wait(TIMEOUT_S)
        hints.close()
        assert received(client) == b"/a\0"  # without the mark that would keep it


@pytest.mark.parametrize("count", [2, MANY])
def test_hints_stay_valid_when_their_object_is_collected(
    place: Path, taker: HintTaker, count: int
) -> None:
    ffrfs.prefetch(range(count), place)
    gc.collect()
    with taker.client() as client:
        assert received(client) == b"".join(b"%d\0" % i for i in range(count)) + b"\0"


def test_connection_stays_open_while_the_hints_object_exists(place: Path, taker: HintTaker) -> None:
    hints = ffrfs.prefetch(["a"], place)
    with taker.client() as client:
        assert receive(client, 3) == b"/a\0"
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        del hints
        gc.collect()
        client.settimeout(TIMEOUT_S)
        assert received(client) == b"\0"


@pytest.mark.parametrize("paths", ["/mnt/a", b"/mnt/a", Path("/mnt/a")])
def test_single_path_instead_of_a_list_is_a_type_error(paths: Any) -> None:
    with pytest.raises(TypeError, match="a sequence of paths, not one"):
        ffrfs.prefetch(paths)


def test_prefetch_without_any_ffrfs_mount_fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hint_paths, "read_mount_table", list)
    with pytest.raises(MountError, match="none of the paths is in an ffrfs mount"):
        ffrfs.prefetch(["a"])


def test_wrong_mount_point_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(MountError, match="absent: not mounted"):
        ffrfs.prefetch(["a"], tmp_path / "absent")


def test_unreachable_daemon(
    place: Path, known: state.MountState, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(MountError, match="cannot ask its daemon"):
        ffrfs.prefetch(["a"], place)
    hints = ffrfs.prefetch([place / "a"])  # its thread finds the mount
    with pytest.raises(MountError, match="cannot ask its daemon"):
        hints.wait(TIMEOUT_S)
    assert "no more hints: " in caplog.text
    assert "Traceback" not in caplog.text
    hints.close()


def test_end_of_the_mount_ends_the_hints(place: Path, taker: HintTaker) -> None:
    hints = ffrfs.prefetch(range(MANY), place)
    taker.client().close()
    with pytest.raises(MountError, match="takes no more hints"):
        hints.wait(TIMEOUT_S)
    assert hints.sent < MANY


def test_mount_that_ends_after_the_last_hint_logs_nothing(
    place: Path, taker: HintTaker, caplog: pytest.LogCaptureFixture
) -> None:
    hints = ffrfs.prefetch(["a"], place)
    with taker.client() as client:
        assert hints.wait(TIMEOUT_S)
        assert receive(client, 3) == b"/a\0"
    assert hints.wait(TIMEOUT_S)
    del hints
    gc.collect()
    assert caplog.messages == []


def test_exception_of_the_iterator_ends_the_hints(
    place: Path, taker: HintTaker, caplog: pytest.LogCaptureFixture
) -> None:
    def paths() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError("oh")

    hints = ffrfs.prefetch(paths(), place)
    with taker.client() as client:
        assert received(client) == b"/a\0"
    with pytest.raises(ZeroDivisionError):
        hints.wait(TIMEOUT_S)
    assert "Traceback" in caplog.text


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forked_child_does_not_affect_the_hints(place: Path, taker: HintTaker) -> None:
    coming: queue.Queue[str | None] = queue.Queue()
    hints = ffrfs.prefetch(iter(coming.get, None), place)
    with taker.client() as client:
        child = os.fork()
        if child == 0:
            hints.close()
            waited = hints.wait()
            del hints
            gc.collect()
            os._exit(int(waited))
        assert os.waitpid(child, 0)[1] == 0
        coming.put("a")
        assert receive(client, 3) == b"/a\0"
        coming.put(None)
        assert hints.wait(TIMEOUT_S)
        hints.close()
        assert received(client) == b""


PROGRAM = """
import os, signal, sys, ffrfs
from ffrfs.mount.kernel import state
state.runtime_directories = lambda: [sys.argv[1]]
hints = ffrfs.prefetch(range(200_000), sys.argv[2])
while not hints.sent:
    pass
if sys.argv[3] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["killed", "done"])
def test_hints_end_with_their_process(
    known: state.MountState, taker: HintTaker, tmp_path: Path, end: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path, known.mountpoint, end],
        stderr=subprocess.PIPE,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGKILL if end == "killed" else 0, b"")
    with taker.client() as client:
        data = received(client)
    assert data
    assert not data.endswith(b"\0\0")
