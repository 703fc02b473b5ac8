"""Shared by the tests of all rooms: golden files, the command, FUSE, Hypothesis's settings.

Each room's own fixtures are in its own conftest.py.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import re
import shutil
import signal
import struct
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from ffrfs.files import leftovers
from ffrfs.mount.daemon.pressure import WATCH_VARIABLE
from tests import parts, uring_switch
from tests.checkout import CHECKOUT
from tests.cli.command_run import Done, Run
from tests.golden_files import write_golden_files

# A deadline per example measures the neighbours on a shared machine, not the code.
settings.register_profile("house", deadline=None, print_blob=True)
settings.register_profile("quick", settings.get_profile("house"), max_examples=20)
settings.load_profile("house")

# Programs that tests start import from here, too.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")])
)

# Readers write their indexes into a cache of this run, not into this user's.
_CACHE = tempfile.TemporaryDirectory(prefix="ffrfs-test-cache-")
os.environ["XDG_CACHE_HOME"] = _CACHE.name

# Otherwise OpenBLAS has a thread for each core, which spins for 60 ms in each process with NumPy.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

# Reasons to skip on a machine that lacks a program, a package or a device.
_LACKING = re.compile(r"there is no |not here|install|could not import|io_uring is not permitted")

# ioctl_iflags(2); FS_TOPDIR_FL.
_GET_FLAGS, _SET_FLAGS, _TOP_DIRECTORY = 0x80086601, 0x40086602, 0x20000

# Otherwise a mount's cache would shrink whenever other programs make memory short.
os.environ[WATCH_VARIABLE] = os.devnull

# A shell starts background commands with SIGINT ignored, and their children inherit it, but some
# tests press Ctrl-C. nohup(1) starts a command with SIGHUP ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", help="of tests/parts.py, separated by commas", default="")
    parser.addoption("--room", help="ffrfs/remote: its tests and those of rooms above", default="")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile, nor later what stays: this saves a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _chosen(config: pytest.Config) -> list[str]:
    return [name for name in config.getoption("--part").split(",") if name]


def pytest_configure(config: pytest.Config) -> None:
    if _chosen(config) == ["test"]:
        settings.load_profile("quick")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    chosen = _chosen(config)
    if chosen and collection_path.is_file() and parts.is_left_out(collection_path, chosen):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = items
    if chosen := _chosen(config):
        kept = [item for item in kept if parts.part_of(item) in chosen]
    if room := config.getoption("--room"):
        # Imported late, as it imports a test module, whose asserts pytest has to rewrite first.
        from tests.rooms_above import needs_room, python_above

        above = python_above(room)
        kept = [item for item in kept if needs_room(item.path, above)]
    is_kept = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in is_kept])
    # Tests that wait for seconds begin first, so that no process waits alone for them in the end.
    items[:] = sorted(kept, key=lambda item: parts.part_of(item) not in parts.WAITING)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what `make test` leaves out, and why."""
    chosen = _chosen(terminalreporter.config)
    if "test" in chosen:
        terminalreporter.section("left out; make check runs all of it")
        for line in parts.left_out(chosen):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def spread(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let ext4 put the tests' directories into block groups of their own, as chattr +T does.

    Tests that pass delete thousands of files. In their group, ext4 looks at each of them before it
    makes a new one, which would take a fifth of the time of all tests.
    """
    place = os.open(tmp_path_factory.getbasetemp(), os.O_RDONLY)
    with contextlib.suppress(OSError):  # another file system
        (flags,) = struct.unpack("i", fcntl.ioctl(place, _GET_FLAGS, bytes(4)))
        fcntl.ioctl(place, _SET_FLAGS, struct.pack("i", flags | _TOP_DIRECTORY))
    os.close(place)


@pytest.fixture(autouse=True)
def unsearched() -> None:
    """Forget earlier tests' directories: this test's ones may have the same inode numbers."""
    leftovers._seen.clear()


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of files that the original programs wrote."""
    folder = tmp_path_factory.mktemp("files") / "golden"
    write_golden_files(folder)
    return folder


@pytest.fixture
def ffrfs(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs the command in this process."""
    from ffrfs.cli.main import main

    def run(*arguments: str | os.PathLike[str]) -> Done:
        capfdbinary.readouterr()
        try:
            status = main([os.fspath(argument) for argument in arguments])
        except SystemExit as end:  # argparse raises it
            status = int(str(end.code))
        out, err = capfdbinary.readouterr()
        return Done(status, out, err.decode())

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that skips because something is missing, where .ci/run must install all."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if _LACKING.search(reason):
            report.outcome, report.longrepr = "failed", f"{reason}: an error, as CI=true"
    return report


@pytest.fixture(scope="session")
def fuse() -> None:
    """Skip the test unless mounting works here."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("there is no /dev/fuse here (modprobe fuse; docker run --device /dev/fuse)")
    if os.geteuid() != 0 and not shutil.which("fusermount3"):
        pytest.skip("there is no fusermount3 here (apt-get install fuse3)")


@pytest.fixture(scope="session")
def uring(fuse: None) -> Iterator[None]:
    """Let the kernel serve mounts made from now on over io_uring; skip the test if it cannot."""
    reason = uring_switch.why_not()
    if reason is not None:
        pytest.skip(reason)
    with uring_switch.switched_on():
        yield


def pytest_unconfigure() -> None:
    """Put the switch back, since a killed worker of pytest-xdist could not do it itself."""
    if os.geteuid() == 0:
        uring_switch.put_back()
