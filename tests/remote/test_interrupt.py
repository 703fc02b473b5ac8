"""Ctrl-C ends every call that waits for a server that hangs, and is not taken for a bad file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ffrfs
from tests.mount.command import TIMEOUT_S, wait_until
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import Faulty, faulty

# Opens the pack, prints that, and goes on after a line of input.
PROGRAM = """
import sys, ffrfs
url = sys.argv[1]
with ffrfs.PackedFolder(url) as folder, ffrfs.FileReader(url) as reader:
    print("open", flush=True)
    sys.stdin.readline()
    try:
        CALL
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faulty]:
    root = tmp_path_factory.mktemp("packs")
    (root / "files").mkdir()
    for number in range(300):
        (root / "files" / str(number)).write_bytes(os.urandom(20_000))
    (root / "files" / "large").write_bytes(os.urandom(10 << 20))
    ffrfs.pack_folder(root / "files", root / "x.ffr")
    with faulty(root) as running:
        yield running


@contextlib.contextmanager
def running(program: str, url: str, place: Path) -> Iterator[subprocess.Popen[str]]:
    settings = {"FFRFS_REMOTE_TIMEOUT": "3600", "FFRFS_CACHE_DIR": str(place / "cache")}
    with subprocess.Popen(
        [sys.executable, "-c", program, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | settings,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    "call",
    [
        "folder.read([str(number) for number in range(300)])",
        "folder['large']",
        "folder.open('large').read()",
        "reader.validate()",
        "reader.read(list(range(reader.n)))",
    ],
)
def test_ctrl_c_ends_a_read(server: Faulty, tmp_path: Path, call: str) -> None:
    server.mend()
    program = PROGRAM.replace("CALL", call)
    with running(program, f"{server.url}/x.ffr", tmp_path) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "open\n"
        server.do(Kind.STALL)
        server.forget_counts()
        process.stdin.write("\n")
        process.stdin.flush()
        wait_until(lambda: server.counts().most_under_way > 0, "the server is asked")
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait(TIMEOUT_S) == 0


OPENING = """
import sys
from ffrfs.tfrecord import TFRecordReader
try:
    TFRecordReader([f"{sys.argv[1]}/{number}.tfrecord" for number in range(20)])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_the_opening_of_many_files(server: Faulty, tmp_path: Path) -> None:
    server.do(Kind.STALL)
    server.forget_counts()
    try:
        with running(OPENING, server.url, tmp_path) as process:
            wait_until(lambda: server.counts().most_under_way > 0, "the server is asked")
            process.send_signal(signal.SIGINT)
            assert process.stdout is not None
            assert process.stdout.readline() == "interrupted\n"
            assert process.wait(TIMEOUT_S) == 0
    finally:
        server.mend()
