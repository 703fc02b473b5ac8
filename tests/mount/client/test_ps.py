"""`ffrfs ps` lists the mounts and their states."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.client.mount_statuses import mount_statuses
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import MountEntry, read_mount_table
from tests.checkout import CHECKOUT
from tests.leftovers import check_nothing_left, run_alone
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import Mount, ffrfs, stop, wait_until
from tests.mount.makers import MakeMount, PackTree, by_both
from tests.mount.waiting import waited_s

TREE = {"a": b"alpha" * 10_000}
ANSWER_LIMIT_S = 2.0


def seen(tree: Mount) -> dict[str, Any]:
    """Return what `ffrfs ps --json` says of `tree`; other tests may have mounts, too.

    A daemon has 1.5 s to answer, which a busy machine may need.
    """
    found: dict[str, Any] = {}

    def has_answered() -> bool:
        done = ffrfs("ps", "--json")
        assert (done.status, done.err) == (0, "")
        (one,) = [one for one in json.loads(done.out) if one["mountpoint"] == str(tree.path)]
        found.clear()
        found.update(one)
        return bool(one["state"] != "not answering")

    wait_until(has_answered, "it has answered")
    return found


@by_both
@pytest.mark.promise("S51")
def test_live_mount(tree: Mount, pack_tree: PackTree, new_mount: MakeMount) -> None:
    assert tree.process is not None
    requests = tree.requests()
    told = seen(tree)
    rate = told.pop("requests_per_s")
    assert rate is None or rate >= 0
    assert 0 < told.pop("age_s") < 120
    assert told == {
        "mountpoint": str(tree.path),
        "pid": tree.process.pid,
        "worker_pid": tree.worker.pid if tree.worker else None,
        "fetcher_pid": None,
        "changed_objects": 0,
        "transport": "dev",
        "packs": [str(tree.pack)],
        "state": "live",
        "log_file": str(tree.log_file),
        "journal": None,
    }
    assert tree.requests() == requests  # the mount was not touched


@pytest.mark.promise("S51")
def test_mounts_of_silent_daemons_are_listed_in_time(tree: Mount, mount: MakeMount) -> None:
    trees = [tree, *(mount(tree.pack) for _ in range(3))]
    for one in trees:
        assert one.process is not None
        stop(one.process.pid)
    try:
        began_s = waited_s()
        found = {one.mountpoint: one for one in mount_statuses()}
        took_s = waited_s() - began_s
    finally:
        for one in trees:
            one.signal(signal.SIGCONT)
    assert took_s < ANSWER_LIMIT_S
    for one in trees:
        assert one.process is not None
        told = found[str(one.path)]
        assert (told.state, told.pid, told.requests_per_s) == (
            *("not answering", one.process.pid),
            None,
        )
        assert told.age_s is not None
        assert told.age_s >= 0
    assert seen(tree)["state"] == "live"


def test_mount_table_is_not_read_once_per_mount(
    known: state.MountState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "load_all", lambda: [(str(tmp_path), known)] * 3)
    reads: list[int] = []

    def read() -> list[MountEntry]:
        reads.append(1)
        return read_mount_table()

    module = sys.modules[mount_statuses.__module__]
    monkeypatch.setattr(module, "read_mount_table", read)
    assert len(mount_statuses()) >= 3
    assert len(reads) <= 2


def test_mount_point_with_a_newline_is_shown_on_one_line(
    mount: MakeMount, pack_tree: PackTree, places: Path
) -> None:
    tree = mount(pack_tree(TREE), mountpoint=places / "new\nline")
    shown = str(tree.path).replace("\n", "\\n")
    for command in (["ps"], ["check", str(tree.path)], ["stats", str(tree.path)]):
        lines = ffrfs(*command).out.split("\n")
        assert sum(shown in line for line in lines) == 1, command
        assert not [line for line in lines if line.startswith("line")], command


@pytest.mark.promise("S51")
def test_dead_mount(tree: Mount) -> None:
    assert tree.process is not None
    pid = tree.process.pid
    tree.kill()
    tree.wait_for_daemon()
    told = seen(tree)
    assert (told["state"], told["pid"], told["worker_pid"]) == ("dead", pid, None)
    assert told["packs"] == [str(tree.pack)]
    assert told["age_s"] > 0


@pytest.mark.promise("S51")
def test_mount_detached_by_another_program(root_user: None, tree: Mount) -> None:
    with child(probes.hold_open, tree / "a") as reader:
        reader.next()
        subprocess.run(["umount", "--lazy", str(tree.path)], check=True, timeout=20)
        assert seen(tree)["state"] == "detached"
        assert reader.next() == TREE["a"][1:]
    tree.wait_for_daemon()


def test_mount_without_a_state_file(tree: Mount) -> None:
    found = state.find(str(tree.path))
    assert found is not None
    os.unlink(state._path(found[0], str(tree.path)))
    assert seen(tree) == {
        "mountpoint": str(tree.path),
        "pid": None,
        "worker_pid": None,
        "fetcher_pid": None,
        "changed_objects": None,
        "transport": None,
        "packs": [str(tree.pack)],
        "state": "unknown",
        "age_s": None,
        "requests_per_s": None,
        "log_file": None,
        "journal": None,
    }


@pytest.mark.promise("S51")
def test_all_packs_are_named(mount: MakeMount, pack_tree: PackTree, tmp_path: Path) -> None:
    first = pack_tree(TREE).rename(tmp_path / "first.ffr")
    second = pack_tree({"b": b"beta"}).rename(tmp_path / "second.ffr")
    tree = mount(first, second)
    assert seen(tree)["packs"] == [str(first), str(second)]


def test_columns_of_the_table(tree: Mount, mount: MakeMount, places: Path) -> None:
    other = mount(tree.pack, mountpoint=places / "a longer name")
    other.kill()
    other.wait_for_daemon()
    short = ffrfs("ps").out.splitlines()[0].split()
    assert short == ["STATE", "PID", "AGE", "REQ/S", "MOUNTPOINT", "PACKS"]
    done = ffrfs("ps", "-l")
    assert (done.status, done.err) == (0, "")
    title, *lines = done.out.splitlines()
    columns = [
        *("STATE", "PID", "WORKER", "TRANSPORT", "AGE", "REQ/S", "MOUNTPOINT", "LOG", "PACKS")
    ]
    assert title.split() == columns
    (live,) = [line for line in lines if f" {tree.path} " in line]
    (dead,) = [line for line in lines if f" {other.path} " in line]
    assert tree.process is not None
    assert live.split()[:2] == ["live", str(tree.process.pid)]
    assert dead.split()[0] == "dead"
    for line in (live, dead):
        assert line[title.index("MOUNTPOINT") - 1] == " "
        assert line[title.index("MOUNTPOINT") :].startswith(str(places))
        assert line[title.index("PACKS") :] == str(tree.pack)
    assert live[title.index("LOG") :].startswith(str(tree.log_file))


# These tests run in separate namespaces, because other tests have mounts here.


@pytest.fixture
def alone(
    engine: str, pack_tree: PackTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Return the observations of all_mounts.py."""
    folder = tmp_path / "alone"
    folder.mkdir()
    program = CHECKOUT / "tests/mount" / "all_mounts.py"
    told: dict[str, Any] = run_alone(program, engine, pack_tree(TREE), folder, timeout_s=100)
    return told


@pytest.mark.long
@pytest.mark.promise("S51")
def test_ps_and_umount_all_of_every_kind_of_mount(alone: dict[str, Any]) -> None:
    assert alone["ps of none"] == [0, "", ""]
    assert alone["ps --json of none"] == [0, "[]\n", ""]
    assert alone["umount of none"] == [0, "", ""]

    assert alone["before"] == {
        **{"live": "live", "live/inside": "live", "busy": "live", "dead": "dead"},
        **{"gone": "dead", "unknown": "unknown", "covered": "live", "unknown dead": "unknown"},
    }
    status, out, err = alone["umount --all"]
    assert (status, out) == (1, "")
    # One line about the mount that cannot be unmounted, and one about the mount in use.
    assert len(err.splitlines()) == 2, err
    covered, busy = sorted(err.splitlines())[::-1]
    if "busy" in covered:
        covered, busy = busy, covered
    assert "not an ffrfs mount, but one of type tmpfs" in covered
    assert "/busy: busy, so detached" in busy
    assert alone["after"] == {"unknown": "unknown", "covered": "live"}
    assert alone["unknown is read"] == "alpha" * 10_000
    assert alone["covered is read"] == "alpha" * 10_000
    assert alone["busy is read"] == "alpha" * 10_000
    assert alone["in the end"] == [[0, "", ""], {}]
    check_nothing_left(alone["expected"], alone["left"])
