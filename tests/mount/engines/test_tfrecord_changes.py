"""A mounted TFRecord file over which another sound one is written.

The frames are as large as before, but the records have another layout, so that only the checksum
of a record shows that names and positions no longer fit its bytes.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import ENGINES, Mount
from tests.mount.example_tree import Features, example
from tests.mount.hinted_files import hinted, settled
from tests.mount.makers import MakeMount
from tests.page_cache import forget_pages
from tests.tfrecord_file import framed, write_tfrecord

SERVED_BY = ENGINES
COUNT = 60
LOOKED_INTO = 50  # so many folders are listed; nobody has asked for the others
FORGOTTEN = 28  # of those listed; the bytes of the later ones may still be in memory
# Values of --cache-mb: room for the folders of all records, or of few; never for their bytes.
CACHE_MB = {"kept": "4", "dropped": "1"}
SIZE = 20_000
NAMES = ["a", "b", "example.json", "number", "record.bin"]


def records(a_size: int, b_size: int, letters: str) -> list[bytes]:
    """Return records of many names, so that a megabyte of --cache-mb holds few folders."""
    more: Features = {
        f"feature {i:03d} with a name of some length/value": ("int64_list", [i]) for i in range(12)
    }
    a, b = letters.encode()
    return [
        example(
            {
                "a": ("bytes_list", [bytes([a]) * a_size]),
                "b": ("bytes_list", [bytes([b]) * b_size]),
                "number": ("int64_list", [number]),
                **more,
            }
        )
        for number in range(COUNT)
    ]


BEFORE = records(SIZE, 2 * SIZE, "Aa")
AFTER = records(2 * SIZE, SIZE, "Bb")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    assert len(framed(BEFORE)) == len(framed(AFTER))
    return write_tfrecord(tmp_path / "data.tfrecord", BEFORE)


def overwrite(pack: Path, with_records: list[bytes]) -> None:
    with pack.open("r+b") as file:
        file.write(framed(with_records))


def looked_into(mount: MakeMount, pack: Path, folders: str) -> Mount:
    """Mount so that the kernel knows the names of these folders, but no bytes."""
    tree: Mount = mount(pack, "--no-extensions", "--cache-mb", CACHE_MB[folders])
    tree.ask(probes.inodes_in, "", [f"{number:09d}" for number in range(LOOKED_INTO)])
    forget_pages(pack)
    return tree


def check_are_errors(tree: Mount, numbers: Iterable[int]) -> None:
    paths = [f"{number:09d}/{name}" for number in numbers for name in NAMES]
    assert tree.ask(probes.errnos_of, "", paths, "read") == dict.fromkeys(paths, errno.EIO)


@pytest.mark.promise("S12", "S27", "S28")
@pytest.mark.parametrize("folders", list(CACHE_MB))
def test_record_overwritten_after_it_was_listed_is_an_error(
    mount: MakeMount, pack: Path, folders: str
) -> None:
    tree = looked_into(mount, pack, folders)
    overwrite(pack, AFTER)
    tree.expect_log("cannot read 0000000.*: .*was overwritten")
    check_are_errors(tree, [0, 7, FORGOTTEN - 1])
    new = f"{LOOKED_INTO + 5:09d}"
    assert tree.ask(probes.read, f"{new}/a") == b"B" * 2 * SIZE
    assert tree.ask(probes.read, f"{new}/b") == b"b" * SIZE
    overwrite(pack, BEFORE)
    for number in (7, FORGOTTEN - 1):
        assert tree.ask(probes.read, f"{number:09d}/a") == b"A" * SIZE
        assert tree.ask(probes.read, f"{number:09d}/b") == b"a" * 2 * SIZE


@pytest.mark.promise("S12")
def test_half_read_file_gets_no_bytes_of_another_record(mount: MakeMount, pack: Path) -> None:
    tree = looked_into(mount, pack, "dropped")
    with child(probes.read_late, tree / "000000007/b", 2 * SIZE - 1) as reader:
        assert reader.next() == b"a"
        overwrite(pack, AFTER)
        others = [f"{number:09d}/b" for number in range(LOOKED_INTO, COUNT)]
        # These push the rest of the open file out of memory.
        assert tree.ask(probes.read_all_in, "", others) == [b"b" * SIZE] * len(others)
        assert reader.next() == errno.EIO
    tree.expect_log("cannot read 000000007.*: .*was overwritten")


@pytest.mark.promise("S12", "S32")
@pytest.mark.parametrize("folders", list(CACHE_MB))
def test_overwritten_record_is_not_prefetched(mount: MakeMount, pack: Path, folders: str) -> None:
    tree = looked_into(mount, pack, folders)
    overwrite(pack, AFTER)
    forget_pages(pack)
    with hinted(tree, [b"%d" % number for number in range(LOOKED_INTO)]):
        assert settled(tree)["prefetch.fetched"] == 0
        tree.expect_log("cannot read 0000000.*: .*was overwritten")
        check_are_errors(tree, range(FORGOTTEN))
