"""A mount of a pack whose mapped index has false entries: these give EIO, the others work."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.index_file import Index, Link, Tree, indexed_pack
from tests.mount import probes
from tests.mount.makers import MakeMount

# Slots: 1 a, 2 chain, 3 entries, 4 others, 5 rest; 6 chain/inner; 7 entries/a, 8 entries/b;
# 9 others/link, 10 others/z; 11 chain/inner/file.
TREE: Tree = {
    b"a": b"alpha" * 1000,
    b"chain": {b"inner": {b"file": b"content"}},
    b"entries": {b"a": b"1", b"b": b"2"},
    b"others": {b"link": Link(b"a"), b"z": b"last"},
    b"rest": {},
}
LIES = [
    *[("stat", "others/link"), ("readlink", "others/link"), ("read", "others/z")],
    *[("list", "others"), ("list", "chain/inner"), ("list", "entries")],
]


def lie(index: Index) -> None:
    """Falsify four entries, each independent of the others."""
    inner = index.directories[index.inodes[6].value]
    inner.first_child, inner.entry_count = 2, 1  # it contains its own parent
    index.inodes[7].name_offset, index.inodes[7].name_size = len(index.names), 2
    index.names += b".."
    index.inodes[9].value = len(index.targets) - 2  # the target goes on behind its section
    index.inodes[10].value = 1000  # a record that does not exist


@pytest.mark.usefixtures("fuse")
def test_hostile_entries_are_eio_and_the_rest_is_served(
    new_mount: MakeMount, tmp_path: Path
) -> None:
    pack = tmp_path / "pack.ffr"
    pack.write_bytes(indexed_pack(TREE, lie))
    mount = new_mount(pack)
    assert mount.mount().status == 0
    assert mount.ask(probes.read, "a") == b"alpha" * 1000
    assert mount.ask(probes.read, "entries/b") == b"2"
    assert sorted(mount.ask(probes.listdir, "")) == ["a", "chain", "entries", "others", "rest"]
    for act, path in LIES:
        assert mount.ask(probes.errno_of, path, act) == errno.EIO, path
    assert mount.ask(probes.errno_of, "entries/a", "read") == errno.ENOENT
    assert len(mount.ask(probes.inodes, "")) < 12  # the walk ends
    assert mount.is_served
    mount.expect_log(r"bad index: slot \d+")
    mount.expect_log("damaged index")
