"""`ffrfs log`: the log of a mount that is live, dead, or has ended."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from ffrfs.errors import MountError
from ffrfs.mount.client.mount_log import MountLog, find_log, read_log
from ffrfs.mount.daemon import log as daemon_log
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.kept_logs import KEPT_S
from ffrfs.mount.kernel.process import Process
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import (
    TIMEOUT_S,
    Mount,
    ffrfs,
    kill_group,
    mount_command_fails,
    start_ffrfs,
    wait_until,
)
from tests.mount.makers import MakeMount, PackTree

TREE = {"a": b"alpha" * 1000}
NOBODY = Process(1, 1)


@pytest.fixture
def tree(new_mount: MakeMount, pack_tree: PackTree) -> Mount:
    """Return a mount that has its own log, and is not mounted yet."""
    return new_mount(pack_tree(dict(TREE)))


def mount(tree: Mount) -> int:
    """Mount `tree` and return the daemon's process number."""
    done = ffrfs("mount", *tree.engine_words, tree.pack, tree.path)
    assert (done.status, done.err) == (0, "")
    tree.find_daemon()
    assert tree.process is not None
    return tree.process.pid


def logged(tree: Mount) -> str:
    done = ffrfs("log", tree.path)
    assert (done.status, done.err) == (0, "")
    return done.out


@pytest.mark.promise("S57")
def test_log_of_a_live_a_dead_and_an_unmounted_mount(tree: Mount) -> None:
    pid = mount(tree)
    wait_until(lambda: "mounted at" in logged(tree), "it is logged")
    assert re.fullmatch(rf"\S+ \S+ \[{pid}\] INFO .* mounted at {tree.path}, .*\n", logged(tree))
    tree.kill()
    tree.wait_for_daemon()
    before = logged(tree)
    assert ffrfs("umount", tree.path).status == 0
    assert logged(tree) == before
    again = mount(tree)
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()
    assert logged(tree).startswith(before)
    first, second = (logged(tree).count(f"[{number}]") for number in (pid, again))
    assert (first, second) == (1, 2)


@pytest.mark.promise("S57")
def test_log_file_that_the_user_named(tree: Mount) -> None:
    assert tree.mount().status == 0
    assert logged(tree) == tree.log() != ""
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()
    assert logged(tree) == tree.log()
    assert "ended" in logged(tree)
    tree.log_file.rename(tree.log_file.with_suffix(".moved"))
    mount_command_fails(ffrfs("log", tree.path), 1, f"{tree.log_file}: No such file")


@pytest.mark.promise("S57")
@pytest.mark.parametrize("command", ["mount", "umount", "ps"])
def test_log_is_removed_after_a_week(tree: Mount, new_mount: MakeMount, command: str) -> None:
    """If another process holds the directory's lock, the next command removes the log."""
    mount(tree)
    other = new_mount(tree.pack)
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()
    assert "mounted at" in logged(tree)
    directory, _ = state.find_ended(str(tree.path)) or ("", None)
    stem = state.log_path(directory, str(tree.path)).removesuffix(state.LOG)
    files = {
        Path(stem + suffix): Path(stem + suffix).read_bytes() for suffix in (state.LOG, state.ENDED)
    }
    ended_s = time.time() - KEPT_S - 60

    def make_old() -> None:
        for file, content in files.items():
            file.write_bytes(content)
            os.utime(file, (ended_s, ended_s))

    def is_gone() -> bool:
        return not list(Path(directory).glob(f"{Path(stem).name}.*"))

    def has_removed_it() -> bool:
        if command == "umount":
            mount(other)
        make_old()
        if command == "ps":
            assert ffrfs("ps").status == 0
            return is_gone()
        if command == "mount":
            mount(other)
            is_removed = is_gone()
        assert ffrfs("umount", other.path).status == 0
        other.wait_for_daemon()
        return is_removed if command == "mount" else is_gone()

    wait_until(has_removed_it, f"{command} has removed it")
    mount_command_fails(ffrfs("log", tree.path), 1, f"{tree.path}: not mounted", "last week")


@contextlib.contextmanager
def following(place: Path) -> Iterator[subprocess.Popen[str]]:
    process = start_ffrfs("log", "-f", place)
    try:
        yield process
    finally:
        kill_group(process)


def read_until(output: IO[str], text: str) -> str:
    """Read from a pipe until `text` has come; return everything that was read."""
    found, deadline_s = "", time.monotonic() + TIMEOUT_S
    while text not in found:
        left_s = deadline_s - time.monotonic()
        assert select.select([output], [], [], max(left_s, 0))[0], f"no {text!r}: {found}"
        chunk = os.read(output.fileno(), 4096).decode()
        assert chunk, f"ended without {text!r}: {found}"
        found += chunk
    return found


@pytest.mark.promise("S57")
def test_log_is_followed_until_ctrl_c_or_the_end_of_the_mount(tree: Mount) -> None:
    mount(tree)
    with following(tree.path) as process:
        assert process.stdout is not None
        read_until(process.stdout, "mounted at")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (130, "ffrfs: interrupted\n")
    with following(tree.path) as process:
        assert process.stdout is not None
        shown = read_until(process.stdout, "mounted at")
        tree.signal(signal.SIGTERM)
        rest, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, err) == (0, "")
    assert "SIGTERM: unmounting" in rest
    assert rest.endswith(f"{tree.path}: ended\n")
    assert shown + rest == logged(tree)
    with following(tree.path) as process:  # of a mount that has ended
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.promise("S57")
def test_following_ends_when_the_daemon_is_killed(tree: Mount) -> None:
    mount(tree)
    with following(tree.path) as process:
        assert process.stdout is not None
        read_until(process.stdout, "mounted at")
        tree.kill()
        assert process.wait(TIMEOUT_S) == 0
    with following(tree.path) as process:  # a second `ffrfs log -f` ends at once
        assert process.wait(TIMEOUT_S) == 0


@pytest.mark.promise("S57")
def test_following_continues_with_the_next_daemon(tree: Mount) -> None:
    mount(tree)
    with following(tree.path) as process:
        assert process.stdout is not None
        read_until(process.stdout, "mounted at")
        tree.replace_daemon()
        read_until(process.stdout, "the daemon before this one")
        tree.signal_daemon(signal.SIGTERM)
        rest, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert rest.endswith(f"{tree.path}: ended\n")


@pytest.mark.promise("S57")
def test_following_continues_in_the_log_file_of_a_reload(tree: Mount, tmp_path: Path) -> None:
    config = tmp_path / "ffrfs.toml"
    config.touch()
    done = ffrfs("mount", "--config", config, *tree.engine_words, tree.pack, tree.path)
    assert (done.status, done.err) == (0, "")
    tree.find_daemon()
    with following(tree.path) as process:
        assert process.stdout is not None
        read_until(process.stdout, "mounted at")
        config.write_text(f"log_file = '{tmp_path}/new.log'\n")
        tree.signal_daemon(signal.SIGHUP)
        read_until(process.stdout, "INFO reloaded")
        assert "INFO reloaded" in (tmp_path / "new.log").read_text()
        tree.signal_daemon(signal.SIGTERM)
        rest, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert rest.endswith(f"{tree.path}: ended\n")


def test_log_shows_a_lingering_daemon_and_the_new_one(tree: Mount) -> None:
    lingering = mount(tree)
    process = tree.process
    assert process is not None
    with child(probes.hold_open, tree / "a") as reader:
        reader.next()
        assert "busy" in ffrfs("umount", tree.path).err
        new = mount(tree)
    assert process.wait(TIMEOUT_S)
    lines = logged(tree).splitlines()
    assert [line for line in lines if f"[{lingering}]" in line and "ended" in line]
    assert [line for line in lines if f"[{new}]" in line and "mounted at" in line]


@pytest.mark.promise("S57")
def test_log_in_the_journal_names_the_journalctl_command(tree: Mount, tmp_path: Path) -> None:
    with open(tmp_path / "journal", "w") as journal:
        status = os.fstat(journal.fileno())
        environment = os.environ | {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
        arguments = ("mount", "-f", *tree.engine_words, tree.pack, tree.path)
        process = start_ffrfs(*arguments, stderr=journal, env=environment)
    try:
        while "mounted at" not in (tmp_path / "journal").read_text():
            assert process.poll() is None
            time.sleep(0.02)
        tree.find_daemon()
        done = ffrfs("log", tree.path)
        mount_command_fails(done, 1, f"{tree.path}: its log is in the journal: journalctl ")
        match = tree.statistics()["journal"]
        assert re.fullmatch(rf"_PID={process.pid}|--(user-)?unit=\S+\.service", match)
        assert f"log              journalctl {match}\n" in ffrfs("stats", tree.path).out
        assert ffrfs("umount", tree.path).status == 0
        assert process.wait(TIMEOUT_S) == 0
    finally:
        kill_group(process)
    mount_command_fails(ffrfs("log", tree.path), 1, "journalctl ")  # also after the mount has ended


@pytest.mark.parametrize(
    ("group", "match"),
    [
        ("0::/system.slice/ffrfs@data.service", "--unit=ffrfs@data.service"),
        ("2:cpu:/x\n0::/user.slice/user@1000.service/app.slice/m.service", "--user-unit=m.service"),
        ("0::/user.slice/session-2.scope", "_PID={pid}"),
        ("0::/", "_PID={pid}"),
    ],
)
def test_unit_is_found_by_the_control_group(group: str, match: str) -> None:
    assert daemon_log.match_in_group(group) == match.format(pid=os.getpid())


def test_log_on_standard_error_is_an_error_that_names_it(known: state.MountState) -> None:
    with pytest.raises(MountError, match=f"process {known.process.pid}.* standard error"):
        find_log(known.mountpoint)


def test_log_of_a_path_without_a_mount(tmp_path: Path) -> None:
    done = ffrfs("log", tmp_path)
    mount_command_fails(done, 1, f"{tmp_path}: not mounted, and no mount of this user has ended")
    mount_command_fails(ffrfs("log", "/proc"), 1, "not an ffrfs mount, but one of type proc")


def log_of(path: Path, older: Path | None = None, daemon: Process = NOBODY) -> MountLog:
    mount = state.MountState(
        **{"mountpoint": "/mnt", "pack": "/x.ffr", "log_file": str(path)},
        process=daemon,
        created_mountpoint=False,
    )
    return MountLog(str(path), str(older) if older else None, mount)


def test_older_part_of_the_log_comes_first(tmp_path: Path) -> None:
    older, log = tmp_path / "x.log.1", tmp_path / "x.log"
    older.write_bytes(b"one\ntwo\n")
    log.write_bytes(b"three\nhal")
    lines = [line for some in read_log(log_of(log, older)) for line in some]
    assert lines == [b"one", b"two", b"three", b"hal"]
    older.unlink()  # as if it had disappeared just now
    assert [line for some in read_log(log_of(log, older)) for line in some] == [b"three", b"hal"]


def test_moved_or_emptied_log_file_is_still_followed(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"one\n")
    daemon = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    process = Process.of(daemon.pid)
    assert process is not None
    try:
        lines = read_log(log_of(log, daemon=process), follow=True)
        assert next(lines) == [b"one"]
        with open(log, "ab") as file:
            file.write(b"two\n")
        log.rename(tmp_path / "x.log.1")
        log.write_bytes(b"three\n")
        assert next(lines) == [b"two"]
        assert next(lines) == [b"three"]
        log.write_bytes(b"four\n")
        assert next(lines) == [b"four"]
    finally:
        daemon.kill()
        daemon.communicate()
    with open(log, "ab") as file:
        file.write(b"the last\n")
    assert list(lines) == [[b"the last"]]
