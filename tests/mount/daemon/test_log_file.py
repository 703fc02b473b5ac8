"""A daemon logs only to a regular file that answers, and never waits for anything else."""

from __future__ import annotations

import fcntl
import logging
import os
import select
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ffrfs.errors import FileSystemHangsError, OptionError
from ffrfs.mount.daemon.log_file import LogFile, OwnLogFile, Target
from ffrfs.mount.daemon.log_writer import LINES_MAX, LogWriter
from ffrfs.mount.daemon.output_file import open_to_append, refuse_to_replace, within_limit
from tests.mount import probes
from tests.mount.command import (
    Mount,
    check_nothing_left,
    ffrfs,
    kill_group,
    mount_command_fails,
    start_ffrfs,
    wait_until,
)
from tests.mount.daemon.test_reload import Configured, configured
from tests.mount.makers import MakeMount, PackTree

TREE = {"a": b"alpha" * 1000}
NOT_FILES = {"pipe": "a pipe", "socket": "a socket", "folder": "a directory", "device": "a device"}

__all__ = ["configured"]  # a fixture


@pytest.fixture(params=NOT_FILES)
def not_a_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / request.param
    match request.param:
        case "pipe":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        case "folder":
            path.mkdir()
        case "device":
            if os.geteuid() != 0:
                pytest.skip("only root can make a device")
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # the device of /dev/zero
    kind = stat.S_IFMT(path.lstat().st_mode)
    yield path
    assert stat.S_IFMT(path.lstat().st_mode) == kind


def check_refused(tree: Mount, *arguments: str | Path, words: tuple[str, ...]) -> None:
    done = ffrfs("mount", *tree.engine_words, *arguments, tree.pack, tree.path, timeout_s=40)
    mount_command_fails(done, 1, *words)
    assert not tree.is_mounted
    assert not tree.path.exists()


@pytest.mark.promise("S16")
@pytest.mark.parametrize("only_check", [False, True])
def test_pack_is_refused_as_the_log_file(
    new_mount: MakeMount, pack_tree: PackTree, only_check: bool
) -> None:
    tree = new_mount(pack_tree(TREE))
    before = tree.pack.read_bytes()
    arguments = ["--check"] if only_check else []
    words = (str(tree.pack), "exists (a pack of 1 record), and is not a log; name another file")
    check_refused(tree, *arguments, "--log-file", tree.pack, words=words)
    assert tree.pack.read_bytes() == before


def test_log_damaged_by_a_crash_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for content in (b"", b"a line\n", b"a line\n" + bytes(5000), bytes(5000)):
        path.write_bytes(content)
        os.close(open_to_append(str(path)))


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0, 0o644)])
def test_mode_of_the_log_file_follows_the_umask(
    new_mount: MakeMount, pack_tree: PackTree, umask: int, mode: int
) -> None:
    tree = new_mount(pack_tree(TREE))
    words = (*tree.engine_words, "--log-file", str(tree.log_file), str(tree.pack), str(tree.path))
    process = start_ffrfs("mount", *words, umask=umask)
    assert process.communicate(timeout=60) == ("", "")
    tree.find_daemon()
    assert stat.S_IMODE(tree.log_file.stat().st_mode) == mode


@pytest.mark.promise("S16")
@pytest.mark.parametrize("option", ["--log-file", "--metrics-file"])
@pytest.mark.parametrize("only_check", [False, True])
def test_anything_but_a_regular_file_is_refused(
    new_mount: MakeMount, pack_tree: PackTree, not_a_file: Path, option: str, only_check: bool
) -> None:
    tree = new_mount(pack_tree(TREE))
    words = (str(not_a_file), "must be a regular file", NOT_FILES[not_a_file.name])
    arguments = ["--check"] if only_check else []
    check_refused(tree, *arguments, option, not_a_file, words=words)


def test_pipe_with_a_reader_is_refused_too(
    new_mount: MakeMount, pack_tree: PackTree, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        tree = new_mount(pack_tree(TREE))
        check_refused(tree, "--log-file", tmp_path / "pipe", words=("is a pipe",))
    finally:
        os.close(reading)


@pytest.mark.long
@pytest.mark.promise("S16")
@pytest.mark.parametrize("option", [[], ["--check"]], ids=["mount", "check"])
def test_log_on_a_file_system_that_hangs_is_refused(
    mount: MakeMount, new_mount: MakeMount, pack_tree: PackTree, option: list[str]
) -> None:
    """A mount waits five seconds for the file system."""
    hanging = mount(pack_tree(TREE))
    tree = new_mount(hanging.pack)
    log_file = hanging / "log"
    with hanging.stopped():
        words = (log_file, "its file system has not answered for 5 s")
        check_refused(tree, *option, "--log-file", log_file, words=words)


@contextmanager
def full_pipe() -> Iterator[int]:
    """Yield the end to write to of a full pipe that nobody reads."""
    reading, writing = os.pipe()
    flags = fcntl.fcntl(writing, fcntl.F_GETFL)
    fcntl.fcntl(writing, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, b"\n" * 4096)
    fcntl.fcntl(writing, fcntl.F_SETFL, flags)
    try:
        yield writing
    finally:
        os.close(reading)
        os.close(writing)


def test_full_stderr_pipe_does_not_block_the_daemon(
    new_mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree(TREE))
    with full_pipe() as pipe:
        process = start_ffrfs(
            *("mount", "-f", *tree.engine_words, tree.pack, tree.path), stderr=pipe
        )
        try:
            wait_until(lambda: tree.is_mounted, "mounted")
            tree.find_daemon()
            assert tree.ask(probes.read, "a") == TREE["a"]
            wait_until(lambda: tree.statistics()["requests"]["read"]["count"] > 0, "counted")
            done = ffrfs("umount", tree.path)
            assert (done.status, done.err) == (0, "")
            assert process.wait(20) == 0
        finally:
            kill_group(process)
    assert not tree.path.exists()


def test_pipe_in_place_of_the_log_does_not_block_the_daemon(
    mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = mount(pack_tree(TREE))
    moved = tree.log_file.with_suffix(".moved")
    tree.log_file.rename(moved)
    os.mkfifo(tree.log_file)
    tree.signal(signal.SIGTERM)  # the daemon logs the signal
    check_nothing_left(tree)
    tree.log_file.unlink()
    assert "mounted at" in moved.read_text()


@pytest.mark.promise("S49")
@pytest.mark.parametrize("setting", ["log_file", "metrics_file"])
def test_reload_refuses_a_pipe_as_a_log_or_metrics_file(
    configured: Configured, tmp_path: Path, setting: str
) -> None:
    tree = configured.tree
    configured.begin()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    tree.expect_log(f"file is not changed: {pipe}: must be a regular file, but is a pipe")
    configured.change(**{setting: str(pipe)})
    assert tree.ask(probes.read, "a") == TREE["a"]
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


@pytest.mark.long
@pytest.mark.promise("S49")
def test_reload_gives_up_a_log_on_a_hanging_file_system(
    configured: Configured, mount: MakeMount
) -> None:
    """The daemon waits five seconds for a file system."""
    tree = configured.tree
    hanging = mount(tree.pack)
    configured.begin()
    tree.expect_log("the log file is not changed: .*: its file system has not answered for 5 s")
    configured.write(log_file=hanging / "log")
    with hanging.stopped():
        tree.signal(signal.SIGHUP)
        wait_until(lambda: "reading the configuration again" in tree.log(), "begun")
        assert tree.ask(probes.read, "a") == TREE["a"]  # the mount serves meanwhile
        wait_until(lambda: tree.statistics()["requests"]["read"]["count"] > 0, "counted")
        wait_until(lambda: "reloaded" in tree.log(), "reloaded")


class Pipe(Target):
    """A target of lines that is as slow as the reader of the pipe."""

    def __init__(self, fd: int) -> None:
        super().__init__(os.dup(fd))
        self.is_closed = threading.Event()

    def finish(self) -> None:
        super().finish()
        self.is_closed.set()


def line(text: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text, "levelno": logging.INFO, "levelname": "INFO"})


def test_line_is_written_and_closing_twice_is_harmless() -> None:
    reading, writing = os.pipe()
    target = Pipe(writing)
    writer = LogWriter(target, logging.Formatter())
    try:
        writer.handle(line("first"))
        assert select.select([reading], [], [], 20)[0]
        assert os.read(reading, 100) == b"first\n"
        writer.close()
        assert target.is_closed.is_set()
        writer.close()  # the logging module closes it again at the end
    finally:
        os.close(reading)
        os.close(writing)


def test_log_file_is_reopened_when_its_path_is_free_again(tmp_path: Path) -> None:
    path, moved = tmp_path / "log", tmp_path / "moved"
    file = LogFile(str(path))
    path.rename(moved)
    os.mkfifo(path)
    for _ in range(2):
        with pytest.raises(OptionError, match="is a pipe"):
            file.emit(line("lost"))
    path.unlink()
    for text in ("one", "two"):
        file.emit(line(text))
    file.finish()
    assert (path.read_text(), moved.read_text()) == ("one\ntwo\n", "")


@pytest.mark.parametrize("is_own", [False, True])
def test_crash_traceback_goes_to_the_current_log_file(tmp_path: Path, is_own: bool) -> None:
    """The old file does not stay open, either: it may be in memory (/run)."""
    path = tmp_path / "log"
    file = OwnLogFile(str(path), 1) if is_own else LogFile(str(path))
    for _ in range(2):
        file.emit(line("one"))
        if not is_own:
            path.unlink()
    file.emit(line("last"))
    os.write(file.crash_fd, b"crash\n")
    assert not os.get_inheritable(file.crash_fd)
    file.finish()
    assert path.read_text() == "last\ncrash\n"


def test_lines_beyond_the_queue_limit_are_dropped_and_counted() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, True)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    target = Pipe(writing)
    writer = LogWriter(target, logging.Formatter())
    for _ in range(LINES_MAX + 1000):  # a write of each to the pipe would wait for ever
        writer.handle(line("x" * 100))
    text = ""
    with open(reading, encoding="ascii") as pipe:
        while "lines of the log were lost" not in text:
            text += pipe.readline()
            writer.handle(line("more"))
        closing = threading.Thread(target=writer.close)
        closing.start()
        while not target.is_closed.is_set():
            if select.select([reading], [], [], 0.01)[0]:
                os.read(reading, 65536)
        closing.join()
    os.close(writing)


def test_hanging_target_does_not_delay_the_end() -> None:
    with full_pipe() as pipe:
        writer = LogWriter(Pipe(pipe), logging.Formatter())
        writer.handle(line("never written"))
        writer.close()


def test_result_that_comes_too_late_is_released() -> None:
    go, closed = threading.Event(), threading.Event()
    with pytest.raises(FileSystemHangsError, match="place: its file system has not answered"):
        within_limit("place", go.wait, late=lambda _: closed.set(), limit_s=0.05)
    go.set()
    assert closed.wait(20)
    assert within_limit("place", lambda: 5) == 5
    with pytest.raises(ValueError, match="invalid literal"):
        within_limit("place", lambda: int("x"))


def test_null_device_is_never_replaced() -> None:
    with pytest.raises(OptionError, match="/dev/null: is a device"):
        refuse_to_replace("/dev/null")
    log = LogFile("/dev/null")
    for _ in range(2):
        log.emit(line("nobody reads this"))
    log.finish()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
