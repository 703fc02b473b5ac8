"""URLs in programs that use the Python API: one fetcher for each, even if it forks or one dies."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from ffrfs.remote.session import session
from tests.interpreter import python
from tests.mount.command import wait_until
from tests.remote.fetch_client import FetchClient
from tests.remote.reading import reading_urls
from tests.remote.running_fetcher import Start, content, put
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import faulty

BEGIN = """
import json, os, signal, sys, time
import ffrfs
from ffrfs.remote.session import session
url = sys.argv[1]
def tell(**found): print(json.dumps(found), flush=True)
def read(folder): return sum(len(folder[name]) for name in folder)
"""
Program = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("packed")
    (folder / "source").mkdir()
    for number in range(40):
        (folder / "source" / f"{number}").write_bytes(content(100_000, number))
    ffrfs.pack_folder(folder / "source", folder / "tree.ffr")
    return f"file://{folder}/tree.ffr"


@pytest.fixture
def program(url: str, tmp_path: Path) -> Program:
    """Runs lines in a new interpreter; returns the arguments of their last tell(), and stderr."""

    def run(lines: str, **environment: str) -> dict[str, Any]:
        done = python(
            *("-W", "error", "-c", BEGIN + lines, url),
            env=os.environ | {"FFRFS_CACHE_DIR": str(tmp_path / "cache")} | environment,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found | {"stderr": done.stderr}

    return run


def wait_for_end(pid: int) -> None:
    wait_until(lambda: not os.path.exists(f"/proc/{pid}/cmdline"), "it has ended", 60)


def test_a_program_that_names_no_url_has_no_fetcher(program: Program) -> None:
    found = program("tell(pid=session.pid, loaded='asyncio' in sys.modules)")
    assert (found["pid"], found["loaded"], found["stderr"]) == (None, False, "")


def test_a_fetcher_serves_all_urls_and_ends_with_its_program(program: Program) -> None:
    found = program(
        "a = read(ffrfs.PackedFolder(url)); pid = session.pid\n"
        "b = read(ffrfs.PackedFolder(url)); tell(a=a, b=b, pid=pid, same=session.pid == pid)"
    )
    assert (found["a"], found["b"], found["same"]) == (4_000_000, 4_000_000, True)
    wait_for_end(found["pid"])
    assert found["stderr"] == ""


def test_a_fetcher_ends_with_a_program_that_is_killed(program: Program, url: str) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            BEGIN + "read(ffrfs.PackedFolder(url)); tell(pid=session.pid); time.sleep(60)",
            url,
        ],
        stdout=subprocess.PIPE,
        env=os.environ | {"FFRFS_CACHE_MODE": "stream"},
    )
    try:
        assert process.stdout is not None
        pid = json.loads(process.stdout.readline())["pid"]
    finally:
        process.kill()
        process.communicate()
    wait_for_end(pid)


def test_a_program_whose_fetcher_is_killed_reads_on(program: Program) -> None:
    found = program(
        "folder = ffrfs.PackedFolder(url); names = list(folder); pids = {session.pid}\n"
        "for name in names[::8]:\n"
        "    os.kill(session.pid, signal.SIGKILL)\n"
        "    assert len(folder[name]) == 100_000\n"
        "    assert len(ffrfs.PackedFolder(url)[name]) == 100_000\n"
        "    pids.add(session.pid)\n"
        "tell(count=len(pids))",
        FFRFS_CACHE_MODE="stream",
    )
    assert found["count"] >= 3


def test_children_read_on_with_the_fetcher_of_their_parent(program: Program) -> None:
    found = program(
        "folder = ffrfs.PackedFolder(url); pid = session.pid; names = list(folder)\n"
        "children = []\n"
        "for number in range(3):\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        right = read(folder) == read(ffrfs.PackedFolder(url)) == 4_000_000\n"
        "        os._exit(0 if right else 1)\n"
        "    children.append(child)\n"
        "ended = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]\n"
        "tell(ended=ended, same=session.pid == pid, read=read(folder))",
        FFRFS_CACHE_MODE="stream",
    )
    assert (found["ended"], found["same"], found["read"]) == ([0, 0, 0], True, 4_000_000)


def test_a_child_outlives_its_parent(program: Program, tmp_path: Path) -> None:
    told = tmp_path / "told"
    program(
        "folder = ffrfs.PackedFolder(url); read(folder)\n"
        "if not os.fork():\n"
        "    parent = os.getppid()\n"
        "    while os.getppid() == parent: time.sleep(0.01)\n"
        "    count = read(ffrfs.PackedFolder(url))\n"
        f"    open({str(told)!r}, 'w').write(str(count)); os._exit(0)\n"
        "tell()",
        FFRFS_CACHE_MODE="stream",
    )
    wait_until(lambda: told.exists() and told.read_text(), "it has told", 60)
    assert told.read_text() == "4000000"


def test_a_program_can_read_in_its_exit_handlers(program: Program) -> None:
    found = program(
        "import atexit\n"
        "def last():\n"
        "    os.waitpid(pid, 0); tell(read=read(folder))\n"
        "atexit.register(last); folder = ffrfs.PackedFolder(url); pid = session.pid",
        FFRFS_CACHE_MODE="stream",
    )
    assert found["read"] == 4_000_000


def test_messages_of_the_fetcher_are_logged(program: Program, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = program(
        "import logging, threading\n"
        "logging.basicConfig(format='%(name)s %(levelname)s %(message)s')\n"
        "last, said = logging.Handler(), threading.Event()\n"
        "last.emit = lambda record: said.set()\n"
        "logging.getLogger().addHandler(last)\n"
        "read(ffrfs.PackedFolder(url)); assert said.wait(60); tell()",
        FFRFS_CACHE_DIR="",
        XDG_CACHE_HOME=str(tmp_path / "file"),
    )
    assert found["stderr"].startswith("ffrfs.remote WARNING the cache cannot be used")
    assert found["stderr"].count("\n") == 1


def test_a_fetcher_that_was_forgotten_ends(start: Start, tmp_path: Path) -> None:
    running = start()
    client = FetchClient(running.process.link())
    client.open(put(tmp_path, "a", content()))
    pid = running.process.pid
    assert pid is not None
    running.process.forget()
    client.close()
    # It is a child of this process, and nobody waits for it: it stays as a zombie.
    status = Path(f"/proc/{pid}/status")
    wait_until(lambda: "State:\tZ" in status.read_text(), "it has ended", 60)
    assert os.waitpid(pid, 0)[0] == pid


@pytest.mark.promise("S63")
def test_other_threads_run_while_a_listing_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of them starts the next fetcher; the error is the last thing that the server says."""
    (tmp_path / "web").mkdir()
    with ffrfs.PackWriter(tmp_path / "web" / "a.ffr") as writer:
        for number in range(60_000):  # the index is larger than a range
            writer.add(f"{number // 6000}/{number:0200}", b"")
    with (
        faulty(tmp_path / "web") as server,
        reading_urls(monkeypatch, tmp_path),
        ffrfs.PackedFolder(f"{server.url}/a.ffr") as folder,
        ThreadPoolExecutor(1) as pool,
    ):
        server.forget_counts()
        server.do(Kind.STALL)
        listed = pool.submit(folder.list, "5")
        wait_until(lambda: server.counts().requests, "the server is asked")
        assert not listed.done()
        assert session.pid is not None
        os.kill(session.pid, signal.SIGKILL)
        server.mend()
        assert len(listed.result()) == 6000
        server.do(Kind.CHANGED)
        with pytest.raises(ffrfs.ChangedAtOriginError, match="changed at its origin"):
            folder.list("9")


def test_an_empty_record_at_a_url_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its checksum is wrong, but there are no bytes to fetch again."""
    table = struct.pack("<qIq", 1, 0xDEADBEEF, 24)
    (tmp_path / "a.ffr").write_bytes(struct.pack("<I", zlib.crc32(table)) + table)
    with reading_urls(monkeypatch, tmp_path):
        reader = ffrfs.FileReader(f"file://{tmp_path}/a.ffr")
        with reader, pytest.raises(ffrfs.ChecksumError, match="record 0"):
            reader.read([0])
