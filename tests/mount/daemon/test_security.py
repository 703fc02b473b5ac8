"""What a mount's processes may still do, and what packs and other users cannot make them do.

Not here: the filter of system calls (tests/native/fuse/syscall_filter_test.cc).
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ffrfs.errors import MountError
from ffrfs.mount.engines.worker import PATH_VARIABLE
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.uring import queue_count
from tests.checkout import CHECKOUT
from tests.index_file import Index, Tree, indexed_pack
from tests.mount import probes
from tests.mount.child import ask
from tests.mount.command import Mount, ffrfs, mount_command_fails, wait_until
from tests.mount.makers import (
    ORDINARY_USER_ID,
    AskAsUser,
    MakeMount,
    PackTree,
    by_all_ways,
    by_both,
)
from tests.mount.process_status import CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, open_files, privileges

NOTHING = {field: {0} for field in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
FILTERED = 2
KEPT_BY_ROOT = 1 << CAP_SYS_ADMIN | 1 << CAP_DAC_OVERRIDE
TREE = {f"{number:03}": os.urandom(5000) for number in range(200)} | {"large": bytes(9 << 20)}

# A worker under a sanitizer needs more system calls: it has no filter, and logs that.
needs_filter = pytest.mark.skipif(
    PATH_VARIABLE in os.environ, reason="a worker that was built for tests is not filtered"
)


@pytest.fixture
def tree(mount: MakeMount, pack_tree: PackTree) -> Mount:
    return mount(pack_tree({"d": dict(TREE)}))


def use(tree: Mount) -> None:
    """Use the mount so that it has started every kind of thread."""
    digests = tree.ask(probes.digests, "d")
    assert digests.keys() == TREE.keys()
    paths = "\0".join(tree / f"d/{name}" for name in TREE)
    assert ffrfs("prefetch", tree.path, "-0", "--from", "-", stdin=text_file(paths)).status == 0


def text_file(text: str) -> int:
    fd = os.memfd_create("text")
    os.write(fd, os.fsencode(text))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


# What the processes may do.


@needs_filter
@pytest.mark.promise("S54")
@pytest.mark.parametrize("engine", ["native", "uring"], indirect=True)
def test_worker_has_no_privilege_and_gains_none(root_user: None, tree: Mount) -> None:
    use(tree)
    assert tree.worker is not None
    assert privileges(tree.worker.pid) == NOTHING | {
        "CapBnd": {KEPT_BY_ROOT},  # nobody can use it, because of no_new_privs
        "NoNewPrivs": {1},
        "Seccomp": {FILTERED},
    }


@needs_filter
@pytest.mark.promise("S54")
def test_worker_of_a_url_has_no_privilege_either(
    root_user: None, new_mount: MakeMount, pack_tree: PackTree, tmp_path: Path
) -> None:
    tree = new_mount(f"file://{pack_tree({'d': dict(TREE)})}")
    assert tree.mount("--cache-dir", str(tmp_path / "cache")).status == 0
    use(tree)
    assert tree.worker is not None
    found = privileges(tree.worker.pid)
    assert found.items() >= {**NOTHING, "NoNewPrivs": {1}, "Seccomp": {FILTERED}}.items()


@by_both
@pytest.mark.promise("S54")
def test_daemon_of_root_keeps_only_capabilities_to_unmount(root_user: None, tree: Mount) -> None:
    use(tree)
    assert tree.process is not None
    kept = {KEPT_BY_ROOT}
    found = privileges(tree.process.pid)
    del found["Seccomp"]  # a container may have a filter of its own
    assert found == {
        **dict.fromkeys(("CapPrm", "CapEff", "CapBnd"), kept),
        **{field: {0} for field in ("CapInh", "CapAmb")},
        "NoNewPrivs": {1},
    }
    tree.signal(signal.SIGTERM)
    tree.wait_for_daemon()
    assert not tree.is_mounted
    assert not tree.path.exists()


@needs_filter
@pytest.mark.promise("S54")
@by_all_ways
def test_processes_of_an_ordinary_user_have_no_privilege(
    engine: str, as_ordinary_user: AskAsUser
) -> None:
    seen = as_ordinary_user("ordinary_user.py", engine, "has_privileges")
    assert (seen["bytes"], seen["left"]) == ("content", ["ffrfs"])
    nothing = {field: [0] for field in NOTHING}
    assert seen["daemon"].items() >= nothing.items()
    assert len(seen["workers"]) == (0 if engine == "pyfuse3" else 1)
    for worker in seen["workers"]:
        assert worker.items() >= {**nothing, "NoNewPrivs": [1], "Seccomp": [FILTERED]}.items()


@pytest.mark.promise("S54")
def test_worker_that_is_stopped_by_the_filter_is_named(tree: Mount) -> None:
    tree.expect_log("the worker was killed by SIGSYS")
    assert tree.worker is not None
    os.kill(tree.worker.pid, signal.SIGSYS)
    wait_until(lambda: tree.statistics()["worker"]["causes"] == {"SIGSYS": 1}, "it is counted")
    assert tree.ask(probes.read, "d/000") == TREE["000"]


@needs_filter
@pytest.mark.promise("S54")
def test_replaced_worker_is_confined_too(tree: Mount) -> None:
    tree.expect_log("the worker was killed by SIGKILL")
    assert tree.worker is not None
    before = privileges(tree.worker.pid)
    os.kill(tree.worker.pid, signal.SIGKILL)
    wait_until(lambda: tree.statistics()["worker"]["starts"] == 1, "another one serves")
    assert privileges(tree.statistics()["worker_pid"]) == before


@needs_filter
@pytest.mark.promise("S54")
def test_mount_without_seccomp_serves_and_logs_a_warning(
    root_user: None, new_mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = new_mount(pack_tree(dict(TREE)))
    wrapping = [sys.executable, str(CHECKOUT / "tests/mount/without_call.py"), "seccomp"]
    tree.expect_log("less protected than it could be: any system call can be made: ")
    assert tree.mount(prefix=wrapping).status == 0
    assert tree.ask(probes.read, "000") == TREE["000"]
    assert tree.count_logged("less protected") == 1
    assert tree.worker is not None
    found = privileges(tree.worker.pid)
    assert found["NoNewPrivs"] == {1}
    assert found.items() >= NOTHING.items()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("pidfd_open", errno.EPERM),
        ("pidfd_open", errno.ENOSYS),
        ("memfd_create", errno.EPERM),
        ("flock", errno.ENOSYS),
    ],
)
def test_a_call_that_a_container_denies_is_named(
    root_user: None, new_mount: MakeMount, pack_tree: PackTree, call: str, error: int
) -> None:
    tree = new_mount(pack_tree(dict(TREE)))
    program = str(CHECKOUT / "tests/mount/without_call.py")
    done = tree.mount(prefix=[sys.executable, program, f"{call}={errno.errorcode[error]}"])
    words = f"ffrfs: the system call {call} is denied here ({os.strerror(error)}): allow it in "
    mount_command_fails(done, 2, words)
    assert not tree.is_mounted


# What the processes hold open.


@pytest.mark.parametrize("engine", ["native", "uring"], indirect=True)
def test_worker_has_only_the_files_of_its_mount_open(tree: Mount) -> None:
    use(tree)
    assert tree.worker is not None
    found = open_files(tree.worker.pid)
    found.pop("[eventfd]")
    ring_count = found.pop("[io_uring]", 0)
    assert 0 < ring_count <= queue_count() if tree.engine == "uring" else ring_count == 0
    assert found == {
        "/dev/null": 2,
        "pipe": 1,  # the log
        "socket": 1,  # to the daemon; the client that hinted has gone
        "/memfd:ffrfs-counters (deleted)": 1,
        str(tree.pack): 2,  # one through the page cache, one for direct reads
        "/dev/fuse": 1,
    }


@by_both
def test_open_files_of_the_caller_are_not_inherited(
    new_mount: MakeMount, pack_tree: PackTree, tmp_path: Path
) -> None:
    tree = new_mount(pack_tree({"file": b"content"}))
    secret = tmp_path / "secret"
    with secret.open("w") as file:
        assert tree.mount(pass_fds=[file.fileno()]).status == 0
    for process in (tree.process, tree.worker):
        assert process is None or str(secret) not in open_files(process.pid)


# What root can still do with fewer capabilities.


@contextmanager
def owned_by_another(path: Path, mode: int) -> Iterator[None]:
    os.chown(path, ORDINARY_USER_ID, ORDINARY_USER_ID)
    path.chmod(mode)
    try:
        yield
    finally:
        path.chmod(0o755)


def test_root_mounts_and_unmounts_in_folders_of_other_users(
    root_user: None, new_mount: MakeMount, pack_tree: PackTree, places: Path
) -> None:
    theirs = places / "theirs"
    theirs.mkdir()
    pack = pack_tree({"file": b"content"}).rename(theirs / "a.ffr")
    tree = new_mount(pack, mountpoint=theirs / "made")
    with owned_by_another(pack, 0o400), owned_by_another(theirs, 0o500):
        assert tree.mount().status == 0
        assert tree.ask(probes.read, "file") == b"content"
        tree.signal(signal.SIGTERM)
        wait_until(lambda: not tree.path.exists(), "the mount point is gone")
        tree.wait_for_daemon()


# What packs and other users cannot make the processes do.


def claim_power(index: Index) -> None:
    """Claim a device and special bits. Slots: 1 d, 2 d/device, 3 d/folder, 4 d/program."""
    index.inodes[2].mode = stat.S_IFCHR | 0o666
    index.inodes[3].mode |= 0o7000
    index.inodes[4].mode |= 0o7000


@by_both
@pytest.mark.promise("S55")
def test_special_bits_and_devices_are_never_shown(
    root_user: None, new_mount: MakeMount, tmp_path: Path
) -> None:
    pack = tmp_path / "pack.ffr"
    entries: Tree = {b"device": b"is none", b"folder": {}, b"program": b"#!/bin/true"}
    pack.write_bytes(indexed_pack({b"d": entries}, claim_power))
    mounted = new_mount(pack)
    assert mounted.mount("-o", "suid,dev").status == 0
    modes = {name: mounted.ask(probes.stat, f"d/{name}").st_mode for name in ("folder", "program")}
    assert modes == {"folder": stat.S_IFDIR | 0o755, "program": stat.S_IFREG | 0o644}
    mounted.expect_log("bad index: slot 2: neither file, directory nor symbolic link")
    assert mounted.ask(probes.errno_of, "d/device", "read") == errno.EIO


@pytest.mark.promise("S55")
def test_names_cannot_add_mount_options(
    root_user: None, new_mount: MakeMount, pack_tree: PackTree, places: Path
) -> None:
    pack = pack_tree({"file": b"content"})
    pack = pack.rename(pack.with_name("a,allow_other,suid\\,dev\n.ffr"))
    tree = new_mount(pack, mountpoint=places / "b,allow_other,user_id=1\\ \n")
    assert tree.mount("-o", r"fsname=c\,allow_other\,suid").status == 0
    (line,) = [
        line
        for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
        if str(places) in line
    ]
    before, after = line.split(" - ")
    assert before.split()[5].startswith("ro,nosuid,nodev")
    assert after.split()[2].startswith("ro,user_id=0,group_id=0,default_permissions")
    assert "allow_other" not in after.split()[2]
    assert tree.ask(probes.errno_of, "file", "read", user_id=ORDINARY_USER_ID) == errno.EACCES


@pytest.mark.promise("S55")
def test_unsafe_runtime_directory_is_refused(
    root_user: None, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign, place = places / "foreign", places / "ffrfs"
    foreign.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(places))

    def refused(reason: str) -> None:
        with pytest.raises(MountError, match=f"^{place}: {reason}"):
            ask(state.runtime_directory, user_id=ORDINARY_USER_ID)

    place.symlink_to(foreign)
    refused(f"must be a directory of user {ORDINARY_USER_ID}")
    place.unlink()
    place.mkdir(mode=0o700)
    refused(f"must be a directory of user {ORDINARY_USER_ID}")
    os.chown(place, ORDINARY_USER_ID, ORDINARY_USER_ID)
    place.chmod(0o770)
    refused("must be closed to other users")
    place.chmod(0o700)
    assert ask(state.runtime_directory, user_id=ORDINARY_USER_ID) == str(place)
    assert not any(foreign.iterdir())
