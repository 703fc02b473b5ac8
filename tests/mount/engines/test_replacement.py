"""A worker that dies is replaced on the same connection, and no reader notices."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from ffrfs import pack_folder
from ffrfs.mount.client import control_client
from ffrfs.mount.engines.worker import PATH_VARIABLE, worker_path
from ffrfs.mount.engines.worker_deaths import IN_ROW_MAX
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import TIMEOUT_S, Mount, children, ffrfs, start_ffrfs, wait_until
from tests.mount.disk import Disk
from tests.mount.disk_files import ALL_NAMES, content
from tests.mount.makers import MakeMount, PackTree
from tests.mount.process_status import descriptors
from tests.mount.readers import readers_at_work, wait_for_reads
from tests.mount.trouble_reader import read_through_trouble
from tests.mount.without_resend import worker_without_resend

FILE_COUNT = 40
TREE = {f"{i:03d}": random.Random(i).randbytes(60_000 + 1000 * i) for i in range(FILE_COUNT)}
LARGE = random.Random("large").randbytes(6 << 20)
READER_COUNT = 8
TROUBLE_S = 1.0
OPTIONS = ("--read-around", "off")  # so that each first read of a file takes a request
# Waits while there is a file "held", and fails if there is "broken"; else runs the worker.
SWITCHED_WORKER = """\
#!/bin/sh
while test -e "$(dirname "$0")/held"; do sleep 0.05; done
test -e "$(dirname "$0")/broken" && exit 7
exec "{worker}" "$@"
"""
pytestmark = [
    pytest.mark.parametrize("engine", ["native"], indirect=True),
    pytest.mark.promise("S19"),
]


@pytest.fixture
def pack(pack_tree: PackTree) -> Path:
    return pack_tree({"d": dict(TREE), "large": LARGE})


def connections(worker: int) -> list[Path]:
    """Return the worker's connections to the kernel, also those of its threads."""
    found = descriptors(worker).items()
    return [Path(f"/proc/{worker}/fd/{fd}") for fd, name in found if name == "/dev/fuse"]


def blocks(fd: Path) -> bool:
    """Return whether a read of it waits; otherwise an idle worker would use a whole CPU."""
    (flags,) = re.findall(
        r"^flags:\s+(\d+)$", (fd.parents[1] / "fdinfo" / fd.name).read_text(), re.M
    )
    return not int(flags, 8) & os.O_NONBLOCK


@pytest.fixture
def broken(places: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a file: while it exists, no worker starts."""
    program = places / "worker"
    program.write_text(SWITCHED_WORKER.format(worker=worker_path()))
    program.chmod(0o755)
    monkeypatch.setenv(PATH_VARIABLE, str(program))
    return places / "broken"


def worker_figures(tree: Mount) -> dict[str, Any]:
    figures: dict[str, Any] = tree.statistics()["worker"]
    return figures


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGSYS])
def test_readers_do_not_notice_the_death_of_a_worker(tree: Mount, number: signal.Signals) -> None:
    tree.expect_log(f"the worker was killed by {number.name}: (it has logged nothing|slow )")
    with readers_at_work(tree, "d", TREE), child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        for _ in range(3):
            tree.replace_worker(number)
            wait_for_reads(tree)
        assert holder.next() == LARGE[1:]
    figures = worker_figures(tree)
    assert (figures["deaths"], figures["causes"]) == (3, {number.name: 3})
    assert figures["longest_pause_s"] > 0
    assert tree.statistics()["unreadable_files"] == 0
    assert ffrfs("umount", tree.path).status == 0


def test_worker_that_is_killed_as_soon_as_it_serves(tree: Mount) -> None:
    tree.expect_log("killed by SIGKILL")
    with readers_at_work(tree, "d", TREE):
        for _ in range(3):
            for _ in range(IN_ROW_MAX - 2):
                tree.replace_worker()
            wait_for_reads(tree)


def test_requests_in_flight_are_resent(new_mount: MakeMount, disk: Disk) -> None:
    tree = new_mount(disk.pack)
    assert tree.mount(*OPTIONS).status == 0
    tree.expect_log("killed by SIGKILL")
    disk.stall("stalled")
    with child(probes.read, tree / "stalled") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        tree.replace_worker()
        assert not reader.has_answered()
        disk.go()
        assert len(reader.answer()) > 0
    assert worker_figures(tree)["resent"] >= 1


def test_file_that_ends_the_worker_twice_is_quarantined(new_mount: MakeMount, disk: Disk) -> None:
    """Three workers start: one after each death, and one for the restart."""
    tree = new_mount(disk.pack)
    assert tree.mount(*OPTIONS).status == 0
    tree.expect_log("killed by SIGSEGV")
    tree.expect_log("cannot read stalled: it has ended the worker twice")
    disk.stall("stalled")
    with child(probes.errno_of, tree / "stalled", "read") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        tree.replace_worker(signal.SIGSEGV)
        disk.wait_for("stalled")
        assert not reader.has_answered()
        tree.replace_worker(signal.SIGSEGV)
        assert reader.answer() == errno.EIO
    disk.go()
    assert worker_figures(tree)["quarantined"] == 1
    tree.count_logged("cannot read stalled")  # this line comes after the answer
    told = json.loads(ffrfs("stats", "--errors", "--json", tree.path).out)
    assert [file["path"] for file in told["files"]] == ["stalled"]
    tree.checked(1)
    assert ffrfs("restart", tree.path).status == 0
    assert worker_figures(tree)["quarantined"] == 0
    assert len(tree.ask(probes.read, "stalled")) > 0


def test_after_five_deaths_in_a_row_reads_fail_until_restart(
    broken: Path, mount: MakeMount, pack: Path
) -> None:
    tree = mount(pack, *OPTIONS)
    tree.expect_log("killed by SIGKILL")
    tree.expect_log("no other worker: the worker ended with status 7 before the packs were open")
    tree.expect_log("no worker can begin: .*; all reads fail until `ffrfs restart`")
    with child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        broken.touch()
        os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
        wait_until(lambda: tree.statistics()["refusal"] is not None, "it gives up")
        assert tree.ask(probes.errno_of, "d/000", "read") == errno.EIO
        advice = f"try: ffrfs restart {tree.path}"
        tree.checked(2, "all reads fail: no worker can begin: the worker ended with", advice)
        broken.unlink()
        assert ffrfs("restart", tree.path).status == 0
        assert tree.statistics()["refusal"] is None
        assert holder.next() == LARGE[1:]
    assert tree.ask(probes.read, "d/000") == TREE["000"]
    tree.checked(0)


@pytest.mark.parametrize("is_mended", [False, True])
def test_daemon_that_dies_while_reads_fail_leaves_the_mount(
    is_mended: bool, broken: Path, mount: MakeMount, pack: Path
) -> None:
    """Unless the worker is mended, the next daemon itself gets an error from the tree."""
    tree = mount(pack, *OPTIONS)
    tree.expect_log("killed by SIGKILL")
    tree.expect_log("no other worker: the worker ended with status 7 before the packs were open")
    tree.expect_log("no worker can begin: .*; all reads fail until `ffrfs restart`")
    tree.expect_log("the daemon before this one|the worker has ended")
    broken.touch()
    os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
    wait_until(lambda: tree.statistics()["refusal"] is not None, "it gives up")
    if is_mended:
        broken.unlink()
    tree.replace_daemon()
    tree.wait_until_anew()
    if not is_mended:
        wait_until(lambda: tree.statistics()["refusal"] is not None, "it gives up, too")
        assert tree.ask(probes.errno_of, "d/000", "read") == errno.EIO
        broken.unlink()
        assert ffrfs("restart", tree.path).status == 0
    assert tree.ask(probes.read, "d/000") == TREE["000"]
    assert all(blocks(fd) for fd in connections(tree.statistics()["worker_pid"]))


def test_storage_that_fails_while_a_worker_starts(new_mount: MakeMount, disk: Disk) -> None:
    """Reads fail as long as the storage fails."""
    tree = new_mount(disk.pack)
    assert tree.mount(*OPTIONS).status == 0
    tree.expect_log("killed by SIGKILL")
    tree.expect_log("no other worker: .*Input/output error")
    tree.expect_log("the packs cannot be opened: .*; all reads fail until they can")
    disk.fail_all()
    os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
    wait_until(lambda: tree.statistics()["refusal"] is not None, "it gives up")
    assert tree.ask(probes.errno_of, "cold", "read") == errno.EIO
    tree.checked(2, "all reads fail: the packs cannot be opened")
    tree.expect_log("restart: no worker can begin")
    done = ffrfs("restart", tree.path)
    assert done.status != 0
    assert re.search("no worker can begin: .*Input/output error.*; all reads fail$", done.err)
    disk.go()
    wait_until(lambda: tree.statistics()["refusal"] is None, "it goes on")
    assert tree.ask(probes.read_all_in, "", ALL_NAMES) == [content(name) for name in ALL_NAMES]


def test_parts_are_warmed_by_the_next_worker(broken: Path, mount: MakeMount, pack: Path) -> None:
    """A client that asks between two workers asks again, and gets no error."""
    tree = mount(pack, *OPTIONS)
    tree.expect_log("killed by SIGKILL")
    held = broken.with_name("held")
    held.touch()
    tree.ask(probes.listdir, "d")
    with start_ffrfs("warm", tree.path) as warming:
        os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
        wait_until(lambda: worker_figures(tree)["deaths"] == 1, "it has died")
        assert control_client.ask(str(tree.path), "warm", ino=1)["begun"] > 0
        held.unlink()
        _, errors = warming.communicate(timeout=TIMEOUT_S)
    assert (warming.returncode, errors) == (0, "")


def test_mount_without_a_worker_can_be_unmounted(
    broken: Path, mount: MakeMount, pack: Path
) -> None:
    tree = mount(pack, *OPTIONS)
    for text in ("killed by SIGKILL", "no other worker", "no worker can begin"):
        tree.expect_log(text)
    broken.touch()
    os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
    wait_until(lambda: tree.statistics()["refusal"] is not None, "it gives up")
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()


def test_pack_that_was_replaced_is_not_served(
    mount: MakeMount, pack: Path, pack_tree: PackTree
) -> None:
    tree = mount(pack, *OPTIONS)
    other = pack_tree({"d": {name: bytes(len(data)) for name, data in TREE.items()}, "large": b""})
    other.rename(pack)
    done = ffrfs("restart", tree.path)
    assert done.status != 0
    assert f"{pack}: it was changed or replaced since it was mounted" in done.err
    assert "the old worker serves on" in done.err
    assert tree.ask(probes.read, "d/000") == TREE["000"]
    for text in ("restart: ", "killed by SIGKILL", "no other worker"):
        tree.expect_log(text)
    tree.expect_log("no worker can begin: .*: unmount, and mount it again; all reads fail$")
    os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
    wait_until(lambda: tree.statistics()["refusal"] is not None, "it gives up")
    assert tree.ask(probes.errno_of, "d/001", "read") == errno.EIO
    line = tree.checked(2, f"all reads fail: no worker can begin: {pack}: it was changed or")
    assert line.endswith(": unmount, and mount it again")


def test_mount_of_a_set_ignores_shards_appended_later(mount: MakeMount, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "added")]
    for folder in folders:
        folder.mkdir()
        for number in range(6):
            (folder / f"{folder.name} {number}").write_bytes(folder.name.encode() * 1000)
    packs = tmp_path / "set"
    pack_folder(folders[0], packs, shards=2)
    tree = mount(packs, *OPTIONS)
    pack_folder(folders[1], packs, append=True)
    names = [f"first {number}" for number in range(6)]
    tree.expect_log("killed by SIGKILL|the worker has ended")  # another daemon does not see how
    for _ in range(2):  # the second time with another daemon
        os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
        assert tree.ask(probes.read_all_in, "", names) == [b"first" * 1000] * 6
        assert sorted(tree.ask(probes.listdir, "")) == names
        assert ffrfs("restart", tree.path).status == 0


def test_restart_keeps_the_old_version_if_the_new_one_fails(
    new_mount: MakeMount, pack: Path, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(places))
    tree = new_mount(pack)
    assert tree.mount().status == 0
    before = tree.statistics()
    (places / "trio.py").write_text("raise ImportError('broken')\n")
    tree.expect_log("restart: the installed version does not start: ImportError: broken")
    done = ffrfs("restart", tree.path)
    assert done.status != 0
    assert "does not start: ImportError: broken; the old worker serves on" in done.err
    for name in ("daemon_pid", "worker_pid"):
        assert tree.statistics()[name] == before[name]


def test_daemon_that_dies_in_a_restart(broken: Path, mount: MakeMount, pack: Path) -> None:
    """The command asks the next daemon again."""
    tree = mount(pack, *OPTIONS)
    tree.expect_log("the daemon before this one")
    held = broken.with_name("held")
    held.touch()
    assert tree.process is not None
    before = len(children(tree.process))
    with start_ffrfs("restart", tree.path) as restarting:
        wait_until(lambda: len(children(tree.process)) > before, "it tries the other version")
        tree.replace_daemon()
        held.unlink()
        _, errors = restarting.communicate(timeout=TIMEOUT_S)
    assert (restarting.returncode, errors) == (0, "")
    assert worker_figures(tree)["restarts"] == 1


def test_restart_while_there_is_no_guardian(tree: Mount) -> None:
    """The daemon waits until there is another guardian, and only then ends."""
    tree.expect_log("the guardian has died; another one begins")
    for _ in range(2):
        before = tree.statistics()["daemon_pid"]
        tree.find_daemon()
        assert tree.guardian is not None
        os.kill(tree.guardian.pid, signal.SIGKILL)
        assert ffrfs("restart", tree.path).status == 0
        assert tree.statistics()["daemon_pid"] != before


def test_restart_under_readers(tree: Mount) -> None:
    with readers_at_work(tree, "d", TREE), child(probes.hold_open, tree / "large") as holder:
        assert holder.next() == LARGE[:1]
        before = tree.statistics()
        done = ffrfs("restart", tree.path)
        assert (done.status, done.out, done.err) == (0, "", "")
        assert tree.statistics()["worker_pid"] != before["worker_pid"]
        assert tree.statistics()["daemon_pid"] != before["daemon_pid"]
        assert holder.next() == LARGE[1:]
    assert (worker_figures(tree)["restarts"], worker_figures(tree)["deaths"]) == (1, 0)


def test_requests_in_flight_fail_if_the_kernel_cannot_resend(
    places: Path, new_mount: MakeMount, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests in flight fail, and nothing hangs."""
    monkeypatch.setenv(PATH_VARIABLE, str(worker_without_resend(places)))
    tree = new_mount(disk.pack)
    assert tree.mount(*OPTIONS).status == 0
    tree.expect_log("killed by SIGKILL")
    contents = {"stalled": tree.ask(probes.read, "stalled")}
    # Past the page cache, as the kernel repeats a READ for it that has failed.
    with child(probes.read_directly_until_it_fails, str(tree.path), contents, 0) as reader:
        assert reader.next() == "going"
        disk.stall("stalled")
        reader.ask_next()
        disk.wait_for("stalled")
        tree.replace_worker()
        assert reader.answer() == errno.EIO
    disk.go()
    assert tree.ask(probes.read, "stalled") == contents["stalled"]
    assert worker_figures(tree)["resent"] == 0


def test_requests_that_a_dying_worker_takes_do_not_hang(
    places: Path, new_mount: MakeMount, pack_tree: PackTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On their way out its threads still take waiting requests, and do not note them."""
    monkeypatch.setenv(PATH_VARIABLE, str(worker_without_resend(places)))
    tree = new_mount(pack_tree({name: content(name) for name in ALL_NAMES}))
    assert tree.mount(*OPTIONS).status == 0
    tree.expect_log("killed by SIGKILL")
    with contextlib.ExitStack() as stack:
        readers = [
            stack.enter_context(child(read_through_trouble, tree / "", TROUBLE_S, seed))
            for seed in range(READER_COUNT)
        ]
        for reader in readers:
            assert reader.next() == "ready"
        for reader in readers:
            reader.ask_next()
        while not any(reader.has_answered() for reader in readers):
            tree.replace_worker()
            before = tree.requests_now()["read"]
            wait_until(
                lambda before=before: (
                    tree.requests_now()["read"] > before
                    or all(reader.has_answered() for reader in readers)
                ),
                "it answers",
            )
        for _, errors, wrong, _ in (reader.answer() for reader in readers):
            assert errors <= {errno.EIO}
            assert wrong == []
