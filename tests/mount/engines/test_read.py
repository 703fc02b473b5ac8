"""The bytes that a mount gives: any range, any way of reading, many readers."""

from __future__ import annotations

import errno
import hashlib
import random
import re
import signal
from pathlib import Path

import pytest

from tests.ffrecord_file import Header, flip_byte, record_extents, write_folder, write_records
from tests.interpreter import python
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import wait_until
from tests.mount.makers import MakeMount, PackTree, by_both

SIZES = [0, 1, 4095, 4096, 4097, 131071, 131072, 131073, (4 << 20) + 1]


def content(size: int, seed: int = 0) -> bytes:
    return random.Random(f"{size} {seed}").randbytes(size)


@pytest.mark.promise("S13")
def test_every_size_reads_the_same_in_every_way(
    mount: MakeMount, pack_tree: PackTree, tmp_path: Path
) -> None:
    files = {f"{size}.bin": content(size) for size in SIZES}
    tree = mount(pack_tree({**files, "sent": content(1 << 20)}))
    for size in SIZES:
        ways = (probes.read, probes.read_mapped, probes.read_direct)
        for way in ways if size else ways[:1]:
            assert tree.ask(way, f"{size}.bin") == content(size), (size, way)
    tree.ask(probes.send, "sent", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == content(1 << 20)


@pytest.mark.promise("S13")
def test_ranges_are_cut_at_the_end_only(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree({f"{size}.bin": content(size) for size in SIZES}))
    for size in SIZES:
        data = content(size)
        edges = [0, 1, 511, 4095, 4096, 4097, 65537, 131071, 131072, 1 << 40]
        edges += [size - 1, size, size + 1]
        ranges = [
            (offset, count)
            for offset in sorted({edge for edge in edges if edge >= 0})
            for count in (1, 4096, 131073, size + 1)
        ]
        random.Random(size).shuffle(ranges)
        got = tree.ask(probes.read_ranges, f"{size}.bin", ranges)
        for (offset, count), part in zip(ranges, got, strict=True):
            assert part == data[offset : offset + count], (size, offset, count)


@by_both
@pytest.mark.long
@pytest.mark.promise("S15")
def test_file_larger_than_the_cache_reads_in_bounded_memory(
    mount: MakeMount, tmp_path: Path
) -> None:
    size = 64 << 20
    block = content(1 << 20)
    tree = mount(
        write_records(tmp_path / "large.ffr", [block * (size >> 20), b"small"]),
        *("--cache-mb", "8"),
    )
    expected = hashlib.sha256()
    for _ in range(size >> 20):
        expected.update(block)
    before = tree.peak_memory_mb()
    assert tree.ask(probes.digest, "000000000") == expected.hexdigest()
    assert tree.ask(probes.read, "000000001") == b"small"
    offsets = [random.Random(i).randrange(size - 4096) for i in range(200)]
    parts = tree.ask(probes.read_ranges, "000000000", [(offset, 4096) for offset in offsets])
    for offset, part in zip(offsets, parts, strict=True):
        start = offset % (1 << 20)
        assert part == (block * 2)[start : start + 4096]
    assert tree.peak_memory_mb() - before < 8 + 4


@pytest.mark.promise("S13")
def test_parallel_readers_get_their_own_bytes(mount: MakeMount, pack_tree: PackTree) -> None:
    files = {f"{i:03d}": content(random.Random(i).randrange(200_000), i) for i in range(200)}
    files["large"] = content(3 << 20)
    tree = mount(pack_tree({"d": dict(files)}), "--cache-mb", "4")
    expected = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    readers = [child(probes.digests_shuffled, tree / "d", seed) for seed in range(4)]
    with readers[0] as a, readers[1] as b, readers[2] as c, readers[3] as d:
        for reader in (a, b, c, d):
            reader.ask_next()
        for reader in (a, b, c, d):
            assert reader.answer() == expected


@by_both
@pytest.mark.promise("S10", "S11")
@pytest.mark.parametrize("size", [5000, 3 << 20])
def test_corrupt_record_is_eio_and_the_others_are_fine(
    mount: MakeMount, pack_tree: PackTree, size: int
) -> None:
    good = {f"good{i}": content(5000, i) for i in range(3)}
    pack = pack_tree({"d": {"bad file": content(size), **good}})
    offset, _ = record_extents(pack)[0]
    flip_byte(pack, offset + size - 1)
    tree = mount(pack)
    tree.expect_log("cannot read d/bad file")
    for _ in range(3):
        assert tree.ask(probes.errno_of, "d/bad file", "read") == errno.EIO
        # A byte far from the bad one fails, too: one checksum covers both.
        assert tree.ask(probes.errno_of, "d/bad file", "read a byte") == errno.EIO
        for name, data in good.items():
            assert tree.ask(probes.read, f"d/{name}") == data
    assert tree.count_logged("cannot read ") == 1  # one line, however often it fails
    (line,) = re.findall(r"cannot read .*", tree.log())
    assert str(pack) in line
    assert "record 0" in line
    assert str(offset) in line


def spoil_second_checksum(header: Header) -> None:
    header.checksums[1] ^= 1


@by_both
def test_log_line_of_an_odd_name_is_one_line(mount: MakeMount, tmp_path: Path) -> None:
    name = "two\nlines \x1b[31m\udcff"
    tree = mount(
        write_folder(tmp_path / "odd.ffr", {"good": b"good", name: b"bad"}, spoil_second_checksum)
    )
    tree.expect_log(r"cannot read two\\nlines \\x1b\[31m\\xff: ")
    assert tree.ask(probes.errno_of, name, "read") == errno.EIO
    assert tree.ask(probes.read, "good") == b"good"

    def lines() -> list[str]:  # a worker under a sanitizer says so in a line of its own
        return [line for line in tree.log().splitlines() if "sanitizer" not in line]

    wait_until(lambda: any("cannot read" in line for line in lines()), "the error is logged")
    assert all(re.match("[-0-9]{10} [:,0-9]{12} [A-Z]+ ", line) for line in lines())


@pytest.mark.promise("S11")
def test_wrong_checksum_in_the_header_is_eio_for_that_record(
    mount: MakeMount, tmp_path: Path
) -> None:
    records = [content(5000, i) for i in range(4)]
    tree = mount(write_records(tmp_path / "plain.ffr", records, spoil_second_checksum))
    tree.expect_log("cannot read 000000001: .*record 1")
    assert tree.ask(probes.errno_of, "000000001", "read") == errno.EIO
    for record in (0, 2, 3):
        assert tree.ask(probes.read, f"{record:09d}") == records[record]
    # A program that has mapped the file gets SIGBUS.
    program = "import mmap, sys; file = open(sys.argv[1]); mmap.mmap(file.fileno(), 0, prot=1)[0]"
    ends = [python("-c", program, tree.path / f"{i:09d}").returncode for i in range(2)]
    assert ends == [0, -signal.SIGBUS]


@by_both
@pytest.mark.promise("S12")
def test_pack_that_shrinks_while_mounted_is_eio_not_wrong_bytes(
    mount: MakeMount, tmp_path: Path
) -> None:
    # A pack without a mapped index; for packs with one see test_index.py.
    pack = tmp_path / "tree.ffr"
    tree = mount(write_folder(pack, {"first": content(5000), "second": content(500_000)}))
    assert tree.ask(probes.read, "first") == content(5000)
    with pack.open("r+b") as file:
        file.truncate(record_extents(pack)[1][0] + 1000)
    tree.expect_log("cannot read second")
    assert tree.ask(probes.errno_of, "second", "read") == errno.EIO
    assert tree.ask(probes.read, "first") == content(5000)


@by_both
@pytest.mark.promise("S12")
def test_pack_that_is_overwritten_while_mounted_is_eio(
    mount: MakeMount, pack_tree: PackTree
) -> None:
    pack = pack_tree({"read": content(5000), "unread": content(5000, 1)})
    tree = mount(pack)
    assert tree.ask(probes.read, "read") == content(5000)
    for offset, size in record_extents(pack)[:2]:
        flip_byte(pack, offset + size // 2)
    tree.expect_log("cannot read unread")
    assert tree.ask(probes.errno_of, "unread", "read") == errno.EIO


@by_both
@pytest.mark.promise("S10", "S12")
def test_large_file_overwritten_after_its_check_is_eio(
    mount: MakeMount, pack_tree: PackTree
) -> None:
    data = content(16 << 20)
    pack = pack_tree({"file": data})
    tree = mount(pack, "--cache-mb", "8")
    tree.expect_log("cannot read file")
    middle = len(data) // 2
    with child(probes.read_late, tree / "file", middle) as reader:
        assert reader.next() == data[:1]  # now the whole record is verified
        flip_byte(pack, record_extents(pack)[0][0] + middle)
        assert reader.next() == errno.EIO


@by_both
@pytest.mark.promise("S3")
def test_replaced_pack_keeps_serving_its_old_content(mount: MakeMount, pack_tree: PackTree) -> None:
    pack = pack_tree({"first": content(5000), "second": content(5000, 1)})
    tree = mount(pack)
    pack.unlink()
    pack.write_bytes(b"something else")
    assert tree.ask(probes.read, "first") == content(5000)
    assert tree.ask(probes.read, "second") == content(5000, 1)
