"""The ffrfs command, and the mounts that a test makes with it.

Whatever a test does, close() leaves no mount, daemon or worker behind: it unmounts, lazily if
need be, and kills each process that does not end by itself, by its number.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL
from typing import Any

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client
from ffrfs.mount.kernel import kernel_mount, state
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.mountpoint import canonical
from ffrfs.mount.kernel.process import Process
from tests import uring_switch
from tests.mount.child import Caller, ask
from tests.mount.preloaded import preloaded
from tests.mount.waiting import of_threads, states

# After this time a test gives up, however busy the machine is.
TIMEOUT_S = 60.0

# Every test of this folder that takes `engine` runs once for each of these.
ENGINES = ["pyfuse3", "native"]
# Tests of the answers to requests also run with the native engine over io_uring.
WAYS = [*ENGINES, "uring"]


def engine_settings(engine: str) -> dict[str, Any]:
    """Return the settings of a mount by one of WAYS. "native" always uses /dev/fuse."""
    if engine == "pyfuse3":
        return {"engine": engine}
    return {"engine": "native", "transport": "uring" if engine == "uring" else "dev"}


def engine_words(engine: str) -> list[str]:
    """Return the same settings as arguments of `ffrfs mount`."""
    return [f"--{name}={value}" for name, value in engine_settings(engine).items()]


@dataclass
class Done:
    """A command that has ended."""

    status: int
    out: str
    err: str


def ffrfs(*arguments: str | os.PathLike[str], timeout_s: float = TIMEOUT_S, **more: Any) -> Done:
    """Run the command to its end; fails the test if that takes too long."""
    if more.keys() <= {"env"}:
        words = [os.fspath(argument) for argument in arguments]
        environment = dict(more.get("env", os.environ))
        if preloaded().can_run(words, environment):
            return Done(*preloaded().run(words, environment, timeout_s))
    process = start_ffrfs(*arguments, **more)
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        if process.poll() is None:
            kill_group(process)
    return Done(process.returncode, out, err)


def start_ffrfs(
    *arguments: str | os.PathLike[str], prefix: Sequence[str] = (), **more: Any
) -> subprocess.Popen[str]:
    more = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE} | more
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "ffrfs", *map(os.fspath, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **more,
    )


def kill_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=5)


def wait_until(condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
    begun_s = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - begun_s
        assert waited_s < timeout_s, f"waited {timeout_s:g} s in vain: {what}"
        time.sleep(0.02 if waited_s < 2 else 0.1)  # the condition may cost a daemon CPU time


class Mount:
    """One mount under test."""

    def __init__(
        self, engine: str, packs: Sequence[Path], mountpoint: Path, log_file: Path
    ) -> None:
        self.engine = engine
        self.packs = packs
        self.path = Path(canonical(str(mountpoint)))
        self._given_path = mountpoint
        self.log_file = log_file
        self.process: Process | None = None  # the daemon
        self.guardian: Process | None = None  # starts another daemon, if the engine has a worker
        self.worker: Process | None = None  # the daemon's child, if the engine has one
        self.fetchers: list[Process] = []  # further children, if a pack is at a URL
        self._expected: list[str] = []
        self._log_before_kill: str | None = None
        self._caller = Caller()

    @property
    def pack(self) -> Path:
        """The only pack, or the first."""
        return self.packs[0]

    @property
    def engine_words(self) -> list[str]:
        return engine_words(self.engine)

    def mount(self, *arguments: str, **more: Any) -> Done:
        """Run `ffrfs mount` with these further arguments."""
        if self.engine == "uring":
            uring_switch.keep_on()
        done = ffrfs(
            "mount",
            *self.engine_words,
            *("--log-file", self.log_file),
            *arguments,
            "--",
            *self.packs,
            self._given_path,
            **more,
        )
        self.find_daemon()
        return done

    def find_daemon(self) -> None:
        found = state.find(str(self.path))
        self.process = found[1].process if found else None
        self.guardian = found[1].guardian if found else None
        found = children(self.process) if self.process else []
        found = [child for child in found if not is_guardian(child)]
        self.fetchers = [child for child in found if is_fetcher(child)]
        self.worker = next((child for child in found if child not in self.fetchers), None)

    def __truediv__(self, path: str) -> str:
        return str(self.path / path)

    def ask(self, function: Callable[..., Any], path: str, *arguments: Any, **more: Any) -> Any:
        """Let a child call a function of probes.py on `path` of this mount."""
        asked = ask if "user_id" in more else self._caller.ask
        return asked(function, self / path, *arguments, **more)

    @property
    def is_mounted(self) -> bool:
        return mount_at(str(self.path)) is not None

    @property
    def is_served(self) -> bool:
        return self.process is not None and self.process.is_alive()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop daemon and worker for a while: they live, but answer nothing."""
        served_by = [process for process in (self.process, self.worker) if process]
        assert served_by
        for process in served_by:
            stop(process.pid)
        try:
            yield
        finally:
            for process in served_by:
                os.kill(process.pid, signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send a signal to the daemon alone."""
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """Kill the daemon so that no other one takes over."""
        assert self.process is not None
        kill_for_good(self.process.pid)

    def wait_for_daemon(self, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until the daemon and its worker have ended."""
        assert self.process is not None
        assert self.process.wait(timeout_s), "the daemon has not ended"
        assert self.worker is None or self.worker.wait(timeout_s), "the worker has not ended"

    def requests(self) -> dict[str, int]:
        """Return how many requests of each kind the kernel has sent so far.

        A request is counted after its answer, which the reader may get before that; and the
        kernel does not wait for all answers. So wait until the numbers no longer change.
        """
        before = None
        while (found := self.requests_now()) != before:
            before = found
            time.sleep(0.05)
        return found

    def requests_now(self) -> dict[str, int]:
        requests: Any = self.statistics()["requests"]
        return {kind: times["count"] for kind, times in requests.items()}

    def statistics(self) -> dict[str, Any]:
        """Return the statistics as `ffrfs stats --json` shows them, without touching the mount."""
        return control_client.ask(str(self.path), "stats", TIMEOUT_S)

    def checked(self, status: int, *words: str, timeout_s: float = TIMEOUT_S) -> str:
        """Return the line of `ffrfs check`, once it has this status and these words.

        On a busy machine an answer may be late: each check waits less than a second.
        """
        found: list[Done] = []

        def is_so() -> bool:
            found.append(ffrfs("check", self.path))
            return found[-1].status == status and all(word in found[-1].out for word in words)

        wait_until(is_so, f"{status} {words}", timeout_s)
        assert found[-1].err == ""
        (line,) = found[-1].out.splitlines()
        assert line.startswith(f"{['OK', 'WARNING', 'CRITICAL'][status]} {self.path}: ")
        return line

    def replace_worker(self, number: int = SIGKILL) -> None:
        """Kill the native engine's worker, and wait until another one serves."""
        before = self.statistics()["worker"]["starts"]
        os.kill(self.statistics()["worker_pid"], number)
        wait_until(lambda: self.statistics()["worker"]["starts"] > before, "another worker serves")

    @staticmethod
    def _kill_worker(pid: int | None) -> None:
        """Kill the worker, unless it died with an earlier daemon and is not replaced yet."""
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def signal_daemon(self, number: int) -> None:
        """Send a signal to the daemon that serves now, which need not be the first."""
        os.kill(self.statistics()["daemon_pid"], number)

    def replace_daemon(self, *, with_worker: bool = False) -> None:
        """Kill the daemon, and wait until another one takes over the mount."""
        found = self.statistics()
        if with_worker:
            stop(found["daemon_pid"])  # otherwise it would replace the worker itself
            self._kill_worker(found["worker_pid"])
        os.kill(found["daemon_pid"], signal.SIGKILL)
        before = found["daemon_starts"]
        wait_until(lambda: self.statistics()["daemon_starts"] > before, "another daemon serves")

    def wait_until_anew(self, count: int = 1) -> None:
        """Wait until it was made again, or taken over by another daemon, so many times."""
        wait_until(lambda: self.log().count(": mounted at ") > count, "it is mounted anew")

    def peak_memory_mb(self) -> float:
        """Return the sum of the peaks of daemon and worker."""
        kilobytes = 0
        for process in (self.process, self.worker):
            if process is not None:
                status = Path(f"/proc/{process.pid}/status").read_text()
                kilobytes += int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0])
        return kilobytes / 1024

    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""

    def count_logged(self, text: str) -> int:
        """Return how often the text is in the log, once it is: a worker's lines come late."""
        wait_until(lambda: text in self.log(), f"{text} is logged")
        return self.log().count(text)

    def expect_log(self, pattern: str) -> None:
        """Expect this warning or error, which must be in the log at the end."""
        self._expected.append(pattern)

    def hint_too_large(self, name: str) -> None:
        """Hint a file that no cache of this size holds, and wait for the warning in the log.

        The warning comes only once, and a flood of random hints may cause it or not.
        """
        self.expect_log("hinted files of more than [0-9,]+ bytes are not read ahead")
        assert ffrfs("prefetch", self.path, name).status == 0
        self.count_logged("are not read ahead")

    def check_log(self) -> None:
        """Fail on a WARNING or worse that was not expected, or if an expected one is missing.

        Lines that other processes log about one that close() had to kill do not count.
        """
        log = self.log() if self._log_before_kill is None else self._log_before_kill
        lines = re.findall(r"^.* (?:WARNING|ERROR|CRITICAL) .*$", log, re.MULTILINE)
        for pattern in self._expected:
            assert any(re.search(pattern, line) for line in lines), f"no {pattern} in: {log}"
        unexpected = [line for line in lines if not any(re.search(p, line) for p in self._expected)]
        assert not unexpected, log  # the whole log, for the traceback of a crash
        if not any("Traceback" in pattern for pattern in self._expected):
            assert "Traceback" not in log, log

    def close(self) -> None:
        """Leave nothing behind, whatever state the mount is in."""
        self._caller.close()
        while self.is_mounted:
            with contextlib.suppress(MountError):  # its daemon has just unmounted it
                kernel_mount.detach(str(self.path))
        for process in self.processes():
            if not process.wait(5):
                if self._log_before_kill is None:
                    self._log_before_kill = self.log()
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                process.wait(5)
        found = state.find(str(self.path))  # the state of a daemon that was killed
        if found is not None and found[1].process.wait(5) and not found[1].is_guarded:
            state.release(*found)

    def remove_kept(self) -> None:
        """Remove the files kept for a week: each mount looks at all of them, 1000 at most."""
        for directory in state.runtime_directories():
            log = state.log_path(directory, str(self.path))
            for suffix in state.KEPT:
                Path(log.removesuffix(state.LOG) + suffix).unlink(missing_ok=True)

    def processes(self) -> list[Process]:
        """Return the workers, and the daemons found by command line: some may never have
        mounted anything."""
        word, place = os.fsencode(self.log_file), os.fsencode(self.path)
        found = []
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
                    words = file.read().split(b"\0")
                if word in words or (b"ffrfs.mount.daemon.resume" in words and place in words):
                    process = Process.of(int(pid))
                    found += [process, *children(process)] if process else []
        if self.worker is not None and self.worker not in found and self.worker.is_alive():
            found.append(self.worker)  # its daemon is dead
        return found


def children(process: Process) -> list[Process]:
    """Return the live processes that it has started itself."""
    pids = " ".join(of_threads(process.pid, "children")).split()
    return [child for child in (Process.of(int(pid)) for pid in pids) if child is not None]


def kill_for_good(daemon: int) -> None:
    """Kill a daemon so that no other one takes over: its guardian dies first."""
    stop(daemon)  # otherwise it would start another guardian
    for child in children(Process(daemon, 0)):
        if is_guardian(child) and "--if-stuck" not in words_of(child):
            os.kill(child.pid, signal.SIGKILL)
            assert child.wait(TIMEOUT_S)
    os.kill(daemon, signal.SIGKILL)


def is_guardian(process: Process) -> bool:
    words = words_of(process)
    return bool(words) and words[0].endswith("/ffrfs-guardian")


def is_worker(process: Process) -> bool:
    return "".join(words_of(process)[:1]).endswith("/ffrfs-worker")


def words_of(process: Process) -> list[str]:
    """Return its command line, which is empty if it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return os.fsdecode(Path(f"/proc/{process.pid}/cmdline").read_bytes()).split("\0")
    return []


def is_fetcher(process: Process) -> bool:
    return "ffrfs.remote.object_fetcher" in words_of(process)


def stop(pid: int) -> None:
    """Send SIGSTOP, and wait until no thread runs: all run on until one takes the signal.

    A thread that waits for a disk stops when the disk answers.
    """
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: states(pid) <= {"T", "D"}, "stopped")


def mount_command_fails(done: Done, status: int, *words: str) -> None:
    """Check that the command failed as it should, with one line that has these words."""
    assert done.status == status, done
    assert done.out == ""
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("ffrfs: ")
    for word in words:
        assert word in lines[0]


# The errors that a reader may get once daemon or worker are gone. ECANCELED: its request was
# on its way into a ring of io_uring.
ENDED = (errno.ENOTCONN, errno.ECONNABORTED, errno.ECANCELED, errno.EIO)


def check_nothing_left(tree: Mount) -> None:
    tree.wait_for_daemon()
    assert not tree.is_mounted
    assert not tree.path.exists()
    assert state.find(str(tree.path)) is None
