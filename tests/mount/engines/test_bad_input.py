"""A mount of a file that is no pack fails with one line and status 1, and leaves nothing.

All other kinds of bad files: tests/native/record/record_test.cc, tests/native/pickle.
"""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ffrecord_file import INDEX_MAGIC, Header, write_folder, write_records
from tests.mount.command import ENGINES, mount_command_fails
from tests.mount.makers import MakeMount

TREE = {"a": b"alpha" * 100, "b": b"beta", "d": {"c": b""}}

# Not over each transport, as most of these packs are never served.
pytestmark = pytest.mark.parametrize("engine", ENGINES, indirect=True)


def set_count(header: Header) -> None:
    header.n = -1


def swap_offsets(header: Header) -> None:
    header.offsets[1], header.offsets[2] = header.offsets[2], header.offsets[1]


def set_checksum(header: Header) -> None:
    header.checksum = 0x12345678


def spoil_index_checksum(header: Header) -> None:
    header.checksums[-1] ^= 1


class RunsCode:
    """An object that makes a folder if it is unpickled without care."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.path,)


@pytest.fixture
def refused(new_mount: MakeMount) -> Callable[..., None]:
    """Gives a function that tries to mount a file, and checks the refusal."""

    def check(pack: Path, *words: str, **more: object) -> None:
        mount = new_mount(pack)
        mount_command_fails(mount.mount(**more), 1, str(pack), *words)
        assert not mount.is_mounted
        assert mount.process is None
        assert not mount.path.exists()

    return check


@pytest.mark.promise("S16")
@pytest.mark.parametrize(
    "spoil",
    [set_count, swap_offsets, set_checksum, spoil_index_checksum],
    ids=lambda spoil: spoil.__name__,
)
def test_spoiled_header(
    refused: Callable[..., None], tmp_path: Path, spoil: Callable[[Header], None]
) -> None:
    refused(write_folder(tmp_path / "bad.ffr", TREE, spoil))


@pytest.mark.promise("S16")
@pytest.mark.parametrize(
    "content", [b"this is no pickle", pickle.dumps(OrderedDict({"..": 0}))], ids=["noise", ".."]
)
def test_spoiled_index(refused: Callable[..., None], tmp_path: Path, content: bytes) -> None:
    refused(write_records(tmp_path / "bad.ffr", [b"0", INDEX_MAGIC + content]))


def test_index_that_runs_code(refused: Callable[..., None], tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    index = INDEX_MAGIC + pickle.dumps(RunsCode(str(trap)))
    pack = write_records(tmp_path / "bad.ffr", [b"0", index])
    refused(pack, "code")
    assert not trap.exists()


@pytest.mark.promise("S16")
@pytest.mark.parametrize("size", [0, 5, -1], ids=["empty", "in the header", "in the index"])
def test_truncated_pack(refused: Callable[..., None], tmp_path: Path, size: int) -> None:
    pack = write_folder(tmp_path / "bad.ffr", TREE)
    pack.write_bytes(pack.read_bytes()[:size])
    refused(pack)


def test_grown_pack(refused: Callable[..., None], tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "bad.ffr", TREE)
    pack.write_bytes(pack.read_bytes() + b"more")
    refused(pack)


@pytest.mark.parametrize("content", [b"a,b,c\n1,2,3\n" * 100, bytes(4096)], ids=["text", "zeros"])
def test_files_that_are_no_packs(
    refused: Callable[..., None], tmp_path: Path, content: bytes
) -> None:
    pack = tmp_path / "other.ffr"
    pack.write_bytes(content)
    refused(pack)


def test_missing_pack(refused: Callable[..., None], tmp_path: Path) -> None:
    refused(tmp_path / "absent.ffr", "No such file")


def test_folder_instead_of_a_file(refused: Callable[..., None], tmp_path: Path) -> None:
    refused(tmp_path, "ffrfs pack")


def test_fifo_and_device_instead_of_a_file(refused: Callable[..., None], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo")
    refused(Path("/dev/zero"))


def test_pack_without_read_permission(refused: Callable[..., None], tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "tree.ffr", TREE)
    pack.chmod(0)
    # Root may read it anyway, unless it loses these capabilities.
    dropped = "-dac_override,-dac_read_search"
    prefix = [] if os.geteuid() else ["setpriv", f"--bounding-set={dropped}"]
    refused(pack, "Permission denied", prefix=prefix)
