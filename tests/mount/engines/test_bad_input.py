"""Packs that are no packs: one line, exit status 1, and nothing left behind."""

from __future__ import annotations

import os
import pickle
import random
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ffrecord_file import INDEX_MAGIC, Header, folder_records, write_folder, write_records
from tests.mount.command import ENGINES, mount_command_fails
from tests.mount.makers import MakeMount

TREE = {"a": b"alpha" * 100, "b": b"beta", "d": {"c": b""}}
RECORDS = folder_records(TREE)
N = len(RECORDS)
HEADER_SIZE = 12 + 12 * N

HeaderSpoiler = Callable[[Header], None]

# Most of it is never served.
pytestmark = pytest.mark.parametrize("engine", ENGINES, indirect=True)


def set_n(n: int) -> HeaderSpoiler:
    return lambda header: setattr(header, "n", n)


def set_offset(record: int, offset: int) -> HeaderSpoiler:
    return lambda header: header.offsets.__setitem__(record, offset)


def set_checksum(checksum: int) -> HeaderSpoiler:
    return lambda header: setattr(header, "checksum", checksum)


def spoil_index_checksum(header: Header) -> None:
    header.checksums[-1] ^= 1


def fall(header: Header) -> None:
    header.offsets[1], header.offsets[2] = header.offsets[2], header.offsets[1]


SPOILED_HEADERS: dict[str, HeaderSpoiler] = {
    "n is zero": set_n(0),
    "n is one too small": set_n(N - 1),
    "n is one too large": set_n(N + 1),
    "n is negative": set_n(-1),
    "n is the most negative": set_n(-(2**63)),
    "n is huge": set_n(2**63 - 1),
    "n times 12 overflows": set_n(2**63 // 12 + 2),
    "n is larger than the file": set_n(10_000),
    "offsets fall": fall,
    "offset negative": set_offset(1, -5),
    "first offset overlaps the header": set_offset(0, HEADER_SIZE - 1),
    "first offset is zero": set_offset(0, 0),
    "offset past the end": set_offset(N - 1, 1 << 20),
    "offset huge": set_offset(N - 1, 2**63 - 1),
    "wrong header checksum": set_checksum(0x12345678),
    "wrong checksum of the index": spoil_index_checksum,
}


class RunsCode:
    """Unpickled without care, this makes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.path,)


def index(entries: object) -> bytes:
    return INDEX_MAGIC + pickle.dumps(entries)


SPOILED_INDEXES = {
    "nothing after the magic": INDEX_MAGIC,
    "no pickle": INDEX_MAGIC + b"this is no pickle",
    "cut pickle": index(OrderedDict(a=0))[:-3],
    "a list": index(["a", "b"]),
    "a number": index(1),
    "a record number out of range": index(OrderedDict(a=7)),
    "the index's own record": index(OrderedDict(a=3)),
    "a negative record number": index(OrderedDict(a=-1)),
    "a record number that is a string": index(OrderedDict(a="0")),
    "a name that is a number": index(OrderedDict({1: 0})),
    "an empty name": index(OrderedDict({"": 0})),
    "a name .": index(OrderedDict({".": 0})),
    "a name ..": index(OrderedDict({"..": 0})),
    "a name with a slash": index(OrderedDict({"a/b": 0})),
    "a name with NUL": index(OrderedDict({"a\0b": 0})),
    "a name of 256 bytes": index(OrderedDict({"n" * 256: 0})),
}


@pytest.fixture
def refused(new_mount: MakeMount) -> Callable[..., None]:
    """Tries to mount the file; what a refusal must look like."""

    def check(pack: Path, *words: str, **more: object) -> None:
        mount = new_mount(pack)
        mount_command_fails(mount.mount(**more), 1, str(pack), *words)
        assert not mount.is_mounted
        assert mount.process is None
        assert not mount.path.exists()

    return check


@pytest.mark.promise("S16")
@pytest.mark.parametrize("name", SPOILED_HEADERS)
def test_spoiled_header(refused: Callable[..., None], tmp_path: Path, name: str) -> None:
    refused(write_folder(tmp_path / "bad.ffr", TREE, SPOILED_HEADERS[name]))


@pytest.mark.parametrize("name", SPOILED_HEADERS.keys() - {"wrong header checksum"})
def test_spoiled_header_without_checksum(
    refused: Callable[..., None], tmp_path: Path, name: str
) -> None:
    """As an old writer's file, whose header nothing but plausibility vouches for."""

    def spoil(header: Header) -> None:
        SPOILED_HEADERS[name](header)
        header.checksum = 0

    refused(write_folder(tmp_path / "bad.ffr", TREE, spoil))


@pytest.mark.promise("S16")
@pytest.mark.parametrize("name", SPOILED_INDEXES)
def test_spoiled_index(refused: Callable[..., None], tmp_path: Path, name: str) -> None:
    refused(write_records(tmp_path / "bad.ffr", [b"0", b"1", b"2", SPOILED_INDEXES[name]]))


def test_index_that_runs_code(refused: Callable[..., None], tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    pack = write_records(tmp_path / "bad.ffr", [b"0", index(RunsCode(str(trap)))])
    refused(pack, "code")
    assert not trap.exists()


# Where a file is cut; from its end if negative.
CUTS = [0, 1, 3, 4, 5, 11, 12, 13, 12 + 4 * N - 1, 12 + 4 * N, HEADER_SIZE - 8, HEADER_SIZE - 1]
CUTS += [HEADER_SIZE, HEADER_SIZE + 1, HEADER_SIZE + 503, -1, -10, -len(RECORDS[-1])]


@pytest.mark.promise("S16")
@pytest.mark.parametrize("size", CUTS)
def test_truncated(refused: Callable[..., None], tmp_path: Path, size: int) -> None:
    pack = write_folder(tmp_path / "bad.ffr", TREE)
    data = pack.read_bytes()
    pack.write_bytes(data[:size])
    refused(pack)


def test_grown(refused: Callable[..., None], tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "bad.ffr", TREE)
    pack.write_bytes(pack.read_bytes() + b"more")
    refused(pack)


OTHER_FILES = {
    "text": b"a,b,c\n1,2,3\n" * 100,
    "noise": random.Random(1).randbytes(5000),
    "image": b"\x89PNG\r\n\x1a\n" * 64,
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
}


@pytest.mark.parametrize("name", OTHER_FILES)
def test_other_files(refused: Callable[..., None], tmp_path: Path, name: str) -> None:
    pack = tmp_path / "other.ffr"
    pack.write_bytes(OTHER_FILES[name])
    refused(pack)


def test_missing_file(refused: Callable[..., None], tmp_path: Path) -> None:
    refused(tmp_path / "absent.ffr", "No such file")


def test_folder_instead_of_a_file(refused: Callable[..., None], tmp_path: Path) -> None:
    refused(tmp_path, "ffrfs pack")


def test_fifo_and_device_instead_of_a_file(refused: Callable[..., None], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo")
    refused(Path("/dev/zero"))


def test_no_permission(refused: Callable[..., None], tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "tree.ffr", TREE)
    pack.chmod(0)
    # Root may read all the same, unless these capabilities are taken from it.
    dropped = "-dac_override,-dac_read_search"
    prefix = [] if os.geteuid() else ["setpriv", f"--bounding-set={dropped}"]
    refused(pack, "Permission denied", prefix=prefix)
