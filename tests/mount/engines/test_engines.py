"""Which engine serves a mount, and worker programs that do not work."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ffrfs.mount.config.settings import THREADS_MAX
from ffrfs.mount.engines.worker import PATH_VARIABLE
from tests.mount import probes
from tests.mount.command import Mount, mount_command_fails, wait_until
from tests.mount.makers import MakeMount, PackTree, by_native

TREE = {"a": b"alpha", "d": {"b": b"beta"}}


@pytest.fixture
def tree(new_mount: MakeMount, pack_tree: PackTree) -> Mount:
    """A Mount, not mounted yet."""
    made: Mount = new_mount(pack_tree(TREE))
    return made


def check_serves(tree: Mount) -> None:
    assert tree.ask(probes.read, "d/b") == b"beta"
    engine = "pyfuse3" if tree.engine == "pyfuse3" else "native"
    transport = "uring" if tree.engine == "uring" else "dev"
    assert f"mounted at {tree.path}, engine {engine}, transport {transport}\n" in tree.log()
    assert (tree.worker is not None) == (engine == "native")
    found = tree.statistics()
    assert (found["engine"], found["transport"]) == (engine, transport)


def test_engine_is_the_one_requested(tree: Mount) -> None:
    assert tree.mount().status == 0
    check_serves(tree)


def test_auto_uses_the_native_engine_if_it_was_built(
    tree: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tree.engine == "pyfuse3":
        monkeypatch.setenv(PATH_VARIABLE, str(tree.path / "absent"))
    assert tree.mount("--engine", "auto").status == 0
    check_serves(tree)


@by_native
@pytest.mark.promise("S16")
def test_native_engine_that_was_not_built_is_refused_with_advice(
    tree: Mount, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_program = places / "text"
    no_program.write_text("not executable")
    for path in (places / "absent", no_program):
        monkeypatch.setenv(PATH_VARIABLE, str(path))
        mount_command_fails(tree.mount(), 32, "not built", "--engine pyfuse3")
        assert not tree.path.exists()


@by_native
def test_number_of_threads_is_as_requested(mount: MakeMount, pack_tree: PackTree) -> None:
    pack = pack_tree(dict(TREE))
    one, many = (mount(pack, "--threads", str(count)) for count in (1, THREADS_MAX))
    # A worker also has threads whose number does not depend on --threads. In either mount, one of
    # these begins with the first request that takes a millisecond.
    wait_until(
        lambda: abs(thread_count(many) - thread_count(one) - (THREADS_MAX - 1)) <= 1, "all began"
    )
    for tree in (one, many):
        assert tree.ask(probes.digests, "").keys() == {"a", "d", "d/b"}


def thread_count(tree: Mount) -> int:
    assert tree.worker is not None
    return len(os.listdir(f"/proc/{tree.worker.pid}/task"))


# Acts of a worker; `socket` is its end of the connection to the daemon.
BAD_WORKERS = {
    "exits": "os._exit(7)",
    "is killed": "os.kill(os.getpid(), 9)",
    "hangs up": "socket.close(); time.sleep(60)",
    "says nothing of worth": "socket.send(b'x'); time.sleep(60)",
    "says an empty word": "socket.send(b'\\0'); time.sleep(60)",
    "sends noise": "socket.send(os.urandom(60_000)); time.sleep(60)",
    "fails without a reason": "socket.send(b'failed\\0')",
    "fails with an unknown reason": "socket.send(b'failed\\0NoSuchError\\0text\\0')",
    "fails with a number that is none": "socket.send(b'failed\\0OSError\\0a\\0b\\0c\\0')",
    "fails with noise": "socket.send(b'failed\\0' + os.urandom(50_000))",
    "fails in two lines": "socket.send(b'failed\\0FormatError\\0one\\ntwo\\0')",
    "shouts": "os.write(2, b'\\xff\\0\\x1b' * 20_000); os._exit(7)",
}
# Acts of a worker that gets the connection, and the daemon's log line.
BAD_SERVERS = {
    "ends": ("receive(); os.write(2, b'<3>oh\\n')", "ERROR oh$"),
    "fails": ("receive(); os.write(2, b'<6>no\\n'); os._exit(7)", "ended with status 7: no$"),
    "crashes": ("receive(); os.kill(os.getpid(), 6)", "SIGABRT: it has logged nothing$"),
    "reads a request": ("os.read(resend(receive()), 1 << 20); os._exit(7)", "ended with status 7"),
    "replies with noise": (
        "fd = resend(receive()); os.read(fd, 1 << 20)\n"
        "try: os.write(fd, os.urandom(64))\n"
        "except OSError as error: os._exit(error.errno)",
        "ended with status",
    ),
}
# A path with a blank cannot be in the first line of a script.
WORKER = """\
#!/bin/sh
'''exec' '{python}' "$0" "$@"
' '''
import os, sys, time, socket as sockets
(number,) = [word.partition("=")[2] for word in sys.argv if "--daemon-socket=" in word]
socket = sockets.socket(fileno=int(number))
def receive():
    return sockets.recv_fds(socket, 1, 1)[1][0]
def resend(fd):
    "NOTIFY_RESEND: what the worker before it has read comes again."
    os.write(fd, bytes([16, 0, 0, 0, 7]) + bytes(11))
    return fd
{act}
"""
OPENED = "socket.send(b'opened\\0')\n"

UseWorker = Callable[[str], None]


@pytest.fixture
def use_worker(places: Path, monkeypatch: pytest.MonkeyPatch) -> UseWorker:
    """Lets a program that does these acts serve the mounts."""

    def use(act: str) -> None:
        program = places / "worker"
        program.write_text(WORKER.format(python=sys.executable, act=act))
        program.chmod(0o755)
        monkeypatch.setenv(PATH_VARIABLE, str(program))

    return use


def check_fails(tree: Mount, *statuses: int) -> None:
    done = tree.mount()
    assert done.status in statuses, done
    mount_command_fails(done, done.status)
    assert not tree.is_mounted
    assert not tree.path.exists()
    wait_until(lambda: not tree.processes(), "daemon and worker have ended")


@by_native
@pytest.mark.promise("S16")
@pytest.mark.parametrize("act", BAD_WORKERS)
def test_worker_that_opens_no_pack_is_a_failed_mount(
    tree: Mount, use_worker: UseWorker, act: str
) -> None:
    use_worker(BAD_WORKERS[act])
    check_fails(tree, *((1, 2) if act.startswith("fails") else (32,)))


@by_native
@pytest.mark.promise("S16")
@pytest.mark.parametrize("act", BAD_SERVERS)
def test_worker_that_does_not_serve_is_a_failed_mount(
    tree: Mount, use_worker: UseWorker, act: str
) -> None:
    acts, logged = BAD_SERVERS[act]
    use_worker(OPENED + acts)
    tree.expect_log(logged)
    if act != "ends":
        tree.expect_log("5 workers in a row ended without an answer")
    check_fails(tree, 32)


@by_native
def test_worker_that_exits_before_it_serves_is_a_failed_mount(
    tree: Mount, use_worker: UseWorker
) -> None:
    use_worker(OPENED + "os._exit(7)")
    tree.expect_log("the worker ended with status 7: it has logged nothing")
    tree.expect_log("5 workers in a row ended without an answer")
    check_fails(tree, 32)
