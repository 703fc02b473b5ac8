"""Records of a mounted TFRecord file when bytes are damaged, caches small, or disks fail."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.ffrecord_file import flip_byte
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import ENGINES, TIMEOUT_S, Mount, wait_until
from tests.mount.disk import Disk
from tests.mount.example_tree import (
    Features,
    check_record,
    example,
    features,
    image,
)
from tests.mount.makers import MakeDisk, MakeMount, by_native
from tests.page_cache import forget_pages
from tests.tfrecord_file import tfrecord_extents, write_tfrecord

SERVED_BY = ENGINES
MIB = 1 << 20


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    records = [example(features(number)) for number in range(20)]
    return write_tfrecord(tmp_path / "data.tfrecord", records)


@pytest.mark.promise("S10", "S11", "S29")
def test_damaged_record_is_an_error_inside_its_folder_only(mount: MakeMount, pack: Path) -> None:
    offset, size = tfrecord_extents(pack.read_bytes())[3]
    flip_byte(pack, offset + size // 2)
    tree = mount(pack)
    tree.expect_log(f"cannot read 000000003: {pack}: record 3 .*checksum mismatch")
    for _ in range(2):
        for act, path in {
            "list": "000000003",
            "stat": "000000003/label.npy",
            "read": "000000003/record.bin",
        }.items():
            assert tree.ask(probes.errno_of, path, act) == errno.EIO
    assert tree.ask(probes.errno_of, "000000003", "stat") == 0
    assert len(tree.ask(probes.listdir, "")) == 20
    for number in (2, 4):
        check_record(tree, number, features(number))
    assert tree.count_logged("cannot read") == 1


@pytest.mark.promise("S12", "S29")
def test_record_damaged_after_it_was_listed(mount: MakeMount, pack: Path) -> None:
    tree = mount(pack, "--cache-mb", "1")
    names = sorted(tree.ask(probes.listdir, "000000005"))
    for number in range(6, 20):  # these push its bytes out of memory
        assert sorted(tree.ask(probes.listdir, f"{number:09d}")) == names
    offset, size = tfrecord_extents(pack.read_bytes())[5]
    flip_byte(pack, offset + size // 2)
    tree.expect_log("cannot read 000000005/.*checksum mismatch")
    assert sorted(tree.ask(probes.listdir, "000000005")) == names  # from the kernel's cache
    for path in ("record.bin", "image/encoded.jpg", "label.npy"):
        assert tree.ask(probes.errno_of, f"000000005/{path}", "read") == errno.EIO
    assert tree.count_logged("cannot read") == 1


@pytest.mark.promise("S15", "S28")
def test_dropped_folders_are_rebuilt_identically(mount: MakeMount, tmp_path: Path) -> None:
    count = 60
    # Many names, so that few folders fit into the share of one megabyte that they have.
    values: Features = {
        f"feature {i:03d} with a name of some length/value": ("int64_list", [i]) for i in range(12)
    }
    pack = write_tfrecord(tmp_path / "many.tfrecord", [example(values)] * count)
    tree = mount(pack, "--cache-mb", "1")
    first = tree.ask(probes.inodes, "")
    contents = tree.ask(probes.contents, "")
    with child(probes.hold_open, tree / "000000000/record.bin") as holder:
        begin = holder.next()
        assert tree.ask(probes.inodes, "") == first
        assert tree.ask(probes.contents, "") == contents
        assert begin + holder.next() == example(values)
    assert len(set(first.values())) == len(first)
    assert tree.peak_memory_mb() < 150


@pytest.mark.promise("S15", "S30")
def test_array_too_large_for_memory_is_efbig_with_advice(mount: MakeMount, tmp_path: Path) -> None:
    values: Features = {
        "long": ("int64_list", [1] * (MIB // 2)),
        "short": ("int64_list", [1]),
    }
    pack = write_tfrecord(tmp_path / "long.tfrecord", [example(values)])
    tree = mount(pack, "--cache-mb", "8")
    tree.expect_log("cannot read 000000000/long.npy: .*raise --cache-mb")
    assert tree.ask(probes.stat, "000000000/long.npy").st_size == 128 + 4 * MIB
    assert tree.ask(probes.errno_of, "000000000/long.npy", "read") == errno.EFBIG
    assert tree.ask(probes.load_array, "000000000/short.npy")[0].tolist() == [1]
    whole, mapped = mount(pack).ask(probes.load_array, "000000000/long.npy")
    assert np.array_equal(whole, mapped)
    assert np.array_equal(whole, np.ones(MIB // 2, "<i8"))


@pytest.mark.promise("S13")
def test_many_readers_of_many_records(mount: MakeMount, pack: Path) -> None:
    tree = mount(pack)
    expected = tree.ask(probes.digests, "")
    again = mount(pack, "--cache-mb", "1")
    forget_pages(pack)
    with ExitStack() as stack:
        readers = [stack.enter_context(child(probes.digests, again / "")) for _ in range(6)]
        for reader in readers:
            reader.ask_next()
        for reader in readers:
            assert reader.answer() == expected


# A disk that does not answer.


@pytest.fixture
def disk(new_disk: MakeDisk, pack: Path) -> Disk:
    extents = tfrecord_extents(pack.read_bytes())
    return new_disk(pack, {f"{number:09d}": extent for number, extent in enumerate(extents)})


@pytest.mark.promise("S14")
def test_listing_a_stalled_record_delays_no_other_reader(stalling: Mount, disk: Disk) -> None:
    folder = "000000003"
    disk.stall(folder)
    with ExitStack() as stack:
        waiting = [
            stack.enter_context(child(probes.stat, stalling / f"{folder}/label.npy")),
            stack.enter_context(child(probes.listdir, stalling / folder)),
            stack.enter_context(child(probes.read, stalling / f"{folder}/image/encoded.jpg")),
            stack.enter_context(child(probes.errno_of, stalling / f"{folder}/absent", "stat")),
        ]
        for reader in waiting:
            reader.ask_next()
        disk.wait_for("stalled")
        check_record(stalling, 4, features(4))
        assert len(stalling.ask(probes.listdir, "")) == 20
        assert stalling.ask(probes.errno_of, "absent", "stat") == errno.ENOENT
        assert stalling.ask(probes.errno_of, folder, "stat") == 0
        assert not any(reader.has_answered() for reader in waiting)
        disk.go()
        assert waiting[0].answer().st_size == 144
        assert sorted(waiting[1].answer()) == [
            *("box.npy", "example.json", "image", "label.npy", "record.bin", "tags")
        ]
        assert waiting[2].answer() == image(3)
        assert waiting[3].answer() == errno.ENOENT


@pytest.mark.promise("S14")
def test_reader_killed_while_it_lists_a_stalled_record(stalling: Mount, disk: Disk) -> None:
    disk.stall("000000003")
    with child(probes.listdir, stalling / "000000003") as reader:
        reader.ask_next()
        disk.wait_for("stalled")
        os.kill(reader.pid, signal.SIGKILL)
        check_record(stalling, 4, features(4))
        disk.go()
    check_record(stalling, 3, features(3))


def waits_for_answer(pid: int) -> bool:
    """Return whether the kernel has sent the process's request, and waits for the answer."""
    return "request_wait_answer" in Path(f"/proc/{pid}/wchan").read_text()


@by_native
@pytest.mark.parametrize("killed", [0, 1])
def test_reader_killed_while_it_waits_for_the_trial_of_another(
    stalling: Mount, disk: Disk, killed: int
) -> None:
    disk.stall("000000003")
    stalling.expect_log("killed by SIGABRT")
    with (
        child(probes.listdir, stalling / "000000003") as lister,
        child(probes.stat, stalling / "000000003/label.npy") as looker,
    ):
        readers = [lister, looker]
        for reader in readers:
            reader.ask_next()
        disk.wait_for("stalled")
        for reader in readers:
            wait_until(lambda: waits_for_answer(reader.pid), "its request has been sent")  # noqa: B023
        stalling.replace_worker(signal.SIGABRT)
        disk.wait_for("stalled")  # the new worker tries one of them alone
        os.kill(readers[killed].pid, signal.SIGKILL)
        readers[killed].wait(TIMEOUT_S)
        assert not readers[1 - killed].has_answered()
        disk.go()
        readers[1 - killed].answer()
    check_record(stalling, 3, features(3))
