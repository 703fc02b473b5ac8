"""`ffrfs check` rates each mount in one word within a second, in whatever state the mount is."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from ffrfs import pack_folder
from ffrfs.mount.client.health import TIMEOUT_S
from ffrfs.mount.kernel import state
from ffrfs.mount.stats import figures
from tests.ffrecord_file import flip_byte, record_extents
from tests.folder.folder_model import make_folder
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import Done, Mount, ffrfs, mount_command_fails, stop, wait_until
from tests.mount.disk import Disk
from tests.mount.makers import AskAsUser, MakeMount, PackTree, by_both
from tests.own_mounts import with_copy_of

TREE = {"a": b"alpha" * 10_000, "b": b"beta"}
# The part of a second that the mounts may take; the rest is for the start of the program.
LIMIT_S = TIMEOUT_S + 0.1
# Runs `ffrfs check` and prints how long it waited.
PROGRAM = """
import sys
from ffrfs.cli.main import main
from tests.mount.waiting import waited_s
began_s = waited_s()
main(["check", *sys.argv[1:]])
print(waited_s() - began_s)
"""
STALL_LIMIT_S = 60.0


def check(*places: Path) -> Done:
    done = ffrfs("check", *places)
    assert done.err == ""
    return done


def is_in_time(*places: Path) -> bool:
    """Return whether `ffrfs check` takes less than a second on a machine that is not busy."""
    done = run([sys.executable, "-c", PROGRAM, *places], capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1]) < LIMIT_S


@pytest.mark.promise("S59")
def test_healthy_mount(tree: Mount) -> None:
    assert "live, mounted for 00:" in tree.checked(0)
    assert is_in_time(tree.path)


@by_both
@pytest.mark.promise("S59")
def test_file_that_could_not_be_read_is_a_warning(mount: MakeMount, pack_tree: PackTree) -> None:
    pack = pack_tree(dict(TREE))
    flip_byte(pack, record_extents(pack)[0][0])
    tree = mount(pack)
    tree.expect_log("cannot read a")
    tree.checked(0)
    tree.ask(probes.errno_of, "a", "read")
    line = tree.checked(1, "1 file could not be read")
    assert f"ffrfs stats --errors {tree.path}" in line

    def is_counted() -> bool:  # an answer may be late on a busy machine
        (told,) = json.loads(ffrfs("check", "--json", tree.path).out)
        is_one = (told["status"], told["unreadable_files"]) == ("warning", 1)
        return is_one and told["read_failures"] >= 1

    wait_until(is_counted, "it is counted")


@pytest.mark.promise("S59")
@pytest.mark.parametrize("shards", [None, 2])
def test_replaced_pack_is_a_warning(mount: MakeMount, tmp_path: Path, shards: int | None) -> None:
    source, packs = make_folder(tmp_path / "source", dict(TREE)), tmp_path / "packs"
    packs.mkdir()
    pack_folder(source, packs / "x.ffr", shards=shards)
    tree = mount(packs / "x.ffr")
    tree.checked(0)
    pack = min((packs / "x.ffr").iterdir()) if shards else packs / "x.ffr"
    pack.rename(packs / "old")
    tree.checked(0)  # a pack that was removed stays mounted
    (packs / "new").write_bytes((packs / "old").read_bytes())
    (packs / "new").rename(pack)
    line = tree.checked(1, "was replaced since it was mounted; the mount shows the old one")
    assert f": {pack} was replaced" in line
    assert tree.ask(probes.read, "a") == TREE["a"]


@by_both
@pytest.mark.promise("S59")
@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "renamed"])
def test_moved_pack_that_was_truncated_is_a_warning(
    mount: MakeMount, pack_tree: PackTree, is_removed: bool
) -> None:
    pack = pack_tree(dict(TREE))
    tree = mount(pack)
    other = pack.with_suffix(".old")
    pack.rename(other)
    tree.checked(0)
    os.truncate(other, other.stat().st_size - 1)
    if is_removed:
        other.unlink()
    tree.checked(1, f"{pack} was replaced since it was mounted")


@by_both
@pytest.mark.promise("S59")
def test_daemon_that_is_stopped(tree: Mount) -> None:
    assert tree.process is not None
    with tree.stopped():
        line = tree.checked(2)
        assert f"its daemon (process {tree.process.pid}) has not answered within 0." in line
        assert is_in_time(tree.path)
    tree.checked(0)
    assert tree.ask(probes.read, "a") == TREE["a"]


@pytest.mark.promise("S59")
def test_daemon_whose_socket_is_gone(tree: Mount) -> None:
    known = state.find(str(tree.path))
    assert known is not None
    with tree.stopped():  # a running daemon would make its socket again
        os.unlink(state.socket_path(known[0], str(tree.path)))
        tree.checked(2, "cannot ask its daemon", "No such file")
        assert is_in_time(tree.path)
    tree.checked(0)


@pytest.mark.promise("S59")
def test_worker_that_is_stopped(tree: Mount) -> None:
    assert tree.worker is not None
    stop(tree.worker.pid)
    try:
        # A worker that is stopped for 10 s is killed.
        tree.checked(2, "the mount does not answer, though its daemon does", timeout_s=8)
    finally:
        os.kill(tree.worker.pid, signal.SIGCONT)
    tree.checked(0)


def test_advised_commands_quote_a_mount_point_with_a_space(
    new_mount: MakeMount, pack_tree: PackTree
) -> None:
    pack = pack_tree(dict(TREE))
    tree = new_mount(pack, mountpoint=pack.parent / "a b")
    assert tree.mount().status == 0
    mount_command_fails(tree.mount(), 32, f"remove it with: ffrfs umount '{tree.path}'")
    tree.kill()
    tree.wait_for_daemon()
    line = tree.checked(2, "has died")
    assert f"remove the mount with: ffrfs umount '{tree.path}'" in line
    assert figures.advice("dead", str(tree.path)).endswith(f": ffrfs umount '{tree.path}'")
    assert ffrfs("umount", tree.path).status == 0


@by_both
@pytest.mark.promise("S59")
def test_dead_daemon_is_noticed_while_its_files_are_still_cached(tree: Mount) -> None:
    assert tree.process is not None
    with child(probes.hold_open, tree / "a") as reader:
        reader.next()  # now the kernel has the file in its caches
        tree.kill()
        tree.wait_for_daemon()
        line = tree.checked(2, f"its daemon (process {tree.process.pid}) has died")
        assert f"ffrfs umount {tree.path}" in line
    assert ffrfs("umount", tree.path).status == 0
    gone = f"CRITICAL {tree.path}: not mounted\n"
    wait_until(lambda: check(tree.path).out == gone, "it is not mounted")


def test_dead_mount_of_an_unknown_daemon(tree: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.kill()
    tree.wait_for_daemon()
    # As in a container that sees the mount, but not the runtime directory.
    prefix = hidden_runtime_directory(tree)
    dead = f"{tree.path}: dead: its daemon has ended"
    wait_until(lambda: dead in ffrfs("check", tree.path, prefix=prefix).out, "it is dead")
    assert ffrfs("umount", tree.path).status == 0


def test_live_mount_of_an_unknown_daemon(tree: Mount) -> None:
    prefix = hidden_runtime_directory(tree)
    well = f"OK {tree.path}: answers; its daemon is not known here\n"
    wait_until(lambda: ffrfs("check", tree.path, prefix=prefix).out == well, "it answers")
    hangs = "the mount does not answer; if that stays"
    with tree.stopped():
        wait_until(lambda: hangs in ffrfs("check", tree.path, prefix=prefix).out, "it hangs")


def hidden_runtime_directory(tree: Mount) -> list[str]:
    if os.geteuid() != 0:
        pytest.skip("only root can hide its runtime directory")
    return with_copy_of(tree.path, 'mount -t tmpfs none /run && exec "$@"')


@pytest.mark.promise("S59")
def test_status_is_that_of_the_worst_of_several_mounts(
    tree: Mount, mount: MakeMount, tmp_path: Path
) -> None:
    others = [mount(tree.pack) for _ in range(3)]
    places = [one.path for one in (tree, *others)]
    wait_until(lambda: check(*places).status == 0, "all are well")
    for one in others:
        assert one.process is not None
        stop(one.process.pid)

    def are_told() -> bool:
        """Return whether the output is right; on a busy machine an answer may come late."""
        done = check(*places, tmp_path, Path("/proc"))
        assert done.status == 2
        lines = done.out.splitlines()
        assert [line.split(": ")[0].split()[1] for line in lines] == [
            str(place) for place in (*places, tmp_path, "/proc")
        ]
        return (
            lines[0].startswith("OK")
            and all("has not answered" in line for line in lines[1:4])
            and lines[4:]
            == [
                f"CRITICAL {tmp_path}: not mounted",
                "CRITICAL /proc: not an ffrfs mount, but one of type proc",
            ]
        )

    try:
        wait_until(are_told, "all are told")
        assert is_in_time(*places)
    finally:
        for one in others:
            one.signal(signal.SIGCONT)


@pytest.mark.long
@pytest.mark.promise("S59")
def test_disk_that_stalls(stalling: Mount, disk: Disk) -> None:
    """A read that waits for five seconds is a warning; after ten seconds it is critical."""
    disk.stall("stalled")
    with child(probes.read, stalling / "stalled") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        assert is_in_time(stalling.path)
        stalling.checked(1, "reads have waited for storage for ", timeout_s=STALL_LIMIT_S)
        stalling.checked(2, "reads have waited for storage for ", timeout_s=STALL_LIMIT_S)
        disk.go()
        reader.answer()
    stalling.checked(0)


def test_path_below_a_hanging_mount_is_not_waited_for(tree: Mount) -> None:
    """The command does not wait for a path below a mount that hangs."""
    with tree.stopped():
        done = check(tree.path / "never looked up" / "place")
        assert is_in_time(tree.path / "nor this" / "place")
    assert done.status == 2
    assert "does not answer" in done.out


def test_json_output(tree: Mount, tmp_path: Path) -> None:
    tree.checked(0)
    done = ffrfs("check", "--json", tree.path, tmp_path)

    def is_well() -> bool:  # an answer may be late on a busy machine
        nonlocal done
        done = ffrfs("check", "--json", tree.path, tmp_path)
        well, bad = json.loads(done.out)
        return (well["status"], bad["text"]) == ("ok", "not mounted")

    wait_until(is_well, "it is well")
    well, bad = json.loads(done.out)
    assert well.pop("age_s") > 0
    assert well == {
        **{"mountpoint": str(tree.path), "status": "ok", "text": "live"},
        **{"unreadable_files": 0, "read_failures": 0, "storage_stalled_s": 0.0},
    }
    assert (bad["status"], bad["text"], bad["age_s"]) == ("critical", "not mounted", None)
    assert done.status == 2


@pytest.mark.long
def test_mount_of_an_ordinary_user(as_ordinary_user: AskAsUser) -> None:
    seen: dict[str, Any] = as_ordinary_user("ordinary_user.py", "pyfuse3", "checks")
    assert seen["user"] == ["ok", "live"]
    assert seen["root"] == ["ok", "answers; its daemon is not known here"]
    status, text = seen["other"]
    assert status == "critical"
    assert "for no others: check it as that user, or as root" in text
    assert seen["dead"][0] == "critical"
    assert seen["dead"][1].startswith("dead: its daemon has ended")
