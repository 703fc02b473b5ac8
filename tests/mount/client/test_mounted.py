"""ffrfs.mounted(): a mount for the time of a with block; mount() and unmount(): one that stays."""

from __future__ import annotations

import dataclasses
import inspect
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ffrfs import MountError, mount, mounted, stats, unmount
from ffrfs.mount.client.mounted import _words
from ffrfs.mount.config.settings import SETTINGS, MountKeywords
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.options import TreeOptions
from ffrfs.mount.kernel.process import Process
from tests.interpreter import python
from tests.mount import probes
from tests.mount.child import ask, child
from tests.mount.command import TIMEOUT_S, kill_group, wait_until
from tests.mount.makers import PackTree, by_both

TREE = {"a": b"alpha", "d": {"b": b"beta"}}

# All tests but one use the default engine.
pytestmark = pytest.mark.usefixtures("fuse")


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Set only after tmp_path exists: else pytest would put all its own folders there for good.
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    monkeypatch.setenv("TMPDIR", str(places))


def daemon_of(place: Path) -> Process:
    found = state.find(str(place))
    assert found is not None
    return found[1].process


def mountinfo() -> list[str]:
    return Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()


@pytest.mark.parametrize("name", ["", None])
def test_program_that_embeds_python(
    pack_tree: PackTree, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    pack = pack_tree(TREE)
    monkeypatch.setattr(sys, "executable", name)
    said = "^ffrfs mount cannot be started: sys.executable names no Python$"
    with pytest.raises(MountError, match=said):
        mount(pack)
    with pytest.raises(MountError, match=said), mounted(pack):
        pass


@pytest.mark.promise("S21")
def test_mounts_and_unmounts(pack_tree: PackTree, places: Path) -> None:
    with mounted(pack_tree(TREE)) as root:
        assert isinstance(root, Path)
        assert root.parent == places
        assert ask(probes.read, str(root / "d/b")) == b"beta"
        daemon = daemon_of(root)
    assert not daemon.is_alive()
    assert not root.exists()


@by_both
def test_given_mount_point_and_options(pack_tree: PackTree, places: Path, engine: str) -> None:
    place = places / "here"
    place.mkdir()
    options = {"uid": 7, "umask": "077", "xattr": True, "fsname": "a,b"}
    log_file = places / "log"
    more = {"engine": engine, "cache_mb": 8, "log_file": log_file, **options}
    with mounted(pack_tree(TREE), place, **more) as root:
        assert root == place
        found = ask(probes.stat, str(root / "a"))
        assert (found.st_uid, found.st_mode & 0o777) == (7, 0o600)
        assert ask(probes.getxattr, str(root / "a"), "user.ffrfs.record") == b"0"
        entry = mount_at(str(place))
        assert entry is not None
        assert entry.source == "a,b"
    assert os.listdir(place) == []
    assert f"mounted at {place}, engine {engine}" in log_file.read_text()


@pytest.mark.promise("S21")
def test_unmounts_when_the_block_fails(pack_tree: PackTree) -> None:
    with pytest.raises(ZeroDivisionError), mounted(pack_tree(TREE)) as root:
        raise ZeroDivisionError
    assert not root.exists()


def test_file_left_open_stays_readable_after_the_unmount(pack_tree: PackTree) -> None:
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


def test_mount_may_be_unmounted_inside_the_block(pack_tree: PackTree) -> None:
    with mounted(pack_tree(TREE)) as root:
        unmount(root)
    assert not root.exists()


def test_leaving_the_block_keeps_a_newer_mount_at_the_same_path(
    pack_tree: PackTree, places: Path
) -> None:
    pack, place = pack_tree({"a": b"alpha" * 100_000}), places / "here"
    with mounted(pack, place), child(probes.hold_open, str(place / "a")) as reader:
        reader.next()  # an open file keeps the daemon alive
        assert unmount(place).was_busy
        mount(pack, place)
    assert mount_at(str(place)) is not None
    unmount(place)


def test_failure_is_raised_in_a_program_that_ignores_sigchld(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(MountError, match=r"absent\.ffr"), mounted(tmp_path / "absent.ffr"):
            pytest.fail("mounted")
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_failure_is_raised_with_its_reason(tmp_path: Path, places: Path) -> None:
    pack = tmp_path / "bad.ffr"
    pack.write_bytes(b"")
    with pytest.raises(MountError, match=f"^{pack}: "), mounted(pack):
        pytest.fail("mounted")
    with pytest.raises(MountError, match=r"absent\.ffr"), mounted(tmp_path / "absent.ffr"):
        pytest.fail("mounted")
    with pytest.raises(MountError, match=r"^no pack to mount: name at least one$"):
        mount([])
    with pytest.raises(MountError, match="bogus"), mounted(pack, options="ro,bogus=1"):
        pytest.fail("mounted")
    with pytest.raises(MountError, match="cache_mb=0"), mounted(pack, cache_mb=0):
        pytest.fail("mounted")
    with pytest.raises(TypeError, match="bogus"), mounted(pack, bogus=1):  # type: ignore[call-arg]
        pytest.fail("mounted")
    assert list(places.iterdir()) == []


@pytest.mark.promise("S21")
@pytest.mark.parametrize("before", ["pass", "os.fork()"])
def test_killed_program_leaves_no_mount(before: str, pack_tree: PackTree, places: Path) -> None:
    program = (
        "import os, sys, time, ffrfs\n"
        "with ffrfs.mounted(sys.argv[1]) as root:\n"
        "    print(root, flush=True)\n"
        f"    {before}\n"
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


@pytest.mark.promise("S21")
def test_forked_child_leaves_the_mount_to_its_parent(pack_tree: PackTree) -> None:
    program = (
        "import os, sys, ffrfs\n"
        "with ffrfs.mounted(sys.argv[1]) as root:\n"
        "    if child := os.fork():\n"
        "        status = os.waitpid(child, 0)[1]\n"
        "        print(status, os.path.ismount(root), root)\n"
    )
    done = python("-c", program, str(pack_tree(TREE)), timeout=TIMEOUT_S)
    status, is_mounted, root = done.stdout.split()
    assert (status, is_mounted, done.stderr) == ("0", "True", "")
    assert not Path(root).exists()


def test_program_with_closed_stdin_beside_files_named_like_modules(
    pack_tree: PackTree, places: Path
) -> None:
    for name in ("trio", "json", "argparse"):
        (places / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    program = (
        "import os, sys, ffrfs\n"
        "os.close(0)\n"
        "with ffrfs.mounted(sys.argv[1]) as root:\n"
        "    print(root)\n"
    )
    done = python("-P", "-c", program, str(pack_tree(TREE)), cwd=places, timeout=TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert not Path(done.stdout.strip()).exists()


def test_two_mounts_at_once(pack_tree: PackTree) -> None:
    pack = pack_tree(TREE)
    with mounted(pack) as first, mounted(pack) as second:
        assert first != second
        for root in (first, second):
            assert ask(probes.read, str(root / "a")) == b"alpha"


def test_every_option_of_a_mount_has_a_parameter() -> None:
    assert inspect.signature(mounted).parameters == inspect.signature(mount).parameters
    options = {field.name for field in dataclasses.fields(TreeOptions)} - {
        "exec",
        "symfollow",
        "rw",
    }
    options |= {"noexec", "nosymfollow"}
    settings = SETTINGS.keys() - {"no_extensions"} | {"extensions"}
    assert MountKeywords.__annotations__.keys() == options | settings


def test_extensions_are_switched_off_by_a_word() -> None:
    assert _words({"extensions": False}) == ["no_extensions"]
    assert _words({"extensions": True}) == _words({}) == []


@pytest.mark.parametrize("umask", ["027", 0o27, np.int64(0o27)])
def test_options_of_every_kind(pack_tree: PackTree, places: Path, umask: Any) -> None:
    config = places / "config.toml"
    config.write_text("cache_mb = 8\nprefetch_ttl = 7\n")
    with mounted(
        pack_tree(TREE),
        umask=umask,
        gid=5,
        noexec=True,
        suid=False,
        on_conflict="first",
        threads=1,
        max_memory="512M",
        prefetch_window="16,1M",
        prefetch_ttl=2.5,
        extensions=False,
        metrics_file=places / "m,x.prom",
        config=config,
        options=["nosuid,noatime", "uid=9,gid=9"],
    ) as root:
        found = ask(probes.stat, str(root / "a"))
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (9, 5, 0o640)
        (line,) = (line for line in mountinfo() if f" {root} " in line)
        assert ",noexec," in line
        wait_until((places / "m,x.prom").exists, "the metrics are there")


def test_mount_stays_until_it_is_unmounted(pack_tree: PackTree, places: Path) -> None:
    program = "import sys, ffrfs; print(ffrfs.mount(sys.argv[1], uid=7))"
    done = python("-c", program, str(pack_tree(TREE)), check=True, timeout=TIMEOUT_S)
    root = Path(done.stdout.strip())
    try:
        assert root.parent == places
        assert ask(probes.read, str(root / "d/b")) == b"beta"
        assert ask(probes.stat, str(root)).st_uid == 7
        daemon = daemon_of(root)
    finally:
        outcome = unmount(root)
    assert not outcome.was_busy
    assert not daemon.is_alive()
    assert not root.exists()
    with pytest.raises(MountError, match="not mounted"):
        unmount(root)


def test_second_mount_at_the_same_mount_point_fails(pack_tree: PackTree, places: Path) -> None:
    (places / "here").mkdir()
    root = mount(pack_tree(TREE), places / "here")
    try:
        assert root == places / "here"
        with pytest.raises(MountError, match="here"):
            mount(pack_tree(TREE), places / "here")
    finally:
        unmount(str(root))
    assert (places / "here").exists()


def test_interrupted_mount_leaves_nothing(
    pack_tree: PackTree, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subprocess.run
    with monkeypatch.context() as interrupted:

        def run_and_interrupt(*command: Any, **how: Any) -> None:
            interrupted.undo()
            run(*command, **how)
            raise KeyboardInterrupt

        interrupted.setattr(subprocess, "run", run_and_interrupt)
        with pytest.raises(KeyboardInterrupt):
            mount(pack_tree(TREE))
    assert [line for line in mountinfo() if str(places) in line] == []
    assert list(places.iterdir()) == []


def test_stats_of_a_mount(pack_tree: PackTree, places: Path) -> None:
    with mounted(pack_tree(TREE)) as root:
        assert ask(probes.read, str(root / "d/b")) == b"beta"
        found = stats(root)
        assert found["mountpoint"] == str(root)
        assert found["bytes_served"] >= 4
    with pytest.raises(MountError, match="not mounted"):
        stats(places)
