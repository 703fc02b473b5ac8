"""Archives become packs as folders do; their own statements are not trusted."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs import pack_folder
from ffrfs.errors import PackError
from ffrfs.packing.pack import PackSummary, pack_archive
from tests.ffrecord_file import Tree
from tests.folder.archives import (
    COMPRESSIONS,
    Member,
    file,
    link,
    member,
    memory_below,
    tar_bytes,
    tree_members,
    write_tree,
    zip_bytes,
)
from tests.folder.folder_model import (
    make_folder,
    read_as_reference,
    read_records,
    shown,
    shown_tree,
    trees,
)
from tests.interpreter import python

TIMEOUT_S = 60
TREE: Tree = {
    "a": {"large": bytes(range(256)) * 4100, "x.png": b"x", "empty": {}},
    "b.txt": b"b" * 4097,
    "c": {},
    "nothing": b"",
    "é": b"e",
}
NAMES = ["x.tar", "x.tar.gz", "x.tar.bz2", "x.tar.xz", "x.zip"]


def pack_members(tmp_path: Path, out: Path, members: list[Member], **options: Any) -> PackSummary:
    (tmp_path / "x.tar").write_bytes(tar_bytes(members))
    return pack_archive(tmp_path / "x.tar", out, **options)


@pytest.mark.parametrize("name", NAMES)
def test_archives_of_all_kinds(tmp_path: Path, out: Path, name: str) -> None:
    summary = pack_archive(write_tree(tmp_path / name, TREE), out)
    assert (summary.file_count, summary.folder_count, summary.skipped) == (5, 3, [])
    assert shown_tree(out) == read_as_reference(out) == TREE
    assert os.listdir(out.parent) == ["x.ffr"]


def test_the_name_of_an_archive_is_ignored(tmp_path: Path, out: Path) -> None:
    write_tree(tmp_path / "x.zip", TREE).rename(tmp_path / "x.tar.gz")
    pack_archive(tmp_path / "x.tar.gz", out)
    assert shown_tree(out) == TREE


def test_zstandard(tmp_path: Path, out: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(tar_bytes(tree_members(TREE)))
    (tmp_path / "x.tar.zst").write_bytes(packed)
    pack_archive(tmp_path / "x.tar.zst", out, force=True)
    assert shown_tree(out) == TREE
    for damaged in (packed[: len(packed) // 2], packed[:500] + b"damage" + packed[506:]):
        (tmp_path / "x.tar.zst").write_bytes(damaged)
        with pytest.raises(PackError, match=r"x\.tar\.zst: .* damaged"):
            pack_archive(tmp_path / "x.tar.zst", out, force=True)


def test_zstandard_without_its_package(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "x.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    with pytest.raises(PackError, match=r"pip install 'ffrfs\[zstd\]'"):
        pack_archive(tmp_path / "x.tar.zst", out)


@settings(max_examples=30)
@given(tree=trees, kind=st.sampled_from([".tar", ".zip", ".tar.gz"]))
def test_any_tree(tmp_path_factory: pytest.TempPathFactory, tree: Tree, kind: str) -> None:
    folder = tmp_path_factory.mktemp("any")
    pack_archive(write_tree(folder / f"x{kind}", tree), folder / "x.ffr")
    assert shown_tree(folder / "x.ffr") == read_as_reference(folder / "x.ffr") == tree


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_modes_and_times_of_tar_members(tmp_path: Path, out: Path, format: int) -> None:
    long = "/".join(["l" * 90] * 2 if format == tarfile.USTAR_FORMAT else ["l" * 255] * 3)
    members = [
        member("./", tarfile.DIRTYPE, mode=0o700, mtime=5),
        member("./d", tarfile.DIRTYPE, mode=0o750, mtime=6),
        file("./d/run", b"#!", mode=0o4711, mtime=7),
        file(f"./{long}", b"long"),
    ]
    (tmp_path / "x.tar").write_bytes(tar_bytes(members, format))
    pack_archive(tmp_path / "x.tar", out)
    entries = shown(out)
    assert entries["d/run"].mtime_ns == 7_000_000_000
    assert stat.S_IMODE(entries["d/run"].mode) == 0o711
    assert entries["d"].mtime_ns == 6_000_000_000
    assert stat.S_IMODE(entries["d"].mode) == 0o750
    assert entries[long].content == b"long"
    # A folder that is no member has no mode; it gets the mode of folders in packs without modes.
    assert stat.S_IMODE(entries[long.partition("/")[0]].mode) == 0o755


@pytest.mark.parametrize(
    ("text", "mtime_ns"),
    [
        ("1234567890.123456789", 1_234_567_890_123_456_789),
        ("-1.5", -1_500_000_000),
        ("8589934592.5", 8_589_934_592_500_000_000),  # in 2242
        ("253402300799", 2**63 - 1),  # the nearest time that a pack can hold
        ("-99999999999.5", -(2**63) + 1),
        ("1e300", 0),
        ("nan", 0),
        ("1E+999999999", 0),
        ("yesterday", 0),
    ],
)
def test_times_to_the_nanosecond(tmp_path: Path, out: Path, text: str, mtime_ns: int) -> None:
    members = [file("x", pax_headers={"mtime": text})]
    (tmp_path / "x.tar").write_bytes(tar_bytes(members, tarfile.PAX_FORMAT))
    pack_archive(tmp_path / "x.tar", out)
    assert shown(out)["x"].mtime_ns == mtime_ns


def test_a_year_that_a_pack_cannot_hold(tmp_path: Path, out: Path) -> None:
    members = [member("x", mtime=253_402_300_799), member("y", mtime=9_000_000_000)]
    (tmp_path / "x.tar").write_bytes(tar_bytes(members, tarfile.GNU_FORMAT))
    pack_archive(tmp_path / "x.tar", out)
    assert shown(out)["x"].mtime_ns == 2**63 - 1
    assert shown(out)["y"].mtime_ns == 9_000_000_000 * 10**9


def test_modes_times_and_links_of_zip_members(tmp_path: Path, out: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        known = zipfile.ZipInfo("known", (1980, 1, 1, 0, 0, 0))
        known.external_attr = (stat.S_IFREG | 0o751) << 16
        known.extra = struct.pack("<HHI", 0xCAFE, 4, 0) + struct.pack("<HHBi", 0x5455, 5, 1, 77)
        archive.writestr(known, b"")
        dos = zipfile.ZipInfo("dos", (2001, 9, 9, 1, 46, 40))
        dos.create_system = 0
        archive.writestr(dos, b"")
        odd = zipfile.ZipInfo("odd", (1980, 0, 0, 0, 0, 0))
        archive.writestr(odd, b"")
        symlink = zipfile.ZipInfo("link")
        symlink.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(symlink, "known")
    pack_archive(tmp_path / "x.zip", out, symlinks="keep")
    entries = shown(out)
    assert entries["known"].mtime_ns == 77_000_000_000
    assert stat.S_IMODE(entries["known"].mode) == 0o751
    assert entries["dos"].mtime_ns == 1_000_000_000 * 10**9
    assert stat.S_IMODE(entries["dos"].mode) == 0o644
    assert entries["odd"].mtime_ns == 0
    assert entries["link"].content == b"known"


def test_records_are_in_the_order_of_the_archive(tmp_path: Path, out: Path) -> None:
    pack_members(tmp_path, out, [file("z", b"1"), file("a/b", b"2"), file("a/a", b"3")])
    assert read_records(out)[:-1] == [b"1", b"2", b"3"]


def test_folders_in_any_order(tmp_path: Path, out: Path) -> None:
    members = [
        file("a/b/c", b"1"),
        member("a/b", tarfile.DIRTYPE, mode=0o700, mtime=3),
        member("a", tarfile.DIRTYPE, mode=0o700, mtime=1),
        member("a", tarfile.DIRTYPE, mode=0o700, mtime=2),  # as `tar r` leaves it
    ]
    assert pack_members(tmp_path, out, members).folder_count == 2
    entries = shown(out)
    assert (entries["a"].mtime_ns, entries["a/b"].mtime_ns) == (2 * 10**9, 3 * 10**9)


def test_include_and_exclude(tmp_path: Path, out: Path) -> None:
    options = {"include": ["a", "*.txt"], "exclude": ["large"]}
    write_tree(tmp_path / "x.tar", TREE)
    pack_archive(tmp_path / "x.tar", out, **options, force=True)
    assert shown_tree(out) == {"a": {"x.png": b"x", "empty": {}}, "b.txt": b"b" * 4097}
    make_folder(tmp_path / "folder", TREE)
    pack_folder(tmp_path / "folder", out, **options, force=True)
    assert shown_tree(out) == {"a": {"x.png": b"x", "empty": {}}, "b.txt": b"b" * 4097}
    pack_archive(tmp_path / "x.tar", out, include=["nothing"], force=True)
    assert shown_tree(out) == {"nothing": b""}


def test_hard_links_share_the_record_of_their_target(tmp_path: Path, out: Path) -> None:
    members = [
        file("a/one", b"content"),
        link("two", "a/one", tarfile.LNKTYPE),
        link("three", "./two", tarfile.LNKTYPE),
    ]
    summary = pack_members(tmp_path, out, members)
    assert (summary.file_count, summary.shared_count) == (3, 2)
    assert read_records(out)[:-1] == [b"content"]
    assert shown_tree(out) == {"a": {"one": b"content"}, "two": b"content", "three": b"content"}


def test_hard_links_to_a_file_that_equals_another(tmp_path: Path, out: Path) -> None:
    members = [file("a", b"content"), file("b", b"content"), link("c", "b", tarfile.LNKTYPE)]
    summary = pack_members(tmp_path, out, members, dedup=True)
    assert (summary.file_count, summary.shared_count) == (3, 2)
    assert read_records(out)[:-1] == [b"content"]
    assert shown_tree(out) == {"a": b"content", "b": b"content", "c": b"content"}


LINKS: list[Member] = [
    file("a/b/one", b"1"),
    file("two", b"22"),
    link("a/up", "../two"),
    link("a/twice", "up"),
    link("a/round", "b/../b/./one"),
    link("folder", "a/b"),
    link("through", "folder/one"),
    link("back/to", "../folder"),
]


def test_links_are_followed_inside_the_archive(tmp_path: Path, out: Path) -> None:
    summary = pack_members(tmp_path, out, LINKS)
    assert shown_tree(out) == {
        "a": {"b": {"one": b"1"}, "up": b"22", "twice": b"22", "round": b"1"},
        "two": b"22",
        "folder": {"one": b"1"},
        "through": b"1",
        "back": {"to": {"one": b"1"}},
    }
    assert read_records(out)[:-1] == [b"1", b"22"]
    assert (summary.link_count, summary.followed_link_count) == (0, 6)
    # The result equals that of a folder whose links are followed.
    with tarfile.open(tmp_path / "x.tar") as tar:
        tar.extractall(tmp_path / "unpacked", filter="fully_trusted")
    pack_folder(tmp_path / "unpacked", tmp_path / "y.ffr")
    assert shown_tree(tmp_path / "y.ffr") == shown_tree(out)


def test_links_are_kept(tmp_path: Path, out: Path) -> None:
    members = [*LINKS, link("out", "/etc/passwd"), link("hard", "folder", tarfile.LNKTYPE)]
    summary = pack_members(tmp_path, out, members, symlinks="keep")
    assert (summary.file_count, summary.link_count) == (2, 8)
    entries = shown(out)
    assert entries["out"].content == b"/etc/passwd"
    assert entries["hard"].content == entries["folder"].content == b"a/b"
    assert stat.S_ISLNK(entries["a/up"].mode)


@pytest.mark.parametrize(
    "format",
    [
        ["--format=gnu"],
        *(["--format=posix", f"--sparse-version={version}"] for version in ("0.0", "0.1", "1.0")),
    ],
    ids=" ".join,
)
def test_sparse_files_are_whole(tmp_path: Path, out: Path, format: list[str]) -> None:
    (tmp_path / "in").mkdir()
    parts = {number << 18: b"%d" % number * 3000 for number in range(40)}  # a map of many blocks
    with (tmp_path / "in" / "many").open("wb") as many:
        for offset, data in parts.items():
            many.seek(offset)
            many.write(data)
    with (tmp_path / "in" / "sparse").open("wb") as sparse:
        sparse.seek(3 << 20)
        sparse.write(b"data")
        sparse.truncate(5 << 20)
    (tmp_path / "in" / "z").write_bytes(b"z")
    command = ["tar", "--sparse", *format, "-C", tmp_path / "in", "-cf", tmp_path / "x.tar", "."]
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
    assert (tmp_path / "x.tar").stat().st_size < 1 << 20
    pack_archive(tmp_path / "x.tar", out)
    assert shown_tree(out) == {
        "many": (tmp_path / "in" / "many").read_bytes(),
        "sparse": bytes(3 << 20) + b"data" + bytes((2 << 20) - 4),
        "z": b"z",
    }


def test_equal_members_are_stored_once(tmp_path: Path, out: Path) -> None:
    members = [file("z", b"same"), file("a", b"same"), file("b", b"else"), file("c", b"same")]
    summary = pack_members(tmp_path, out, members, dedup=True)
    assert summary.shared_count == 2
    assert read_records(out)[:-1] == [b"same", b"else"]
    assert shown_tree(out) == {"z": b"same", "a": b"same", "b": b"else", "c": b"same"}


@pytest.mark.parametrize("name", ["x.tar.gz", "x.zip"])
def test_shards_of_an_archive(tmp_path: Path, out: Path, name: str) -> None:
    seen: list[tuple[int, int, int, int]] = []
    write_tree(tmp_path / name, TREE)
    summary = pack_archive(
        tmp_path / name, out, shards=3, progress=lambda *state: seen.append(state)
    )
    assert summary.shard_count == 3
    assert shown_tree(out) == TREE
    assert seen[-1] == (5, 5, 4100 * 256 + 1 + 4097 + 1, 4100 * 256 + 1 + 4097 + 1)
    assert seen == sorted(seen)
    write_tree(tmp_path / "more.tar", {"a": {"more": b""}, "d": {}})
    pack_archive(tmp_path / "more.tar", out, append=True)
    assert shown(out)["a/more"].content == b""
    with pytest.raises(PackError, match=r"more\.tar: 'a/more': .*part_00003.ffr has 'a/more'"):
        pack_archive(tmp_path / "more.tar", out, append=True)


def test_reproducible(tmp_path: Path, out: Path) -> None:
    write_tree(tmp_path / "x.tar", TREE)
    pack_archive(tmp_path / "x.tar", out, reproducible=True, force=True)
    first = out.read_bytes()
    (tmp_path / "x.tar.xz").write_bytes(
        COMPRESSIONS[".xz"](tar_bytes([touched(each) for each in tree_members(TREE)]))
    )
    pack_archive(tmp_path / "x.tar.xz", out, reproducible=True, force=True)
    assert out.read_bytes() == first


def touched(entry: Member) -> Member:
    info = entry[0] if isinstance(entry, tuple) else entry
    info.mtime = 1
    return entry


def test_standard_input(tmp_path: Path, out: Path) -> None:
    for content in (tar_bytes(tree_members(TREE)), zip_bytes(TREE)):
        done = python(
            "-m", "ffrfs", "pack", "--force", "-", out, input=content, check=True, text=False
        )
        assert done.stderr == b""
        assert shown_tree(out) == TREE
        assert os.listdir(out.parent) == ["x.ffr"]


def test_a_named_pipe(tmp_path: Path, out: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    write_tree(tmp_path / "x.tar", TREE)
    with (tmp_path / "x.tar").open("rb") as source:
        writer = subprocess.Popen(["sh", "-c", 'cat >"$0"', tmp_path / "pipe"], stdin=source)
        pack_archive(tmp_path / "pipe", out)
        assert writer.wait(TIMEOUT_S) == 0
    assert shown_tree(out) == TREE


def test_memory_is_bounded(tmp_path: Path, out: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz", compresslevel=1) as tar:
        info = member("large", size=40 << 20)
        with open("/dev/zero", "rb") as zeros:
            tar.addfile(info, zeros)
    with memory_below(16 << 20):
        pack_archive(tmp_path / "x.tar.gz", out)
    assert out.stat().st_size > 40 << 20
