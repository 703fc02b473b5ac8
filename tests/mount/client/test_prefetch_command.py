"""`ffrfs prefetch`: from arguments, files and pipes to the socket."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from ffrfs.cli.main import main
from ffrfs.mount.kernel import state
from tests.mount.command import wait_until
from tests.mount.hint_taker import TIMEOUT_S, HintTaker, receive, received
from tests.mount.waiting import sends

# Runs the command with another runtime directory.
PROGRAM = """
import sys
from ffrfs.cli.main import main
from ffrfs.mount.kernel import state
state.runtime_directories = lambda: [sys.argv[1]]
sys.exit(main(sys.argv[2:]))
"""


@dataclass
class Done:
    """The exit status of a command that has ended, and the hints that it sent."""

    status: int
    hints: bytes


def prefetch(known: state.MountState, taker: HintTaker, *arguments: str | Path) -> Done:
    statuses: list[int] = []
    command = ["prefetch", known.mountpoint, *map(str, arguments)]
    thread = threading.Thread(target=lambda: statuses.append(main(command)))
    thread.start()
    with taker.client() as client:
        hints = received(client)
    thread.join(TIMEOUT_S)
    return Done(statuses[0], hints)


@contextmanager
def running(
    known: state.MountState, source: int | IO[bytes] = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command, which reads paths from `source`."""
    directory = Path(known.mountpoint).parent
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, directory, "prefetch", known.mountpoint, "--from", "-"],
        stdin=source,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_paths_and_numbers(known: state.MountState, taker: HintTaker) -> None:
    place = known.mountpoint
    done = prefetch(known, taker, "a", "./d//b", f"{place}/c", "12", "0012", "./12", "/12", "1a")
    assert done == Done(0, b"/a\0/d/b\0/c\x0012\x0012\0/12\0/12\0/1a\0\0")


def test_mount_point_through_a_symlink(
    known: state.MountState, taker: HintTaker, tmp_path: Path
) -> None:
    Path(known.mountpoint).mkdir()
    link = tmp_path / "link"
    link.symlink_to(known.mountpoint)
    assert prefetch(known, taker, link / "d" / "a") == Done(0, b"/d/a\0\0")


@pytest.mark.parametrize("path", ["/usr/a", "../a", "d/../../a", "x" * 9000, ".", "/", ""])
def test_path_outside_the_mount_is_an_error(
    known: state.MountState, taker: HintTaker, capfd: pytest.CaptureFixture[str], path: str
) -> None:
    done = prefetch(known, taker, "a", path)
    assert done == Done(1, b"")  # the hint before the error is dropped
    (line,) = capfd.readouterr().err.splitlines()
    assert line.endswith(f": not in the mount at {known.mountpoint}")
    assert len(line) < 4300


FILES: dict[bytes, tuple[list[str], bytes]] = {
    b"a\nb c\n\n12\n": ([], b"/a\0/b c\x0012\0\0"),
    b"a\nb": ([], b"/a\0/b\0\0"),
    b"a\nb\0\0c\0": (["-0"], b"/a\nb\0/c\0\0"),
    b"a\0b": (["--null"], b"/a\0/b\0\0"),
    b"\xff\xfe\n": ([], b"/\xff\xfe\0\0"),
    b"": ([], b"\0"),
    b"\n\n": ([], b"\0"),
}


@pytest.mark.parametrize("content", FILES)
def test_file_of_paths(
    known: state.MountState, taker: HintTaker, tmp_path: Path, content: bytes
) -> None:
    options, hints = FILES[content]
    file = tmp_path / "list"
    file.write_bytes(content)
    assert prefetch(known, taker, *options, "--from", file) == Done(0, hints)
    assert prefetch(known, taker, "first", *options, "--from", file).hints == b"/first\0" + hints


def test_large_file_of_paths(known: state.MountState, taker: HintTaker, tmp_path: Path) -> None:
    file = tmp_path / "list"
    names = [b"folder %d/%s" % (i, b"x" * (1 + i % 300)) for i in range(20_000)]
    file.write_bytes(b"\n".join(names))
    done = prefetch(known, taker, "--from", file)
    assert done == Done(0, b"".join(b"/%s\0" % name for name in names) + b"\0")


def test_file_without_a_final_newline(
    known: state.MountState, taker: HintTaker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "list"
    file.write_bytes(b"x" * 1_000_000)
    assert prefetch(known, taker, "--from", file) == Done(1, b"")
    assert capfd.readouterr().err == (
        f"ffrfs: {file}: not a list of paths: one is longer than 64 KiB\n"
    )


@pytest.mark.parametrize("name", ["absent", "."])
def test_file_that_cannot_be_read(
    known: state.MountState,
    taker: HintTaker,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
) -> None:
    assert prefetch(known, taker, "--from", tmp_path / name) == Done(1, b"")
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"ffrfs: {tmp_path / name}: ")


def test_pipe_is_followed_line_by_line(known: state.MountState, taker: HintTaker) -> None:
    with running(known) as process, taker.client() as client:
        assert process.stdin is not None
        for i in range(50):
            process.stdin.write(b"%d/a\n" % i)
            process.stdin.flush()
            assert receive(client, len(b"/%d/a\0" % i)) == b"/%d/a\0" % i
        process.stdin.write(b"half")
        process.stdin.close()
        assert received(client) == b"/half\0\0"
        client.close()
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        place = known.mountpoint.encode()  # nothing is mounted there
        assert process.stderr.read() == (
            b"ffrfs: %s: was unmounted, so nothing reads these hints\n" % place
        )


ENDLESS = ["sh", "-c", "yes a/longer/path/than/most"]


@contextmanager
def endless() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(ENDLESS, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def resident_kb(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4


@pytest.mark.long
def test_any_number_of_hints_in_constant_memory(known: state.MountState, taker: HintTaker) -> None:
    size = len(b"/a/longer/path/than/most\0")
    with endless() as source, running(known, source.stdout) as process, taker.client() as client:
        receive(client, 10_000 * size)
        before = resident_kb(process.pid)
        receive(client, 200_000 * size)  # 5 MB
        wait_until(lambda: sends(process.pid), "it waits")
        assert resident_kb(process.pid) < before + 4096
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, err) == (130, b"ffrfs: interrupted\n")
        assert not received(client).endswith(b"\0\0")  # without the mark that would keep the hints


def test_nonblocking_pipe_is_followed(known: state.MountState, taker: HintTaker) -> None:
    theirs, ours = os.pipe()
    os.set_blocking(theirs, False)
    with (
        os.fdopen(ours, "wb", buffering=0) as pipe,
        os.fdopen(theirs) as source,
        running(known, source.fileno()),
        taker.client() as client,
    ):
        for name in (b"a", b"b"):  # the command may find the pipe empty before each name
            pipe.write(name + b"\n")
            assert receive(client, 3) == b"/" + name + b"\0"
        pipe.close()
        assert received(client) == b"\0"


def test_mount_that_ends_gives_one_error_line(known: state.MountState, taker: HintTaker) -> None:
    with running(known) as process:
        client = taker.client()
        assert process.stdin is not None
        process.stdin.write(b"a\n")
        process.stdin.flush()
        assert receive(client, 3) == b"/a\0"
        client.close()
        process.stdin.write(b"b\n")
        _, err = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 1
        assert err.decode().startswith(f"ffrfs: {known.mountpoint}: takes no more hints")
        assert err.count(b"\n") == 1


def test_path_without_a_mount_is_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["prefetch", str(tmp_path / "absent"), "a"]) == 1
    assert capfd.readouterr().err == f"ffrfs: {tmp_path / 'absent'}: not mounted\n"
