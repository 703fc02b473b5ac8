"""The control socket: which clients get which answers, and that nothing they send does harm."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

from ffrfs.cli.main import main
from ffrfs.errors import MountError
from ffrfs.mount.client import control_client
from ffrfs.mount.client.restart import restart
from ffrfs.mount.daemon import control_server
from ffrfs.mount.daemon.control_server import CLIENTS_MAX, LINE_SIZE_MAX, ControlServer, Handler
from ffrfs.mount.kernel import control_socket, state
from ffrfs.mount.kernel.process import Process

TIMEOUT_S = 20.0
NOBODY = 65534

# Connects as another user, and prints the result of its request.
STRANGER = """
import os, socket, sys
os.setgroups([])
os.setresuid(*[int(sys.argv[2])] * 3)
client = socket.socket(socket.AF_UNIX)
client.settimeout(20)
try:
    client.connect(sys.argv[1])
    client.sendall(b'{"command": "echo"}\\n')
    print(client.recv(4096) or "no answer")
except OSError as error:
    print(type(error).__name__)
"""


def echo(request: Mapping[str, object]) -> object:
    return {"asked": dict(request)}


def fail(request: Mapping[str, object]) -> object:
    raise RuntimeError("out\nof order")


def served(path: Path, client: Callable[[], Any]) -> Any:
    """Return the result of `client`, which runs in a thread beside a server on that path."""
    commands: dict[str, Handler] = {"echo": echo, "fail": fail}

    async def main() -> Any:
        with control_socket.listen(str(path)) as listener:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ControlServer(listener, commands).run)
                with trio.fail_after(TIMEOUT_S):
                    found = await trio.to_thread.run_sync(client)
                nursery.cancel_scope.cancel()
        return found

    return trio.run(main)


def converse(path: Path, *chunks: bytes) -> list[dict[str, Any]]:
    """Return all answers to `chunks` until the server closes the connection."""
    with control_socket.connect(str(path), TIMEOUT_S) as client:
        for chunk in chunks:
            client.sendall(chunk)
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as file:
            return [json.loads(line) for line in file]


def request(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


ECHO = request(command="echo")
ECHOED = {"result": {"asked": {"command": "echo"}}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.sock"


def test_socket_is_private_from_its_creation(path: Path) -> None:
    before = os.umask(0)
    try:
        with control_socket.listen(str(path)):
            assert stat.filemode(path.stat().st_mode) == "srw-------"
    finally:
        os.umask(before)


def test_stale_socket_is_replaced(path: Path) -> None:
    control_socket.listen(str(path)).close()
    with pytest.raises(ConnectionRefusedError):
        control_socket.connect(str(path), TIMEOUT_S)
    assert served(path, lambda: converse(path, ECHO)) == [ECHOED]


def test_directory_may_have_a_long_name(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 200)
    directory.mkdir()
    assert served(directory / "s", lambda: converse(directory / "s", ECHO)) == [ECHOED]


def test_several_requests_on_one_connection(path: Path) -> None:
    lines = [request(command="echo", number=number) for number in range(100)]
    answers = served(path, lambda: converse(path, *lines))
    assert [answer["result"]["asked"]["number"] for answer in answers] == list(range(100))


def test_request_may_arrive_in_pieces(path: Path) -> None:
    pieces = [ECHO[i : i + 1] for i in range(len(ECHO))]
    assert served(path, lambda: converse(path, *pieces)) == [ECHOED]


BAD_LINES = {
    "empty": b"",
    "no JSON": b"stats",
    "no UTF-8": b"\xff\xfe\x00",
    "a list": b"[]",
    "a number": b"1",
    "a number of many digits": b"1" * 60_000,
    "deep": b"[" * 60_000,
    "no command": b"{}",
    "a command that is no string": b'{"command": ["echo"]}',
    "an unknown command": b'{"command": "rm -rf"}',
    "a long command": b'{"command": "' + b"x" * 60_000 + b'"}',
    "line breaks": b'{"command": "a\\nb\\u001b[31m\\ud800"}',
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_bad_request_is_an_error_and_the_next_is_answered(path: Path, name: str) -> None:
    bad, good = served(path, lambda: converse(path, BAD_LINES[name] + b"\n", ECHO))
    assert bad.keys() == {"error"}
    assert 0 < len(bad["error"]) < 100
    assert bad["error"].isprintable()
    assert good == ECHOED


def test_failing_handler_gives_a_one_line_error(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = served(path, lambda: converse(path, request(command="fail"), ECHO))
    assert answers == [{"error": "RuntimeError: out of order"}, ECHOED]
    assert "the command fail failed" in caplog.text


def test_too_long_a_line_closes_only_its_connection(path: Path) -> None:
    def client() -> None:
        fits = b" " * (LINE_SIZE_MAX - len(ECHO)) + ECHO
        assert len(fits) == LINE_SIZE_MAX
        assert converse(path, fits) == [ECHOED]
        with control_socket.connect(str(path), TIMEOUT_S) as endless:
            endless.sendall(b"x" * LINE_SIZE_MAX)
            assert json.loads(endless.recv(4096)) == {"error": "a request over 65536 bytes"}
            assert endless.recv(4096) == b""
        assert converse(path, ECHO) == [ECHOED]

    served(path, client)


def is_served(path: Path) -> bool:
    try:
        return converse(path, ECHO) == [ECHOED]
    except ConnectionResetError:  # the server said "too many" and closed, with our request unread
        return False


def test_client_beyond_the_limit_gets_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "IDLE_TIMEOUT_S", TIMEOUT_S)  # the server drops no client

    def client() -> None:
        clients = [control_socket.connect(str(path), TIMEOUT_S) for _ in range(CLIENTS_MAX)]
        for each in clients:
            each.sendall(ECHO)
            assert json.loads(each.recv(4096)) == ECHOED
        with control_socket.connect(str(path), TIMEOUT_S) as late:
            assert "too many clients" in json.loads(late.recv(4096))["error"]
            assert late.recv(4096) == b""
        for each in clients:
            each.close()
        deadline_s = time.monotonic() + TIMEOUT_S
        while not is_served(path):  # until the server has noticed that they are gone
            assert time.monotonic() < deadline_s

    served(path, client)


@pytest.mark.parametrize("sent", [b"", b'{"command": ', ECHO + b"x"])
def test_idle_client_is_dropped(path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(control_server, "IDLE_TIMEOUT_S", 2.0)

    def client() -> bytes:
        with control_socket.connect(str(path), TIMEOUT_S) as idle:
            idle.sendall(sent)
            with idle.makefile("rb") as file:
                return file.read()

    assert served(path, client) == (json.dumps(ECHOED).encode() + b"\n" if ECHO in sent else b"")


def test_client_that_reads_no_answers_is_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_server, "IDLE_TIMEOUT_S", 0.2)

    def client() -> None:
        with control_socket.connect(str(path), TIMEOUT_S) as greedy:
            line = request(command="echo", filling="x" * 60_000)
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                while True:
                    greedy.sendall(line)
        monkeypatch.setattr(control_server, "IDLE_TIMEOUT_S", TIMEOUT_S)
        assert converse(path, ECHO) == [ECHOED]

    served(path, client)


def test_server_survives_clients_that_disconnect_early(path: Path) -> None:
    def client() -> None:
        for sent in [b"", b"{", ECHO, ECHO * 500] * 20:
            with control_socket.connect(str(path), TIMEOUT_S) as hasty:
                hasty.sendall(sent)
        deadline_s = time.monotonic() + TIMEOUT_S
        while converse(path, ECHO) != [ECHOED]:
            assert time.monotonic() < deadline_s

    served(path, client)


def stranger(path: Path, user_id: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, path, str(user_id)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.promise("S22")
def test_another_user_cannot_connect(root_user: None, places: Path) -> None:
    path = places / "x.sock"
    assert served(path, lambda: stranger(path, NOBODY)) == "PermissionError"


def test_another_user_who_could_connect_is_not_answered(root_user: None, places: Path) -> None:
    path = places / "x.sock"

    def client() -> list[str]:
        path.chmod(0o666)  # as if the directory and the socket had been opened to all
        return [stranger(path, user_id) for user_id in (NOBODY, 0)]

    refused, answered = served(path, client)
    assert refused in ("no answer", "ConnectionResetError", "BrokenPipeError")
    assert "echo" in answered


# The client's side.


def ask(mountpoint: str) -> dict[str, object]:
    return control_client.ask(mountpoint, "stats", timeout_s=TIMEOUT_S)


def print_stats(mountpoint: str) -> int:
    return main(["stats", mountpoint])


def socket_path(known: state.MountState) -> str:
    return state.socket_path(str(Path(known.mountpoint).parent), known.mountpoint)


def answered_with(
    known: state.MountState, answer: bytes, asking: Callable[[str], Any] = ask
) -> Any:
    """Return what the client reports if the daemon sends `answer` and closes."""
    with control_socket.listen(socket_path(known)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(4096)
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            return asking(known.mountpoint)
        finally:
            thread.join()


NO_ANSWERS = {
    "no JSON": b"well\n",
    "deep": b"[" * 100_000,
    "a list": b"[]\n",
    "no result": b"{}\n",
    "a result of another kind": b'{"result": 1}\n',
    "an error of another kind": b'{"error": 1}\n',
    "more than is taken": b'{"result": {}' + b" " * (2 * control_client.ANSWER_SIZE_MAX) + b"}\n",
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_invalid_answer_is_an_error(known: state.MountState, name: str) -> None:
    with pytest.raises(MountError, match="gave an answer that ffrfs does not understand"):
        answered_with(known, NO_ANSWERS[name])


def test_answer_with_as_many_packs_as_a_mount_can_have(known: state.MountState) -> None:
    packs = ["/" + 300 * "x"] * 6500
    answer = json.dumps({"result": {"packs": packs}}).encode() + b"\n"
    assert answered_with(known, answer) == {"packs": packs}


def test_connection_closed_without_an_answer_is_an_error(known: state.MountState) -> None:
    with pytest.raises(MountError, match="it closed the connection"):
        answered_with(known, b"")


@pytest.mark.parametrize("has_guardian", [True, False], ids=["guarded", "between two guardians"])
def test_request_is_repeated_to_the_next_daemon_if_one_is_ending(
    known: state.MountState, tmp_path: Path, has_guardian: bool
) -> None:
    """A daemon closes its sockets some time before it ends."""
    ending = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    process = Process.of(ending.pid)
    assert process is not None
    guarded = replace(known, process=process, guardian=Process.current())
    state.save(str(tmp_path), guarded if has_guardian else replace(known, process=process))
    with control_socket.listen(socket_path(known)) as listener:

        def serve() -> None:
            with listener.accept()[0]:
                state.save(str(tmp_path), guarded)
            time.sleep(0.2)
            ending.communicate()
            state.save(str(tmp_path), known)
            client, _ = listener.accept()
            with client:
                client.recv(4096)
                client.sendall(b'{"result": {"daemon": 2}}\n')

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        assert ask(known.mountpoint) == {"daemon": 2}
        thread.join()


def test_daemon_of_a_service_that_dies_during_a_request(
    known: state.MountState, tmp_path: Path
) -> None:
    ending = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    process = Process.of(ending.pid)
    assert process is not None
    state.save(str(tmp_path), replace(known, process=process, is_managed=True))
    with control_socket.listen(socket_path(known)) as listener:

        def end() -> None:
            listener.accept()[0].close()
            listener.close()
            ending.communicate()

        thread = threading.Thread(target=end)
        thread.start()
        with pytest.raises(control_client.RestartingError, match="the service manager starts"):
            ask(known.mountpoint)
        thread.join()


def test_results_and_errors_are_passed_on_unchanged(known: state.MountState) -> None:
    assert answered_with(known, b'{"result": {"a": 1}}\n') == {"a": 1}
    with pytest.raises(MountError, match=r"process \d+\) answers: not now$"):
        answered_with(known, b'{"error": "not now"}\n')


def test_daemon_of_a_version_that_cannot_restart(known: state.MountState) -> None:
    answer = json.dumps({"error": "no such command: 'restart'"}).encode() + b"\n"
    with pytest.raises(MountError, match="of a version that cannot be replaced: unmount, and mo"):
        answered_with(known, answer, restart)
    with pytest.raises(MountError, match=r"answers: no such command: 'restart'$"):
        answered_with(known, answer)


NUMBERS: dict[str, object] = {
    **{"mountpoint": "/mnt/m", "pack": "/data/x.ffr", "engine": "native", "threads": 2},
    "transport": "uring",
    **{"log_file": "/run/ffrfs/x.log", "journal": None, "unreadable_files": 1},
    **{
        "daemon_pid": 10,
        "worker_pid": 11,
        "fetcher_pid": 12,
        "age_s": 273906.7,
        "request_count": 1234567,
    },
    "requests_per_s": 1234.56,
    **{"reads": 1, "bytes_served": 1023, "bytes_memory": 1024, "bytes_page_cache": 1 << 20},
    **{"bytes_storage": 5 << 39, "checksums_verified": 1000, "checksums_failed": 2},
    **{"queue_depth": 3, "cache_bytes": 0, "cache_limit_bytes": 256 << 20},
    "resident_bytes": 2**64,
    "remote": {
        **{"bytes": 5 << 20, "requests": 2, "retries": 1, "throttled": 0, "errors": 0},
        **{"blocks_hit": 15, "blocks_fetched": 5, "blocks_again": 0, "objects": 1},
        **{"ranges": 0, "starts": 1, "in_memory": 0, "object_bytes": 9_000_000, "fill_left": 0},
        **{"cache_bytes": 3 << 30, "cache_limit_bytes": 20 << 30},
    },
    "prefetch": {
        **{"hinted": 2000, "fetched": 1999, "pushed": 1000, "hit": 1990, "late": 3, "dropped": 4},
        **{"too_large": 6, "wasted_bytes": 5 << 10, "queue_depth_max": 64},
    },
    "readahead": {"fetched": 10, "pushed": 8, "hit": 9, "wasted_bytes": 0},
    "read_around": {
        **{"pushed": 900, "read_bytes": 4 << 20, "controls": 14, "controls_read": 7},
        **{"given_up": 1, "unread_bytes": 2 << 20},
    },
    "pushed_limit_bytes": 8 << 30,
    "requests": {
        "lookup": {"count": 0, "p50_us": None, "p99_us": None, "slow": 0},
        "read": {"count": 1234, "p50_us": 0.256, "p99_us": 999.1, "slow": 0},
        "open": {"count": 5000, "p50_us": 1500, "p99_us": 1_500_000, "slow": 1200},
    },
}
LINES = """\
mount point      /mnt/m
pack             /data/x.ffr
served by        2 threads, transport uring
log              /run/ffrfs/x.log
processes        daemon 10, worker 11, fetcher 12
age              3 d 04:05:06
requests         1,234,567, lately 1,234.6/s
served           1,023 bytes in 1 read
from page cache  1.0 MiB
from storage     2.5 TiB
from memory      1.0 KiB
checksums        1,000 verified, 2 failed
could not read   1 file
queue depth      3
prefetch         2,000 hinted, 1,999 fetched, 1,000 pushed, 1,990 hit
prefetch losses  3 late, 4 dropped, 6 too large, 5.0 KiB wasted; queue depth reached 64
readahead        10 fetched, 8 pushed, 9 hit, 0 bytes wasted
read around      900 pushed of 4.0 MiB, 7 of 14 controls read, given up 1 time
pushed, unread   2.0 MiB of 8.0 GiB
fetched          5.0 MiB in 2 requests, 5,125.00 x what was read, 0 ranges under way
fetch losses     1 retried, 0 of them throttled, 0 failed
block cache      3.0 GiB of 20.0 GiB; 15 hit (75 %), 5 fetched, 0 fetched again
left to fetch    0 blocks
cache            0 bytes of 256.0 MiB
resident memory  16.0 EiB

request              count         p50         p99        slow
read                 1,234        1 us     1000 us           0
open                 5,000      1.5 ms       1.5 s       1,200
"""


def test_human_readable_lines(
    known: state.MountState, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    answer = json.dumps({"result": NUMBERS}).encode() + b"\n"
    command = ["stats", "--verbose", known.mountpoint]
    assert answered_with(known, answer, lambda _: main(command)) == 0
    assert capfdbinary.readouterr() == (LINES.encode(), b"")


@pytest.mark.parametrize(
    ("changed", "row"),
    [
        ({"remote": {"retries": 0, "errors": 5}}, "0 retried, 0 of them throttled, 5 failed"),
        ({"remote": {"cache_bytes": 0}}, "0 bytes of 20.0 GiB; 15 hit (75 %)"),
        ({"read_around": {"pushed": 0}}, "0 pushed of 4.0 MiB, 7 of 14 controls read"),
    ],
)
def test_row_is_omitted_only_if_all_its_numbers_are_zero(
    known: state.MountState,
    capfd: pytest.CaptureFixture[str],
    changed: dict[str, dict[str, int]],
    row: str,
) -> None:
    numbers = NUMBERS | {name: NUMBERS[name] | values for name, values in changed.items()}
    answer = json.dumps({"result": numbers}).encode() + b"\n"
    assert answered_with(known, answer, lambda _: main(["stats", known.mountpoint])) == 0
    shown = capfd.readouterr().out
    assert row in shown and "\ncache  " not in shown


def test_rows_of_zeros_are_omitted(
    known: state.MountState, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    numbers = NUMBERS | {"pack": "/data/0.ffr", "queue_depth": 0, "unreadable_files": 0}
    answer = json.dumps({"result": numbers}).encode() + b"\n"
    assert answered_with(known, answer, print_stats) == 0
    zero = ("queue", "could", "cache", "left ")
    rows = [line for line in LINES.splitlines() if line[:5] not in zero]
    rows[1] = "pack             /data/0.ffr"
    assert capfdbinary.readouterr().out.decode().splitlines() == rows


@pytest.mark.parametrize("changes", [{"age_s": None}, {"requests": []}, {"requests": {"x": 1}}])
def test_daemon_of_another_version_is_an_error(
    known: state.MountState, capfd: pytest.CaptureFixture[str], changes: dict[str, object]
) -> None:
    answer = json.dumps({"result": NUMBERS | changes}).encode() + b"\n"
    assert answered_with(known, answer, print_stats) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"ffrfs: {known.mountpoint}: the daemon has another version of ffrfs")
    assert len(err.splitlines()) == 1


def test_missing_socket_is_an_error_that_names_the_daemon(known: state.MountState) -> None:
    with pytest.raises(MountError, match=rf"cannot ask its daemon \(process {os.getpid()}\)"):
        control_client.ask(known.mountpoint, "stats")


@pytest.mark.parametrize("waiting", [0, 100])
def test_request_to_a_silent_daemon_times_out(known: state.MountState, waiting: int) -> None:
    with control_socket.listen(socket_path(known)) as listener:
        clients = []
        for _ in range(waiting):  # until the listener's queue is full
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            clients.append(client)
            if client.connect_ex(listener.getsockname()):
                break
        begin_s = time.monotonic()
        with pytest.raises(MountError, match=r"has not answered within 0\.3 s"):
            control_client.ask(known.mountpoint, "stats", timeout_s=0.3)
        assert time.monotonic() - begin_s < TIMEOUT_S
        for client in clients:
            client.close()
