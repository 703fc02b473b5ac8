"""`ffrfs view`: the link that it prints, its end, and errors of one line."""

from __future__ import annotations

import _thread
import contextlib
import errno
import http.client
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import pytest

import ffrfs
from ffrfs.view import view as view_module
from ffrfs.view.choice import Choice
from ffrfs.view.collection import Item
from ffrfs.view.job import Job
from ffrfs.view.server import listen
from tests.cli.command_run import Run
from tests.interpreter import python
from tests.remote.servers.program import free_ports
from tests.view.pages import Pages

# Each package is missing once; the modules of ffrfs.view are then imported again.
PACKAGES = ["starlette", "hypercorn", "jinja2", "anyio"]
MISSING = """
import sys
from ffrfs.cli.main import main
for package in sys.argv[1:]:
    for name in [name for name in sys.modules if name.startswith("ffrfs.view")]:
        del sys.modules[name]
    known, sys.modules[package] = sys.modules.get(package), None
    print(main(["view", "x.ffr"]))
    del sys.modules[package]
    if known is not None:
        sys.modules[package] = known
"""


INTERRUPTED = """
import os, signal, sys, threading
import ffrfs
served = ffrfs.view(sys.argv[1])
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    served.wait()
except KeyboardInterrupt:
    served.close()
    ffrfs.view(sys.argv[1], port=int(served.url.split(":")[2].split("/")[0])).close()
    print("closed")
"""


@contextmanager
def running(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], Pages]]:
    """Run the command; yield its process and a client of the link that it printed."""
    command = [sys.executable, "-m", "ffrfs", "view", *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().strip()
            assert re.fullmatch(r"http://\S+/\?token=[\w-]{32}", link), link
            yield process, Pages(link)
        finally:
            process.kill()


@pytest.fixture
def fails(ffrfs: Run) -> Callable[..., str]:
    """fails(*arguments) returns the one line of the command's error."""
    return lambda *arguments: ffrfs("view", *map(str, arguments)).complaint


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_open_does_not_show_the_token_to_other_users(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The browser's command line names a private file, and the file leads to the link."""
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}.new && mv {seen}.new {seen}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    with running(pack, "--open") as (process, pages):
        deadline_s = time.monotonic() + 60
        while not seen.exists():
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        address = seen.read_text().strip()
        file = Path(address.removeprefix("file://"))
        assert pages.token not in address and pages.link in file.read_text()
        assert [one.stat().st_mode & 0o777 for one in (file, file.parent)] == [0o600, 0o700]
        process.send_signal(number)
        process.communicate(timeout=60)
    assert not file.parent.exists()


def test_pages_of_the_command_refuse_to_be_framed(pack: Path) -> None:
    """Only pages of `ffrfs.view()` may be in frames: a notebook shows them so."""
    with running(pack) as (_, pages):
        assert pages.host == "127.0.0.1"
        page = pages.get("/")
        assert "p.ffr" in page.text
        assert page.headers["content-security-policy"].endswith("frame-ancestors 'none'")
        frame = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe", "Cookie": pages.cookie}
        assert pages.ask("/", headers={"Sec-Fetch-Site": "same-site", **frame}).status == 403
        assert pages.ask("/", headers={"Sec-Fetch-Site": "same-origin", **frame}).status == 200
    with ffrfs.view(pack) as served:
        policy = Pages(served.url).get("/").headers["content-security-policy"]
        assert policy.endswith("frame-ancestors http://localhost:* http://127.0.0.1:*")


def test_ctrl_c_ends_the_command(pack: Path) -> None:
    with running(pack) as (process, pages):
        pages.get("/health", scrub=1)
        pages.get("/statistics")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "ffrfs: interrupted\n")


def test_given_port_is_used(pack: Path, fails: Callable[..., str]) -> None:
    with free_ports(1) as [port]:
        with socket.create_server(("127.0.0.1", port)):
            line = fails(pack, "--port", port)
            assert f"127.0.0.1:{port}" in line and "in use" in line
        with running(pack, "--port", port) as (_, pages):
            assert pages.port == port


def test_other_addresses_need_the_token_too(pack: Path) -> None:
    with running(pack, "--host", "127.0.0.2") as (_, pages):
        assert pages.host == "127.0.0.2"
        assert pages.ask("/").status == 403
        assert pages.get("/").status == 200
        with pytest.raises(ConnectionRefusedError):
            # No other server listens here; on 127.0.0.1, one may have this port.
            socket.create_connection(("127.0.0.3", pages.port)).close()


# With these, browsers would send a Host that the server does not accept as its own.
@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("0.0.0.0", "name one address"),
        ("0", "name one address"),
        ("", "'': means all addresses"),
        ("\udcff", "not a name of a host"),
        ("ü" * 64, "not a name of a host"),
        ("192.0.2.1", "192.0.2.1"),
    ],
    ids=["any", "zero", "empty", "no text", "too long", "not ours"],
)
def test_unusable_hosts_are_refused(
    pack: Path, fails: Callable[..., str], host: str, reason: str
) -> None:
    assert reason in fails(pack, "--host", host)


@pytest.mark.parametrize(("host", "written"), [("127.1", "127.0.0.1"), ("0:0:0:0:0:0:0:1", "::1")])
def test_addresses_are_written_as_in_browsers(host: str, written: str) -> None:
    try:
        listener = listen(host)
    except OSError:
        pytest.skip(f"there is no {written} here")
    with listener.socket:
        assert listener.host == written


def test_second_source_or_schema_that_cannot_be_opened(
    pack: Path, tmp_path: Path, fails: Callable[..., str]
) -> None:
    assert "nothing.ffr" in fails(pack, "--second", tmp_path / "nothing.ffr")
    assert "schema.pbtxt" in fails(pack, "--schema", tmp_path / "schema.pbtxt")


def test_packages_that_are_missing() -> None:
    done = python("-c", MISSING, *PACKAGES)
    assert (done.returncode, done.stdout) == (0, "1\n" * len(PACKAGES))
    for package, line in zip(PACKAGES, done.stderr.splitlines(), strict=True):
        assert package in line and "ffrfs[view]" in line


def test_view_function_serves_until_it_is_closed(pack: Path) -> None:
    """A notebook shows the result as a frame; the end of a `with` block closes it."""
    with ffrfs.view(pack) as served:
        assert Pages(served.url).get("/").status == 200
        assert f'<iframe src="{served.url}"' in served._repr_html_()
    with pytest.raises(OSError, match="refused"):
        Pages(served.url)
    served.close()  # a second time


def test_a_view_closed_at_once_frees_its_port(pack: Path) -> None:
    """It does so also if it is cancelled before it serves, which happens only sometimes."""
    ports = []
    for _ in range(40):
        with ffrfs.view(pack) as served:
            ports.append(urlsplit(served.url).port)
    for port in ports:
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", port or 0)) == errno.ECONNREFUSED


def test_close_after_an_interrupted_wait_ends_the_server(pack: Path) -> None:
    done = python("-c", INTERRUPTED, str(pack))
    assert (done.returncode, done.stdout) == (0, "closed\n"), done


def test_ctrl_c_just_before_the_wait_ends_the_wait(pack: Path) -> None:
    """interrupt_main() is that case: Python notes the signal, but no system call is interrupted."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ffrfs.view(pack) as served, pytest.raises(KeyboardInterrupt):
            threading.Timer(0.3, _thread.interrupt_main).start()
            served.wait()
    finally:
        signal.signal(signal.SIGINT, old)


def asking(served: view_module.View, path: str, **parameters: object) -> threading.Thread:
    """Ask for a page in a thread; the answer may break off."""
    pages = Pages(served.url)

    def ask() -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            pages.get(path, **parameters)

    client = threading.Thread(target=ask)
    client.start()
    return client


def test_close_ends_a_list_that_is_not_sorted_yet(
    pack: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    has_begun = threading.Event()
    wait = Choice.wait

    def find(_choice: Choice, job: Job[Any]) -> NoReturn:
        while True:
            job.tick(0)
            time.sleep(0.01)

    def wait_in_list(choice: Choice, seconds: float, count: int | None = None) -> None:
        has_begun.set()
        wait(choice, seconds, count)

    monkeypatch.setattr(Choice, "_find", find)
    monkeypatch.setattr(Choice, "wait", wait_in_list)
    served = ffrfs.view(pack)
    client = asking(served, "/paths", sort="size")
    has_begun.wait(60)
    served.close()
    client.join()
    assert "still reads" not in caplog.text


def test_close_does_not_wait_for_a_request_that_hangs(
    pack: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The data set stays open for that request, and is closed when the request ends."""
    monkeypatch.setattr(view_module, "_CLOSE_S", 0.1)
    has_begun, goes_on, is_closed = (threading.Event() for _ in range(3))
    served = ffrfs.view(pack)
    collection = served._sets[0].collection
    close = collection.close

    def stall(_key: str) -> Item:
        has_begun.set()
        goes_on.wait(60)
        raise OSError("no answer")

    def closed() -> None:
        close()
        is_closed.set()

    monkeypatch.setattr(collection, "item", stall)
    monkeypatch.setattr(collection, "close", closed)
    client = asking(served, "/item", key="a")
    has_begun.wait(60)
    served.close()
    assert not is_closed.is_set() and "p.ffr: a request still reads" in caplog.text
    goes_on.set()
    assert is_closed.wait(60)
    client.join()
