"""Readers of a pack at a URL that are killed while its server stalls: they end at once, and the
blocks that they have requested still come into the cache."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ffrfs import PackWriter
from tests.mount import probes
from tests.mount.child import Child, child
from tests.mount.command import Mount, wait_until
from tests.mount.makers import MakeMount
from tests.remote.servers.nginx import Nginx, nginx

# The names take several blocks of 1 MiB, and mounting fetches some of them.
NAMES = [f"{number:05d}-{'x' * 200}" for number in range(12_000)]
SPREAD = [f"wide/{name}" for name in NAMES[::100]]  # in all of the blocks
LARGE = random.Random(18).randbytes(4 << 20)
TIMEOUT_S = 60
END_S = TIMEOUT_S / 2

# Acts in which a reader is killed: a probe, its arguments, and a check of its result.
ACTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Callable[[Any], bool]]] = {
    "read": (probes.read, ("large",), LARGE.__eq__),
    "stat": (probes.errnos_of, ("", SPREAD, "stat"), dict.fromkeys(SPREAD, 0).__eq__),
    "open": (probes.errnos_of, ("", SPREAD, "open"), dict.fromkeys(SPREAD, 0).__eq__),
    "list": (probes.listdir, ("wide",), lambda found: sorted(found) == NAMES),
}
# With pyfuse3 the other acts only end when they have been answered (S63).
CASES = [("pyfuse3", "read"), ("uring", "read"), ("uring", "list")]
CASES += [("native", name) for name in ACTS]


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "wide.ffr"
    with PackWriter(path) as pack:
        pack.add("large", LARGE)
        pack.add("small/file", b"near")
        for name in NAMES:
            pack.add(f"wide/{name}", name[:5].encode())
    return path


@pytest.fixture
def server(pack: Path) -> Iterator[Nginx]:
    with nginx(pack.parent) as server:
        yield server


@pytest.fixture
def timeout_s() -> int:
    return TIMEOUT_S


@pytest.fixture
def tree(new_mount: MakeMount, server: Nginx, pack: Path, tmp_path: Path, timeout_s: int) -> Mount:
    made: Mount = new_mount(f"{server.url}/{pack.name}")
    words = ["--cache-dir", str(tmp_path / "cache"), "--remote-timeout", str(timeout_s)]
    done = made.mount(*words)
    assert (done.status, done.out, done.err) == (0, "", "")
    wait_until(lambda: remote(made)["ranges"] == 0, "what mounting fetches is there")
    return made


def remote(tree: Mount) -> dict[str, int]:
    found: dict[str, int] = tree.statistics()["remote"]
    return found


def start(tree: Mount, stack: contextlib.ExitStack, name: str) -> Child:
    reader = prepare(tree, stack, name)
    reader.ask_next()
    return reader


def prepare(tree: Mount, stack: contextlib.ExitStack, name: str) -> Child:
    probe, (path, *more), _ = ACTS[name]
    return stack.enter_context(child(probe, tree / path, *more))


def is_right(tree: Mount, name: str) -> bool:
    probe, arguments, fits = ACTS[name]
    with contextlib.suppress(OSError):
        return fits(tree.ask(probe, *arguments))
    return False


def kill(readers: list[Child], end_s: float = END_S) -> None:
    """Kill these waiting readers; each must end before its bytes can have come."""
    assert not any(reader.has_answered() for reader in readers)
    begun_s = time.monotonic()
    for reader in readers:
        os.kill(reader.pid, signal.SIGKILL)
    for reader in readers:
        reader.wait(end_s)
    print(f"{len(readers)} killed readers have ended in {time.monotonic() - begun_s:.2f} s")


@pytest.mark.promise("S63")
@pytest.mark.parametrize(("engine", "name"), CASES, indirect=["engine"])
def test_killed_reader_ends_and_its_fetch_continues(tree: Mount, server: Nginx, name: str) -> None:
    before = remote(tree)["blocks_fetched"]
    with contextlib.ExitStack() as stack:
        with server.program.stopped():
            reader = start(tree, stack, name)
            wait_until(lambda: remote(tree)["ranges"] > 0, "a range is under way")
            kill([reader])
            assert remote(tree)["blocks_fetched"] == before
        # Nobody reads any more.
        wait_until(lambda: remote(tree)["blocks_fetched"] > before, "its block has come")
    assert is_right(tree, name)


# Over rings the kernel (6.18) loses an interruption that comes before a ring's thread has the
# request. Processes look up one name in turn, so they also end in turn when they are killed.
@pytest.mark.promise("S63")
@pytest.mark.parametrize(
    ("engine", "timeout_s", "end_s"),
    [("native", TIMEOUT_S, END_S), ("uring", 12, 48)],
    indirect=["engine"],
)
def test_many_waiting_readers_delay_no_other_requests(
    tree: Mount, server: Nginx, timeout_s: int, end_s: float
) -> None:
    with contextlib.ExitStack() as stack, server.program.stopped():
        readers = [prepare(tree, stack, name) for name in ACTS for _ in range(8)]
        for reader in readers:  # only now, as the time of the first one begins here
            reader.ask_next()
        wait_until(lambda: remote(tree)["ranges"] > 0, "a range is under way")
        assert tree.ask(probes.stat, "small/file").st_size == 4
        assert tree.ask(probes.listdir, "small") == ["file"]
        kill(readers, end_s)
    if timeout_s < TIMEOUT_S:  # on a busy machine the timeout of waiting requests may be over
        wait_until(lambda: all(is_right(tree, name) for name in ACTS), "readable")
        if "no answer for" in tree.log():
            tree.expect_log("no answer for")
    for name in ACTS:
        assert is_right(tree, name)
