"""Mounts of packs with a mapped index: its values, its damage, and the index in a sidecar."""

from __future__ import annotations

import errno
import os
import random
import re
import stat
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs._native import EntryList, Writer
from ffrfs.mount.engines.worker import worker_path
from tests.cut_file import cutting
from tests.ffrecord_file import flip_byte, record_extents, write_folder, write_records
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import Mount, ffrfs
from tests.mount.makers import MakeMount, PackTree, by_both

MIB = 1 << 20
BLOCK_SIZE = 64 << 10  # of each part of an index that has its own checksum
INODE_SIZE = 32
TRAILER_SIZE = 256
SERVED_BY = ["native"]  # unless a test is about the engine's answers or its death
LARGE_COUNT = 100_001  # a pack of so many files without an index gets a sidecar


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    return path


def pack(source: Path, **how: object) -> Path:
    file = source.parent / "tree.ffr"
    pack_folder(source, file, **how)  # type: ignore[arg-type]
    return file


def section(pack: Path, number: int) -> tuple[int, int]:
    """Return (offset in the file, size) of a section of the index at the file's end."""
    data = pack.read_bytes()
    trailer = data[-TRAILER_SIZE:]
    assert trailer[:8] == b"ffrfsidx"
    (index_size,) = struct.unpack_from("<Q", trailer, 0x10)
    offset, size = struct.unpack_from("<QQ", trailer, 0x40 + 16 * number)
    return len(data) - index_size + offset, size


def many_files(path: Path, count: int) -> Path:
    """Write a pack of `count` small files, with 1,000 in each folder."""
    listed = EntryList()
    for first in range(0, count, 1000):
        folder = listed.add_folder(0, b"d%07d" % first, 0o755, 0)
        names = range(first, min(first + 1000, count))
        listed.add_files(folder, [(b"f%07d" % i, 4, 0o644, 0) for i in names])
    listed.number()
    writer = Writer(os.fsencode(path), count + 1)
    for i in range(count):
        writer.append(struct.pack("<I", i))
    writer.append_index(listed)
    writer.finish()
    return path


# Modes and times.


@by_both
@pytest.mark.promise("S4")
def test_modes_and_times_are_shown_as_packed(mount: MakeMount, source: Path) -> None:
    modes = {"run": 0o755, "private": 0o600, "odd": 0o4461, "none": 0o000}
    times_ns = {"run": 1_234_567_890_123_456_789, "private": -5_000_000_001, "odd": 0, "none": 7}
    for name, mode in modes.items():
        (source / name).write_bytes(b"x")
        (source / name).chmod(mode)
        os.utime(source / name, ns=(0, times_ns[name]))
    (source / "d").mkdir(mode=0o700)
    os.utime(source / "d", ns=(0, 42))
    tree = mount(pack(source))
    for name, mode in modes.items():
        found = tree.ask(probes.stat, name)
        assert (stat.S_IMODE(found.st_mode), found.st_mtime_ns) == (mode & 0o777, times_ns[name])
    found = tree.ask(probes.stat, "d")
    assert (stat.S_IMODE(found.st_mode), found.st_mtime_ns) == (0o700, 42)
    strict = mount(tree.pack, "-o", "umask=0277")
    assert stat.S_IMODE(strict.ask(probes.stat, "run").st_mode) == 0o500


# Damage.


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, int]:
    """A pack of 8,000 files whose inodes in slots 4096 to 6143 are damaged, and the first slot."""
    path = many_files(tmp_path / "many.ffr", 8000)
    offset, _ = section(path, 0)
    slot = 2 * BLOCK_SIZE // INODE_SIZE
    flip_byte(path, offset + slot * INODE_SIZE + 9)
    return path, slot


@by_both
@pytest.mark.promise("S40")
def test_damaged_index_block_is_eio_for_its_entries_only(
    new_mount: MakeMount, damaged: tuple[Path, int]
) -> None:
    path, slot = damaged
    tree = new_mount(path)
    tree.expect_log(f"cannot read d.*: {path}: .*checksum")
    assert tree.mount().status == 0
    # The root and eight folders come before the files, which follow by folder and name.
    names = {i: f"d{i // 1000 * 1000:07d}/f{i:07d}" for i in range(8000)}
    for i in (0, 2999, 7000, 7999):  # in folders that the damaged block does not touch
        assert tree.ask(probes.read, names[i]) == struct.pack("<I", i)
    for _ in range(3):
        assert tree.ask(probes.errno_of, names[slot - 9 + 100], "stat") == errno.EIO
        assert tree.ask(probes.errno_of, "d0005000", "list") == errno.EIO
    assert sorted(tree.ask(probes.listdir, "d0001000")) == [f"f{i:07d}" for i in range(1000, 2000)]
    assert tree.ask(probes.statvfs, "").f_files == 8009
    assert tree.count_logged("cannot read ") <= 4
    lines = re.findall("cannot read .*", tree.log())
    assert len(lines) == len(set(lines))  # one per folder, however often it is asked


@pytest.mark.promise("S32", "S40")
def test_hints_of_damaged_entries_do_no_harm(
    new_mount: MakeMount, damaged: tuple[Path, int]
) -> None:
    tree = new_mount(damaged[0])
    tree.expect_log("cannot read d")
    assert tree.mount().status == 0
    hints = [b"/d%07d/f%07d" % (i // 1000 * 1000, i) for i in range(3500, 6500, 7)]
    tree.ask(probes.hint_all, "", [*hints, *(b"%d" % i for i in range(0, 8000, 13))])
    assert tree.ask(probes.read, "d0007000/f0007999") == struct.pack("<I", 7999)
    assert tree.ask(probes.errno_of, "d0005000/f0005000", "stat") == errno.EIO
    assert tree.is_served


@by_both
@pytest.mark.promise("S12", "S40")
def test_pack_that_loses_its_index_while_mounted_gives_errors(
    new_mount: MakeMount, tmp_path: Path
) -> None:
    path = many_files(tmp_path / "many.ffr", 8000)
    tree = new_mount(path)
    tree.expect_log("cannot read ")
    assert tree.mount().status == 0
    assert tree.ask(probes.read, "d0000000/f0000000") == bytes(4)
    os.truncate(path, section(path, 0)[0] + BLOCK_SIZE)
    assert tree.ask(probes.errno_of, "d0007000/f0007000", "stat") == errno.EIO
    assert tree.ask(probes.errno_of, "d0004000", "list") == errno.EIO
    assert tree.ask(probes.errno_of, "", "stat") == 0
    assert tree.is_served


@by_both
@pytest.mark.long
@pytest.mark.promise("S12", "S40")
def test_truncating_and_restoring_a_pack_ends_no_mount(
    new_mount: MakeMount, pack_tree: PackTree
) -> None:
    names = [f"{i}/{i}-{k:04d}" for i in range(40) for k in range(60)]
    contents = [os.path.basename(name).encode() for name in names]
    path = pack_tree(
        {f"{i}": {f"{i}-{k:04d}": f"{i}-{k:04d}".encode() for k in range(60)} for i in range(40)}
    )
    tree = new_mount(path)
    tree.expect_log("cannot read |more like it")
    assert tree.mount().status == 0
    wander = (probes.wander, str(tree.path), names)
    with child(*wander, 1) as first, child(*wander, 2) as second, cutting(path) as cut:
        while cut.count < 12:
            first.ask_next()
            second.ask_next()
            assert first.answer() == second.answer() == []
    assert tree.is_served
    assert tree.ask(probes.read_all_in, "", names) == contents


def spoil_trailer(path: Path) -> None:
    flip_byte(path, path.stat().st_size - TRAILER_SIZE + 0x20)


def spoil_block_checksums(path: Path) -> None:
    (index_size, checked_size) = struct.unpack_from("<QQ", path.read_bytes()[-TRAILER_SIZE:], 0x10)
    flip_byte(path, path.stat().st_size - index_size + checked_size)


@pytest.mark.promise("S41")
@pytest.mark.parametrize("spoil", [spoil_trailer, spoil_block_checksums])
def test_unusable_index_in_a_damaged_record_is_refused(
    new_mount: MakeMount, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """The pickle is in the same record, whose checksum shows the damage."""
    path = many_files(tmp_path / "many.ffr", 10)
    spoil(path)
    tree = new_mount(path)
    done = tree.mount()
    assert done.status == 1
    assert str(path) in done.err
    assert "checksum mismatch" in done.err


@pytest.mark.promise("S41")
def test_unusable_index_in_a_sound_record_is_only_a_warning(
    new_mount: MakeMount, tmp_path: Path
) -> None:
    path = many_files(tmp_path / "many.ffr", 10)
    spoil_trailer(path)
    data = path.read_bytes()
    write_records(path, [data[begin : begin + size] for begin, size in record_extents(path)])
    tree = new_mount(path)
    tree.expect_log(f"{path}: .*ignored")
    done = tree.mount()
    assert (done.status, len(done.err.splitlines())) == (0, 1)
    assert tree.ask(probes.read, "d0000000/f0000007") == struct.pack("<I", 7)


# Sidecars.


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A pack of more than 100,000 files without a mapped index."""
    names = {f"{i:06d}": b"" for i in range(LARGE_COUNT - 1)}
    return write_folder(tmp_path / "large.ffr", {"d": names, "file": b"content"})


@pytest.mark.long
@pytest.mark.promise("S41")
def test_first_mount_of_a_large_pack_makes_its_sidecar(mount: MakeMount, large: Path) -> None:
    sidecar = large.with_name("large.ffr.idx")
    tree = mount(large)
    assert tree.ask(probes.read, "file") == b"content"
    made = sidecar.stat()
    assert ffrfs("umount", tree.path).status == 0
    again = mount(large)
    assert again.ask(probes.stat, "d/000007").st_mtime_ns == large.stat().st_mtime_ns
    assert len(again.ask(probes.listdir, "d")) == LARGE_COUNT - 1
    assert sidecar.stat().st_ino == made.st_ino
    assert sidecar.stat().st_mtime_ns == made.st_mtime_ns


@pytest.mark.promise("S41")
def test_stale_and_broken_sidecars_are_rebuilt_with_one_warning(
    new_mount: MakeMount, large: Path
) -> None:
    sidecar = large.with_name("large.ffr.idx")
    assert ffrfs("index", "-q", large).status == 0
    tree = new_mount(large)
    tree.expect_log(re.escape(str(sidecar)))
    flip_byte(sidecar, sidecar.stat().st_size - 100)
    for _ in range(2):
        done = tree.mount()
        assert done.status == 0
        (line,) = done.err.splitlines()
        assert str(sidecar) in line
        assert tree.ask(probes.read, "file") == b"content"
        assert ffrfs("umount", tree.path).status == 0
        os.utime(large)  # now it is stale
    assert tree.mount().status == 0


@pytest.mark.promise("S41")
def test_sidecar_that_cannot_be_written_is_only_a_warning(
    new_mount: MakeMount, large: Path
) -> None:
    large.with_name("large.ffr.idx").mkdir()
    tree = new_mount(large)
    tree.expect_log("every mount will parse its index again")
    tree.expect_log(r"large\.ffr\.idx: .*ignored")
    done = tree.mount()
    assert done.status == 0
    assert "every mount will parse its index again" in done.err
    assert tree.ask(probes.read, "file") == b"content"


def test_worker_program_lists_packs_without_a_sound_index(large: Path, tmp_path: Path) -> None:
    """The daemon makes sidecars for these packs alone; a sound index costs it nothing."""
    own = many_files(tmp_path / "own.ffr", 3)
    small = write_folder(tmp_path / "small.ffr", {"file": b"content"})
    absent = tmp_path / "absent.ffr"
    sidecar = large.with_name("large.ffr.idx")

    def told() -> list[str]:
        program = worker_path()
        assert program is not None
        packs = [f"--pack={pack}" for pack in (own, small, large, absent)]
        found = subprocess.run(
            [program, "--unindexed=3", *packs], stdout=subprocess.PIPE, timeout=60, check=True
        )
        return [os.fsdecode(path) for path in found.stdout.split(b"\0")[:-1]]

    assert told() == [str(large)]
    assert ffrfs("index", "-q", large).status == 0
    assert told() == []
    flip_byte(sidecar, sidecar.stat().st_size - 100)
    assert told() == [str(large)]


# Checksums of the parts of large files.


@pytest.fixture
def large_file(mount: MakeMount, pack_tree: PackTree) -> tuple[Mount, bytes]:
    content = random.Random(0).randbytes(24 * MIB + 5)
    return mount(pack_tree({"large": content, "small": b"s"})), content


@pytest.mark.promise("S10", "S42")
def test_a_part_of_a_large_file_reads_and_verifies_only_what_it_touches(
    large_file: tuple[Mount, bytes],
) -> None:
    tree, content = large_file
    places = [(0, 10), (11 * MIB - 5, 10), (24 * MIB, 100)]
    parts = tree.ask(probes.read_ranges, "large", places)
    assert parts == [content[offset : offset + size] for offset, size in places]
    counted = tree.statistics()
    assert counted["bytes_page_cache"] + counted["bytes_storage"] < 8 * MIB
    assert counted["checksums_failed"] == 0


@by_both
@pytest.mark.promise("S11", "S42")
def test_damage_in_a_large_file_is_eio_for_that_part(mount: MakeMount, pack_tree: PackTree) -> None:
    content = random.Random(1).randbytes(24 * MIB)
    path = pack_tree({"large": content})
    offset, _ = record_extents(path)[0]
    flip_byte(path, offset + 20 * MIB + 5)
    tree = mount(path)
    tree.expect_log(f"cannot read large: {path}: record 0 .*: the bytes at {20 * MIB} are damaged")
    assert tree.ask(probes.read_ranges, "large", [(0, 100)]) == [content[:100]]
    assert tree.ask(probes.errno_of, "large", "read") == errno.EIO


# Size.


@pytest.mark.promise("S43")
def test_memory_does_not_grow_with_the_number_of_files(mount: MakeMount, tmp_path: Path) -> None:
    small = private_bytes(mount(many_files(tmp_path / "small.ffr", 1000)))
    tree = mount(many_files(tmp_path / "large.ffr", 300_000))
    assert private_bytes(tree) - small < 2 * MIB
    assert tree.ask(probes.read, "d0299000/f0299999") == struct.pack("<I", 299_999)


def private_bytes(tree: Mount) -> int:
    """Return the worker's anonymous memory: private, and not of a mapped file."""
    assert tree.worker is not None
    text = Path(f"/proc/{tree.worker.pid}/smaps_rollup").read_text()
    return 1024 * int(re.findall(r"^Anonymous:\s*(\d+) kB", text, re.MULTILINE)[0])
