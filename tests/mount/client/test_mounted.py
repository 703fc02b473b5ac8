"""ffrfs.mounted: a mount for the time of a with block."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ffrfs import mounted
from ffrfs.errors import MountError, OptionError
from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.engines.worker import PATH_VARIABLE
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.process import Process
from tests.mount import probes
from tests.mount.child import ask, child
from tests.mount.command import TIMEOUT_S, kill_group, wait_until
from tests.mount.makers import PackTree

TREE = {"a": b"alpha", "d": {"b": b"beta"}}


@pytest.fixture(autouse=True)
def chosen(engine: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine that is taken of its own accord."""
    if engine != "native":
        monkeypatch.setenv(PATH_VARIABLE, os.devnull)
    return engine


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # After tmp_path, or pytest would put all its own folders there for good.
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    monkeypatch.setenv("TMPDIR", str(places))


def daemon_of(place: Path) -> Process:
    found = state.find(str(place))
    assert found is not None
    return found[1].process


@pytest.mark.promise("S21")
def test_mounts_and_unmounts(pack_tree: PackTree, places: Path) -> None:
    with mounted(pack_tree(TREE)) as root:
        assert isinstance(root, Path)
        assert root.parent == places
        assert ask(probes.read, str(root / "d/b")) == b"beta"
        daemon = daemon_of(root)
    assert not daemon.is_alive()
    assert not root.exists()


def test_given_mount_point_and_options(pack_tree: PackTree, places: Path, chosen: str) -> None:
    place = places / "here"
    place.mkdir()
    options = {"uid": 7, "umask": "077", "xattr": True, "fsname": "a,b"}
    log_file = places / "log"
    more = {"engine": chosen, "cache_mb": 8, "log_file": log_file, **options}
    with mounted(pack_tree(TREE), place, **more) as root:
        assert root == place
        found = ask(probes.stat, str(root / "a"))
        assert (found.st_uid, found.st_mode & 0o777) == (7, 0o600)
        assert ask(probes.getxattr, str(root / "a"), "user.ffrfs.record") == b"0"
        entry = mount_at(str(place))
        assert entry is not None
        assert entry.source == "a,b"
    assert os.listdir(place) == []
    assert f"mounted at {place}, engine {chosen}" in log_file.read_text()


@pytest.mark.promise("S21")
def test_unmounts_when_the_block_fails(pack_tree: PackTree) -> None:
    with pytest.raises(ZeroDivisionError), mounted(pack_tree(TREE)) as root:
        raise ZeroDivisionError
    assert not root.exists()


def test_file_left_open_can_be_read_on(pack_tree: PackTree) -> None:
    with mounted(pack_tree({"a": b"alpha" * 100_000})) as root:
        daemon = daemon_of(root)
        reader = child(probes.hold_open, str(root / "a"))
        file = reader.__enter__()
        assert file.next() == b"a"
    try:
        assert not root.exists()
        assert file.next() == b"lpha" + b"alpha" * 99_999
    finally:
        reader.__exit__(None, None, None)
    assert daemon.wait(20)


def test_somebody_else_may_unmount_it(pack_tree: PackTree) -> None:
    with mounted(pack_tree(TREE)) as root:
        unmount(str(root))
    assert not root.exists()


def test_failure_is_raised_with_its_reason(tmp_path: Path, places: Path) -> None:
    pack = tmp_path / "bad.ffr"
    pack.write_bytes(b"")
    with pytest.raises(MountError, match=f"^{pack}: "), mounted(pack):
        pytest.fail("mounted")
    with pytest.raises(MountError, match=r"absent\.ffr"), mounted(tmp_path / "absent.ffr"):
        pytest.fail("mounted")
    with pytest.raises(MountError, match="bogus"), mounted(pack, bogus=1):
        pytest.fail("mounted")
    with pytest.raises(OptionError, match="xattr"), mounted(pack, xattr=False):
        pytest.fail("mounted")
    assert list(places.iterdir()) == []


@pytest.mark.promise("S21")
def test_killed_program_leaves_no_mount(pack_tree: PackTree, places: Path) -> None:
    program = (
        "import sys, time, ffrfs\n"
        "with ffrfs.mounted(sys.argv[1]) as root:\n"
        "    print(root, flush=True)\n"
        "    time.sleep(1000)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(pack_tree(TREE))],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        root = Path(process.stdout.readline().strip())
        assert ask(probes.read, str(root / "a"), timeout_s=TIMEOUT_S) == b"alpha"
        daemon = daemon_of(root)
        os.kill(process.pid, signal.SIGKILL)
        assert daemon.wait(20)
        wait_until(lambda: not root.exists(), "mount and mount point are gone")
    finally:
        kill_group(process)


def test_two_at_once(pack_tree: PackTree) -> None:
    pack = pack_tree(TREE)
    with mounted(pack) as first, mounted(pack) as second:
        assert first != second
        for root in (first, second):
            assert ask(probes.read, str(root / "a")) == b"alpha"
