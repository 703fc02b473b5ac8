"""Hints for a mounted TFRecord file: for files inside records, for folders, by number."""

from __future__ import annotations

import errno
import hashlib
import random
from pathlib import Path

import pytest

from tests.ffrecord_file import flip_byte
from tests.mount import cached_files, probes
from tests.mount.child import child
from tests.mount.command import ENGINES, Mount, ffrfs, wait_until
from tests.mount.disk import Disk
from tests.mount.example_tree import check_record, example, features, image
from tests.mount.hinted_files import hinted, increase, settled
from tests.mount.makers import MakeDisk, MakeMount
from tests.page_cache import forget_pages
from tests.tfrecord_file import tfrecord_extents, write_tfrecord

SERVED_BY = ENGINES
COUNT = 60
SIZE = 30_000


def text(number: int) -> bytes:
    """Return a hint for the record, in one of the forms that can name it."""
    name = f"{number:09d}"
    ways = [f"/{name}/image/encoded.jpg", f"/{name}/label.npy", f"/{name}", f"/{name}/tags/", name]
    return ways[number % len(ways)].encode()


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    records = [example(features(number, SIZE)) for number in range(COUNT)]
    return write_tfrecord(tmp_path / "data.tfrecord", records)


def cold(mount: MakeMount, pack: Path) -> Mount:
    tree: Mount = mount(pack)
    forget_pages(pack)
    return tree


def shuffled(seed: int = 1) -> list[int]:
    return random.Random(seed).sample(range(COUNT), COUNT)


def images(tree: Mount, numbers: list[int]) -> list[bytes]:
    names = [f"{number:09d}/image/encoded.jpg" for number in numbers]
    found: list[bytes] = tree.ask(probes.read_all_in, "", names)
    return found


@pytest.mark.promise("S76")
def test_files_of_warmed_records_need_no_requests(mount: MakeMount, pack: Path) -> None:
    """Files of features then need no request. record.bin and example.json are not warmed."""
    tree = mount(pack)
    wait_until(lambda: tree.statistics()["pushed_limit_bytes"] > 0, "what may be pushed")
    assert ffrfs("warm", "-q", tree.path).status == 0
    before = settled(tree)
    assert (before["warm.files"], before["warm.pushed"]) == (COUNT, COUNT)
    numbers = {f"{number:09d}/image/encoded.jpg": number for number in range(COUNT)}
    digests = {n: hashlib.sha256(image(number, SIZE)).hexdigest() for n, number in numbers.items()}
    misread, given_up = tree.ask(cached_files.misread_and_given_up, "", digests, list(digests))
    assert misread == []
    between = settled(tree)
    assert increase(before, between)["requests.read.count"] <= sum(given_up.values())
    names = [f"{number:09d}/{name}" for number in (1, 2) for name in ("record.bin", "example.json")]
    tree.ask(probes.read_all_in, "", names)
    assert increase(between, settled(tree))["requests.read.count"] >= len(names)


@pytest.mark.promise("S32", "S34")
def test_hinted_records_are_read_from_memory(mount: MakeMount, pack: Path) -> None:
    tree = cold(mount, pack)
    numbers = shuffled()
    with hinted(tree, [text(number) for number in numbers]):
        before = settled(tree)
        assert before["prefetch.hinted"] == before["prefetch.fetched"] == COUNT
        assert images(tree, numbers) == [image(number, SIZE) for number in numbers]
        found = increase(before, settled(tree))
        assert found["bytes_storage"] == found["bytes_page_cache"] == 0
        assert found["prefetch.hit"] == COUNT
    for number in range(5):
        check_record(tree, number, features(number, SIZE))


@pytest.mark.promise("S32")
def test_every_file_of_a_hinted_and_listed_record_is_right(mount: MakeMount, pack: Path) -> None:
    tree = cold(mount, pack)
    tree.ask(probes.inodes, "")
    with hinted(tree, [text(number) for number in range(COUNT)]):
        settled(tree)
        for number in shuffled()[:15]:
            check_record(tree, number, features(number, SIZE))


@pytest.mark.promise("S34")
def test_records_with_inodes_known_to_the_kernel_are_pushed(mount: MakeMount, pack: Path) -> None:
    """The files were listed long ago: the mount's memory has nothing of the listing any more."""
    tree: Mount = mount(pack, "--cache-mb", "1")
    tree.ask(probes.inodes, "")
    wait_until(lambda: tree.statistics()["pushed_limit_bytes"] > 0, "what may be pushed")
    forget_pages(pack)
    numbers = shuffled()
    start = settled(tree)
    with hinted(tree, [text(number) for number in numbers]):
        before = settled(tree)
        assert increase(start, before)["prefetch.pushed"] > 0.7 * COUNT
        assert images(tree, numbers) == [image(number, SIZE) for number in numbers]
        found = increase(before, settled(tree))
        assert found["requests.read.count"] < 0.4 * COUNT


@pytest.mark.promise("S29", "S32")
def test_damaged_record_among_the_hints(mount: MakeMount, pack: Path) -> None:
    offset, size = tfrecord_extents(pack.read_bytes())[30]
    flip_byte(pack, offset + size // 2)
    tree = cold(mount, pack)
    with hinted(tree, [text(number) for number in range(COUNT)]):
        settled(tree)
        assert "000000030" not in tree.log()
        others = [number for number in shuffled() if number != 30]
        assert images(tree, others) == [image(number, SIZE) for number in others]
        tree.expect_log("cannot read 000000030: .*record 30 .*checksum mismatch")
        for _ in range(2):
            assert tree.ask(probes.errno_of, "000000030", "list") == errno.EIO
    assert tree.count_logged("cannot read 000000030") == 1


# A disk that does not answer.


@pytest.fixture
def disk(new_disk: MakeDisk, pack: Path) -> Disk:
    extents = tfrecord_extents(pack.read_bytes())
    return new_disk(pack, {str(number): extent for number, extent in enumerate(extents)})


@pytest.mark.promise("S14", "S32")
def test_stalled_hinted_record_delays_no_other_reader(stalling: Mount, disk: Disk) -> None:
    disk.stall("7")
    with hinted(stalling, [text(7)]):
        disk.wait_for("stalled")
        for number in (6, 8):
            check_record(stalling, number, features(number, SIZE))
        with child(probes.listdir, stalling / "000000007") as reader:
            reader.ask_next()
            assert len(stalling.ask(probes.listdir, "")) == COUNT
            assert stalling.ask(probes.errno_of, "000000007", "stat") == 0
            assert not reader.has_answered()
            disk.go()
            assert "label.npy" in reader.answer()
    check_record(stalling, 7, features(7, SIZE))
