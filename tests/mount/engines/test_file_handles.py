"""File handles, as NFS clients use them, and open_by_handle_at() with CAP_DAC_READ_SEARCH."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

import pytest

from tests.mount.makers import MakeMount, PackTree

TREE = {"d": {"deeper": {"file": b"content"}}}
AT_FDCWD = -100
HEAD = struct.Struct("Ii")  # of struct file_handle: bytes that follow, type
BYTES_MAX = 128
UNKNOWN = HEAD.pack(12, 0x81) + struct.pack("III", 1 << 8, 0, 0)  # inode (high, low), generation


pytestmark = pytest.mark.parametrize("engine", ["native", "uring"], indirect=True)


def handle_of(path: str) -> bytes:
    handle = ctypes.create_string_buffer(HEAD.pack(BYTES_MAX, 0), HEAD.size + BYTES_MAX)
    libc, mount_id = ctypes.CDLL(None, use_errno=True), ctypes.c_int()
    if libc.name_to_handle_at(AT_FDCWD, os.fsencode(path), handle, ctypes.byref(mount_id), 0):
        raise OSError(ctypes.get_errno(), path)
    return handle.raw


def open_by(root: str, handle: bytes) -> tuple[str, bytes | list[str]] | int:
    """Return path (of a file: "/") and content of the handle's file or folder, or the errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    file = libc.open_by_handle_at(os.open(root, os.O_RDONLY), handle, os.O_RDONLY)
    if file < 0:
        return ctypes.get_errno()
    is_directory = stat.S_ISDIR(os.fstat(file).st_mode)
    content = os.listdir(file) if is_directory else os.read(file, 100)
    return os.readlink(f"/proc/self/fd/{file}"), content


@pytest.mark.promise("S3")
def test_file_handles_work_for_inodes_never_looked_up(
    mount: MakeMount, pack_tree: PackTree
) -> None:
    """Handles also work in another mount of the pack, where nothing was looked up."""
    pack = pack_tree(TREE)
    tree, other = mount(pack), mount(pack)
    handles = {path: tree.ask(handle_of, path) for path in ("d/deeper", "d/deeper/file")}
    file = other.ask(open_by, "", handles["d/deeper/file"])
    if file == errno.EPERM:
        pytest.skip("this process has no CAP_DAC_READ_SEARCH")
    assert file[1] == b"content"
    assert other.ask(open_by, "", handles["d/deeper"]) == (other / "d/deeper", ["file"])
    assert other.ask(open_by, "", UNKNOWN) == errno.ESTALE
