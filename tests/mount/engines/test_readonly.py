"""Nothing in a mounted tree can be changed."""

from __future__ import annotations

import errno
import subprocess

import pytest

from tests.mount import probes
from tests.mount.command import Mount
from tests.mount.makers import MakeMount, PackTree

# act: the path it is tried on
ACTS = {
    "open for writing": "file",
    "open for reading and writing": "file",
    "open and truncate": "file",
    "append": "file",
    "write": "file",
    "create": "new",
    "mkdir": "new",
    "rmdir": "empty",
    "unlink": "file",
    "rename": "file",
    "link": "file",
    "symlink": "new",
    "mknod": "new",
    "chmod": "file",
    "chown": "file",
    "utime": "file",
    "truncate": "file",
    "setxattr": "file",
    "removexattr": "file",
    "open for reading and truncate": "file",  # last: the kernel then stops asking native
}


def check_all_refused(tree: Mount, without: frozenset[str] = frozenset()) -> None:
    for act, path in ACTS.items():
        if act in without:
            continue
        further = [tree / "other"] if act in ("rename", "link") else []
        assert tree.ask(probes.errno_of, path, act, *further) == errno.EROFS, act
    assert sorted(tree.ask(probes.listdir, "")) == ["empty", "file"]
    assert tree.ask(probes.read, "file") == b"content"


@pytest.fixture
def tree(new_mount: MakeMount, pack_tree: PackTree) -> Mount:
    made: Mount = new_mount(pack_tree({"file": b"content", "empty": {}}))
    assert made.mount("-o", "rw,xattr").status == 0  # with a warning
    return made


@pytest.mark.promise("S7")
def test_every_change_is_refused(tree: Mount) -> None:
    check_all_refused(tree)
    for act, path in (("create without a name", "empty"), ("fallocate", "file")):
        assert tree.ask(probes.errno_of, path, act) == errno.EROFS, act


@pytest.mark.promise("S7")
def test_every_change_is_refused_even_after_a_remount(root_user: None, tree: Mount) -> None:
    # Now the kernel does not refuse by itself, but asks the daemon.
    command = ["mount", "-i", "-o", "remount,rw", str(tree.path)]
    subprocess.run(command, check=True, timeout=20)
    check_all_refused(tree)
    # By now the kernel knows that it need not ask the native engine to open a file: only the
    # use of an opened file is refused.
    # The kernel itself answers these, once an engine has said that it does not know them.
    for act, path in (("create without a name", "empty"), ("fallocate", "file")):
        assert tree.ask(probes.errno_of, path, act) in (errno.EOPNOTSUPP, errno.EROFS), act
    opens = ("open for writing", "open for reading and writing", "open and truncate", "append")
    check_all_refused(tree, without=frozenset(opens if tree.engine != "pyfuse3" else ()))
    for act in opens:
        assert tree.ask(probes.errno_of, "file", act) in (0, errno.EROFS)
        assert tree.ask(probes.stat, "file").st_size == len(b"content")
        assert tree.ask(probes.read, "file") == b"content"
