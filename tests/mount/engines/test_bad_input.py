"""A mount of a file that is no pack fails with one line and status 1, and leaves nothing.

All other kinds of bad files: tests/native/record/record_test.cc, tests/native/pickle,
tests/cli/test_bad_input.py.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ffrecord_file import INDEX_MAGIC, Header, write_folder, write_records
from tests.mount.command import ENGINES, mount_command_fails
from tests.mount.makers import MakeMount

TREE = {"a": b"alpha" * 100, "b": b"beta", "d": {"c": b""}}

# Not over each transport, as most of these packs are never served.
pytestmark = pytest.mark.parametrize("engine", ENGINES, indirect=True)


def set_checksum(header: Header) -> None:
    header.checksum = 0x12345678


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


BAD: dict[str, Callable[[Path], object]] = {
    "wrong checksum of the header": lambda pack: write_folder(pack, TREE, set_checksum),
    "index that is no pickle": lambda pack: write_records(pack, [b"0", INDEX_MAGIC + b"no pickle"]),
    "truncated": lambda pack: os.truncate(write_folder(pack, TREE), pack.stat().st_size - 1),
    "grown": lambda pack: pack.write_bytes(write_folder(pack, TREE).read_bytes() + b"more"),
    "zeros": lambda pack: pack.write_bytes(bytes(4096)),
}


@pytest.mark.promise("S16")
@pytest.mark.parametrize("fault", BAD)
def test_damaged_packs_and_other_files(
    refused: Callable[..., None], tmp_path: Path, fault: str
) -> None:
    BAD[fault](tmp_path / "bad.ffr")
    refused(tmp_path / "bad.ffr")


def test_index_that_runs_code(refused: Callable[..., None], tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    index = INDEX_MAGIC + pickle.dumps(RunsCode(str(trap)))
    pack = write_records(tmp_path / "bad.ffr", [b"0", index])
    refused(pack, "code")
    assert not trap.exists()


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
