"""A fetcher is killed while packs are opened: opening takes longer, and goes on with another one.

Not here: the same while a tree is read (test_mount_faults.py, test_session.py).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ffrfs
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.mount_fetcher import MountFetcher
from ffrfs.mount.kernel.options import TreeOptions
from ffrfs.mount.kernel.process import Process
from ffrfs.remote.process import FetcherProcess
from ffrfs.remote.session import session, use_urls
from ffrfs.remote.settings import RemoteSettings
from tests.ffrecord_file import write_folder
from tests.interpreter import python
from tests.mount.command import Mount, is_fetcher, kill_group, start_ffrfs, wait_until
from tests.mount.makers import closing_mounts
from tests.remote.epoch import Epoch, read, write_files
from tests.remote.fetch_client import FetchClient
from tests.remote.running_fetcher import Start, content, put
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import Faulty, faulty

COUNT = 20
PATIENCE_S = 40.0  # less than the time-out, which must not be waited for
TIMEOUT_S = 60
KILLED = 3


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    folder = tmp_path_factory.mktemp("opening")
    (folder / "web").mkdir()
    for name in ("a", "b"):
        (folder / name).mkdir()
        write_files(folder / name / name, COUNT, 110_000)
        ffrfs.pack_folder(folder / name, folder / "web" / f"{name}.ffr")
        shutil.rmtree(folder / name)
    with faulty(folder / "web") as server:
        yield server


@pytest.fixture
def server(running: Faulty) -> Iterator[Faulty]:
    running.forget_counts()
    yield running
    running.mend()


@pytest.fixture
def tree(request: pytest.FixtureRequest, server: Faulty, tmp_path: Path) -> Iterator[Mount]:
    request.getfixturevalue("fuse")
    urls = [f"{server.url}/{name}.ffr" for name in ("a", "b")]
    with closing_mounts(tmp_path, tmp_path) as new:
        yield new(request.param, *urls)


def fetchers(tree: Mount) -> list[Process]:
    time.sleep(0.1)  # looking at all processes takes CPU
    return [process for process in tree.processes() if is_fetcher(process)]


def wait_for_answers(server: Faulty, count: int) -> None:
    wait_until(lambda: len(server.counts().requests) >= count, f"{count} answers", PATIENCE_S)


@pytest.mark.promise("S63")
@pytest.mark.parametrize(
    ("tree", "answers"), [("native", 0), ("native", 3), ("pyfuse3", 3)], indirect=["tree"]
)
def test_a_mount_goes_on_with_another_fetcher(
    tree: Mount, server: Faulty, tmp_path: Path, answers: int
) -> None:
    server.do(Kind.STALL, after=answers)
    words = ["--log-file", tree.log_file, "--cache-dir", tmp_path / "cache"]
    command = start_ffrfs(
        *("mount", *tree.engine_words, *words, "--remote-timeout", str(TIMEOUT_S)),
        *("--", *tree.packs, tree.path),
    )
    try:
        begun_s = time.monotonic()
        for turn in range(2):
            wait_for_answers(server, answers)
            wait_until(lambda: fetchers(tree), "a fetcher", PATIENCE_S)
            (fetcher,) = fetchers(tree)
            os.kill(fetcher.pid, signal.SIGKILL)
            wait_until(lambda: not fetcher.is_alive(), "killed", PATIENCE_S)  # noqa: B023
            assert command.poll() is None, f"nothing was killed while it opened: {turn}"
        server.mend()
        out, err = command.communicate(timeout=PATIENCE_S)
        assert (command.returncode, out, err) == (0, "", "")
        assert time.monotonic() - begun_s < TIMEOUT_S
    finally:
        if command.poll() is None:
            kill_group(command)
    tree.find_daemon()
    tree.expect_log("the fetcher has ended; another one takes over")
    assert tree.count_logged("the fetcher has ended; another one takes over") == 2
    for name in ("a", "b"):
        assert read(tree.path / name) == Epoch(COUNT, 0, {})


@pytest.mark.promise("S63")
@pytest.mark.parametrize("tree", ["native"], indirect=True)
def test_a_worker_that_opens_ends_with_its_daemon(
    tree: Mount, server: Faulty, tmp_path: Path
) -> None:
    server.do(Kind.STALL)
    words = ["--log-file", tree.log_file, "--cache-dir", tmp_path / "cache"]
    command = start_ffrfs("mount", *tree.engine_words, *words, "--", *tree.packs, tree.path)
    try:
        wait_until(lambda: len(fetchers(tree)) == 1, "a fetcher", PATIENCE_S)
        wait_until(lambda: workers(tree), "a worker", PATIENCE_S)
        left = [*workers(tree), *fetchers(tree)]
        os.kill(parent(left[0]), signal.SIGKILL)
        assert all(process.wait(PATIENCE_S) for process in left)
        _, err = command.communicate(timeout=PATIENCE_S)
        assert command.returncode != 0
        assert len(err.splitlines()) == 1, err
    finally:
        if command.poll() is None:
            kill_group(command)


def workers(tree: Mount) -> list[Process]:
    return [process for process in tree.processes() if name_of(process) == "ffrfs-worker"]


def name_of(process: Process) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process.pid}/comm").read_text().strip()
    return ""


def parent(process: Process) -> int:
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.promise("S63")
@pytest.mark.parametrize("answers", [0, 2])
def test_a_program_goes_on_with_another_fetcher(
    server: Faulty, tmp_path: Path, answers: int
) -> None:
    use_urls(RemoteSettings(cache_dir=str(tmp_path / "cache"), timeout_s=TIMEOUT_S))
    server.do(Kind.STALL, after=answers)
    try:
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(ffrfs.PackedFolder, f"{server.url}/a.ffr")
            pids = set()
            for _ in range(2):
                wait_for_answers(server, answers)
                wait_until(lambda: session.pid not in {None, *pids}, "a fetcher", PATIENCE_S)
                pids.add(session.pid)
                os.kill(session.pid, signal.SIGKILL)
                assert not opening.done()
            wait_until(
                lambda: session.pid not in pids or opening.done(), "another fetcher", PATIENCE_S
            )
            server.mend()
            folder = opening.result(PATIENCE_S)
        assert [len(folder[name]) for name in folder] == COUNT * [110_000]
    finally:
        session.configure(RemoteSettings())
        session.settings = None


def test_a_fetcher_that_is_about_to_end_gets_no_link(start: Start, tmp_path: Path) -> None:
    """A process that is killed may close its log a while before the socket of its links."""
    running = start()
    running.client().open(put(tmp_path, "a", content()))
    pid = running.process.pid
    os.kill(pid, signal.SIGSTOP)
    client = FetchClient(running.process.link(but=pid))
    running.clients.append(client)
    assert running.process.pid != pid
    assert client.read_all(client.open(f"file://{tmp_path}/a")) == content()
    other = running.process.pid
    again = FetchClient(running.process.link(but=pid))
    running.clients.append(again)
    assert running.process.pid == other


def test_fetchers_killed_before_they_have_a_link_are_replaced(tmp_path: Path) -> None:
    logs: list[int] = []

    def take_log(log: int) -> None:
        logs.append(log)
        if len(logs) <= KILLED:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    process = FetcherProcess(RemoteSettings(cache_dir=str(tmp_path / "cache")), take_log)
    try:
        client = FetchClient(process.link())
        assert client.read_all(client.open(put(tmp_path, "a", content()))) == content()
        client.close()
        assert len(logs) == KILLED + 1
    finally:
        process.close()
        for log in logs:
            os.close(log)


WITHOUT_DESCRIPTORS = """
import os, resource
from ffrfs.errors import RemoteError, is_shortage
from ffrfs.remote.process import FetcherProcess
from ffrfs.remote.settings import RemoteSettings
process = FetcherProcess(RemoteSettings(), os.close)
count = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 2, count + 2))
for _ in range(3):
    try:
        process.link()
    except RemoteError as error:
        assert is_shortage(error), error
        print(error)
"""


def test_a_fetcher_that_cannot_start_for_lack_of_descriptors() -> None:
    done = python("-c", WITHOUT_DESCRIPTORS, timeout=PATIENCE_S, check=True)
    text = (
        "the fetcher cannot be started: a pipe, a socket or a process: Too many open files; a proc"
    )
    assert done.stdout.count(text) == 3


WITHOUT_PROCESSES = """
import errno, os, sys
from ffrfs.cli.main import main
from ffrfs.remote import process
def refuse(*_, **__):
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))  # as fork() does
process.subprocess.Popen = refuse
sys.exit(main(["verify", *sys.argv[1:]]))
"""


def test_a_fetcher_that_cannot_start_is_reported_once(tmp_path: Path) -> None:
    urls = [write_folder(tmp_path / name, {"a": b""}).as_uri() for name in ("x.ffr", "y.ffr")]
    done = python("-c", WITHOUT_PROCESSES, *urls, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "ffrfs: the fetcher cannot be started: cannot start a process: all that are allowed are "
        "in use; raise the limit (ulimit -u, or TasksMax= of a service)\n"
    )


def test_a_fetcher_whose_log_cannot_be_followed_is_ended(tmp_path: Path) -> None:
    """For a while, the machine has no thread left that could follow the log."""
    logs: list[int] = []
    pids: list[int | None] = []

    def take_log(log: int) -> None:
        pids.append(process.pid)
        if len(pids) == 1:
            raise RuntimeError("can't start new thread")
        logs.append(log)

    process = FetcherProcess(RemoteSettings(cache_dir=str(tmp_path / "cache")), take_log)
    try:
        before = os.listdir("/proc/self/fd")
        with pytest.raises(RuntimeError):
            process.link()
        assert os.listdir("/proc/self/fd") == before
        client = FetchClient(process.link())
        assert client.read_all(client.open(put(tmp_path, "a", content()))) == content()
        client.close()
        assert not Path(f"/proc/{pids[0]}").exists()
    finally:
        process.close()
        for log in logs:
            os.close(log)


@pytest.fixture
def fetching(tmp_path: Path) -> Iterator[MountFetcher]:
    """The fetcher of a mount of the file "a"."""
    request = MountRequest(
        packs=(put(tmp_path, "a", content()),),
        mountpoint=str(tmp_path / "mnt"),
        options=TreeOptions(),
        cache_dir=str(tmp_path / "cache"),
    )
    fetching = MountFetcher(request)
    yield fetching
    fetching.close()


def read_and_close(links: list[int], tmp_path: Path) -> None:
    """Read the file through the last of these links."""
    try:
        client = FetchClient(links.pop())
        assert client.read_all(client.open(f"file://{tmp_path}/a")) == content()
        client.close()
    finally:
        for link in links:
            os.close(link)


def test_a_worker_gets_a_link_to_an_earlier_replacement_fetcher(
    fetching: MountFetcher, tmp_path: Path
) -> None:
    for _ in range(2):
        pid = fetching.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: fetching.pid not in (None, pid), "another", PATIENCE_S)  # noqa: B023
    links: list[int] = []
    fetching.bring_links_to(lambda link: links.append(os.dup(link)))
    wait_until(lambda: links, "a link", PATIENCE_S)
    read_and_close(links, tmp_path)


def test_the_old_worker_gets_a_link_if_its_successor_is_given_up(
    fetching: MountFetcher, tmp_path: Path
) -> None:
    links: dict[str, list[int]] = {"present": [], "next": []}

    def bring_to(worker: str) -> None:
        fetching.bring_links_to(lambda link: links[worker].append(os.dup(link)))

    bring_to("present")
    os.close(fetching.link_for_next())
    bring_to("next")
    assert fetching.pid is not None
    os.kill(fetching.pid, signal.SIGKILL)
    wait_until(lambda: links["next"], "a link", PATIENCE_S)
    bring_to("present")
    read_and_close(links["present"], tmp_path)
    os.close(links["next"].pop())
