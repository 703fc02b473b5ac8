"""Extended attributes: record number and checksum, on request only."""

from __future__ import annotations

import errno
import zlib

import pytest

from tests.mount import probes
from tests.mount.command import ENGINES
from tests.mount.makers import MakeMount, PackTree

SERVED_BY = ENGINES
TREE = {"a": b"alpha", "d": {"b": b""}}


@pytest.mark.promise("S8")
def test_files_show_record_and_checksum(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree(TREE), "-o", "xattr")
    for record, (path, data) in enumerate({"a": b"alpha", "d/b": b""}.items()):
        names = tree.ask(probes.listxattr, path)
        assert sorted(names) == ["user.ffrfs.crc32", "user.ffrfs.record"]
        assert tree.ask(probes.getxattr, path, "user.ffrfs.record") == b"%d" % record
        crc32 = tree.ask(probes.getxattr, path, "user.ffrfs.crc32")
        assert crc32 == b"%08x" % zlib.crc32(data)


def test_other_names_and_folders_have_no_xattrs(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree(TREE), "-o", "xattr")
    assert tree.ask(probes.errno_of, "a", "getxattr of another name") == errno.ENODATA
    assert tree.ask(probes.errno_of, "d", "getxattr") == errno.ENODATA
    assert tree.ask(probes.listxattr, "d") == []


@pytest.mark.promise("S8")
def test_without_the_option_there_are_no_xattrs(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree(TREE))
    for path in ("a", "d/b"):
        assert tree.ask(probes.errno_of, path, "getxattr") == errno.ENOTSUP
        assert tree.ask(probes.errno_of, path, "listxattr") == errno.ENOTSUP
    with tree.stopped():  # the daemon cannot answer, and is not asked again
        assert tree.ask(probes.errno_of, "d/b", "getxattr of another name") == errno.ENOTSUP
        assert tree.ask(probes.errno_of, "d", "listxattr") == errno.ENOTSUP
