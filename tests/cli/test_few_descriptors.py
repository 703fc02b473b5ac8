"""A process that may open few files: errors name the file, the limit, and a way out."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread, stack_size

import pytest

from ffrfs.errors import _NO_THREAD, MountError, describe, from_fields
from ffrfs.mount.client import health
from tests.cli.command_run import Run
from tests.ffrecord_file import write_folder
from tests.interpreter import python

SHARD_COUNT = 24
# Fewer than the shards, and more than Python itself opens.
LIMIT = 16
WITHOUT_CALL = Path(__file__).parents[1] / "mount" / "without_call.py"


def run(
    *arguments: str | Path, limit: int = LIMIT, hard: int | None = None
) -> subprocess.CompletedProcess[str]:
    limits = (limit, limit if hard is None else hard)
    return python(
        *("-m", "ffrfs", *arguments),
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
    )


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(SHARD_COUNT):
        write_folder(folder / f"{number:02d}.ffr", {f"d{number}": {"a": b"content"}})
    return folder


def advice(limit: int = LIMIT) -> str:
    return f"Too many open files; a process may have {limit} here: raise that limit (ulimit -n"


@pytest.mark.parametrize("command", ["ls -R", "info", "verify", "extract", "cat", "mount --check"])
def test_more_shards_than_allowed_descriptors(shards: Path, tmp_path: Path, command: str) -> None:
    more = {
        "extract": [tmp_path / "out"],
        "cat": ["d1/a"],
        "mount --check": [tmp_path / "mountpoint"],
    }
    done = run(*command.split(), shards, *more.get(command, []))
    assert done.returncode in (1, 2), done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()  # not one for each shard
    assert line.startswith((f"ffrfs: {shards}/", "ffrfs: eventfd: "))
    assert "no good" not in line
    assert advice() in line


def test_allow_missing_does_not_hide_a_lack_of_descriptors(shards: Path, tmp_path: Path) -> None:
    done = run("mount", "--check", "--allow-missing", shards, tmp_path / "mountpoint")
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert advice() in line


def test_the_soft_limit_is_raised(shards: Path) -> None:
    done = run("verify", "-q", shards, hard=256)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long
@pytest.mark.parametrize("limit", range(6, 16, 3))
def test_every_error_names_its_object_and_the_limit(tmp_path: Path, limit: int) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "a").write_bytes(b"content")
    for arguments in (
        ("pack", "--shards", "2", folder, tmp_path / "shards"),
        ("convert", folder, tmp_path / "x.tfrecord"),
        ("mount", "--check", write_folder(tmp_path / "x.ffr", {"a": b""}), tmp_path / "place"),
    ):
        done = run(*arguments, limit=limit)
        if done.returncode == 0 or "Too many open files" not in done.stderr:
            continue
        (line,) = done.stderr.splitlines()
        assert "Errno" not in line
        assert advice(limit) in line
        assert not line.startswith("ffrfs: Too many")


def test_description_of_an_exception_group_is_that_of_its_first() -> None:
    group = ExceptionGroup("Exceptions from Trio nursery", [MountError("/m: refused")])
    assert describe(group) == "/m: refused"
    assert describe(BaseExceptionGroup("outer", [group])) == "/m: refused"


def test_description_advises_which_limit_to_raise() -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    many = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    assert describe(many).startswith(
        f"a pipe, a socket or a process: Too many open files; a process may have {limit:,} here"
    )
    many = OSError(errno.EMFILE, "cannot open: Too many open files", b"/a")
    assert describe(many).startswith("/a: cannot open: Too many open files; a process may have ")
    full = OSError(errno.ENFILE, os.strerror(errno.ENFILE), "/a")
    assert describe(full) == (
        "/a: Too many open files in system; all processes together have as many as the system "
        "allows: raise fs.file-max"
    )
    assert describe(PermissionError(errno.EPERM, "Operation not permitted")) == (
        "Operation not permitted"
    )


def test_a_command_that_cannot_start_a_thread(ffrfs: Run, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "a").write_bytes(b"content")
    plan = tmp_path / "plan"
    words = ("--shards", "1", tmp_path / "source", tmp_path / "set")
    assert ffrfs("cluster", "plan", plan, *words).status == 0
    with without_threads():
        done = ffrfs("cluster", "run", plan, "--task", "0/1")
    assert done.complaint.startswith("cannot start a thread: all that are allowed are in")


# The command can fork a child, but that child cannot fork.
FORKS_ONCE = """
import errno, os, sys
from ffrfs.cli.main import main
fork, own = os.fork, os.getpid()
def fork_once():
    if os.getpid() != own:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()
os.fork = fork_once
sys.exit(main(sys.argv[1:]))
"""
NO_FORK = [WITHOUT_CALL, "clone=EAGAIN", sys.executable, "-m", "ffrfs"]


@pytest.mark.parametrize(
    ("program", "command", "status"),
    [(NO_FORK, "mount", 1), (["-c", FORKS_ONCE], "mount", 2), (NO_FORK, "check", 2)],
)
def test_a_command_that_cannot_start_a_process(
    tmp_path: Path, program: list[str | Path], command: str, status: int
) -> None:
    packs = [write_folder(tmp_path / "x.ffr", {"a": b""})] if command == "mount" else []
    done = python(*program, command, *packs, tmp_path / "place", stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == (
        "ffrfs: cannot start a process: all that are allowed are in use; raise the limit "
        "(ulimit -u, or TasksMax= of a service)\n"
    )


@pytest.mark.parametrize("shortage", [MemoryError(), RuntimeError("can't start new thread")])
def test_a_check_without_memory_is_critical(
    ffrfs: Run, monkeypatch: pytest.MonkeyPatch, shortage: Exception
) -> None:
    def fail(_: object) -> None:
        raise shortage

    monkeypatch.setattr(health, "check_mounts", fail)
    done = ffrfs("check", "/mnt")
    assert (done.status, done.err.count("\n")) == (2, 1)


def test_description_of_a_shortage() -> None:
    assert describe(MemoryError()) == "out of memory"
    assert describe(MemoryError("Unable to allocate 1 GiB")) == "Unable to allocate 1 GiB"
    with pytest.raises(RuntimeError) as caught, without_threads():
        Thread(target=str).start()
    assert describe(caught.value).startswith("cannot start a thread: all that are allowed are in")
    assert describe(RuntimeError("oh")) == "RuntimeError: oh"


@pytest.mark.parametrize(("kind", "how"), [("AS", "ulimit -v"), ("DATA", "ulimit -d")])
def test_description_of_no_room_for_the_stack_of_a_thread(
    monkeypatch: pytest.MonkeyPatch, kind: str, how: str
) -> None:
    """The kernel's error is the same as for too many threads."""
    limits = {getattr(resource, f"RLIMIT_{kind}"): (60_000_000, 60_000_000)}
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits.get(kind, unlimited))
    python = RuntimeError("can't start new thread")
    text = "cannot start a thread: a process may have 60,000,000 bytes of memory here; raise that"
    assert describe(python).startswith(f"{text} limit ({how}")
    # The text that native/io/error.cc has.
    native = from_fields("OSError", _NO_THREAD, "", None, errno.EAGAIN)
    assert describe(native) == describe(python)


@contextmanager
def without_threads() -> Iterator[None]:
    """Threads cannot start, as at the limit of tasks: no memory has room for their stacks."""
    before = stack_size(1 << 46)
    try:
        yield
    finally:
        stack_size(before)


def test_description_of_a_limit_of_the_size_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = iter([(4096, 4096), (resource.RLIM_INFINITY,) * 2])
    monkeypatch.setattr(resource, "getrlimit", lambda _: next(limits))
    large = OSError(errno.EFBIG, "cannot write: File too large", "/a")
    assert describe(large).startswith(
        "/a: cannot write: File too large; a process may write files of at most 4,096 bytes here"
    )
    assert describe(large) == "/a: cannot write: File too large"  # the file system's limit


def test_description_of_a_working_directory_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    assert describe(missing) == "No such file or directory"
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert describe(missing).startswith("the working directory was removed; change")
