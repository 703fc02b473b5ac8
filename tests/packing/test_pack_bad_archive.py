"""Hostile and damaged archives are refused: their own statements are not trusted."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import stat
import struct
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from ffrfs.errors import PackError
from ffrfs.packing.pack import pack_archive
from ffrfs.packing.sources import archive_list, tar_members
from tests.folder.archives import (
    COMPRESSIONS,
    Member,
    file,
    link,
    member,
    memory_below,
    tar_bytes,
    write_tree,
    zip_bytes,
)
from tests.folder.folder_model import read_records, shown_tree
from tests.packing.test_pack_archive import pack_members


def refusal(tmp_path: Path, out: Path, members: list[Member], **options: Any) -> str:
    with pytest.raises(PackError) as caught:
        pack_members(tmp_path, out, members, **options)
    assert os.listdir(out.parent) == []
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{tmp_path}/x.tar: ")


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ([link("a", "/etc/passwd")], "a"),
        ([file("etc/passwd", b""), link("a", "/etc/passwd")], "a"),
        ([link("d/a", "../../x"), file("x")], "d/a"),
        ([link("a", "nowhere")], "a"),
        ([file("x"), link("a", "x/y")], "a"),
        ([file("x"), link("a", "x/../x")], "a"),
        ([link("a", "b"), link("b", "a")], "a"),
        ([link("a", "b"), link("b", "/x"), file("x")], "a"),
        ([link("a", "a/b")], "a"),
    ],
)
def test_links_that_lead_nowhere(
    tmp_path: Path, out: Path, members: list[Member], name: str
) -> None:
    message = refusal(tmp_path, out, members)
    assert message.startswith(f"{name!r}: is a symbolic link to ")
    assert "which is not among the packed files; exclude it, or keep or skip links" in message
    pack_members(tmp_path, out, [*members, file("y")], exclude=["a", "b"], force=True)
    pack_members(tmp_path, out, members, symlinks="keep", force=True)
    summary = pack_members(tmp_path, out, members, symlinks="skip", force=True)
    count = sum(isinstance(one, tarfile.TarInfo) and one.issym() for one in members)
    assert (summary.link_count, summary.left_out_link_count) == (0, count)


def test_links_that_make_a_loop(tmp_path: Path, out: Path) -> None:
    loop = [file("d/e/f"), link("d/e/up", "..")]
    assert refusal(tmp_path, out, loop) == "'d/e/up': is a symbolic link that makes a loop"
    assert refusal(tmp_path, out, [link("d/self", ".")]).startswith("'d/self': ")


def test_links_that_multiply_the_paths(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten levels of ten links each would show ten thousand million files."""
    monkeypatch.setattr(archive_list, "SHOWN_THROUGH_LINKS_LIMIT", 5000)
    members = [file("0/file")]
    for level in range(1, 11):
        members += [link(f"{level}/{i}", f"../{level - 1}") for i in range(10)]
    message = refusal(tmp_path, out, members)
    assert message.endswith("is one of over 5,000 behind links; keep the links")


HOSTILE = {
    "/etc/passwd": "is an absolute path",
    "//x": "is an absolute path",
    "../x": 'leads upwards, by ".."',
    "a/../../x": 'leads upwards, by ".."',
    "..": 'leads upwards, by ".."',
    "a//b": "has an empty name in it",
    "a/./b": 'has a "." in it',
    "././a": 'has a "." in it',
    "a/.": 'has a "." in it',
    "n" * 256: "has a name of over 255 bytes in it",
    "é" * 128: "has a name of over 255 bytes in it",
    "/".join("d" * 1026): "is deeper than 1024 directories",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(tmp_path: Path, out: Path, name: str) -> None:
    reason = HOSTILE[name]
    assert refusal(tmp_path, out, [file(name)]) == f"{name!r}: {reason}; exclude it"
    assert refusal(tmp_path, out, [file("fine"), link(name, "fine")]).endswith(
        f": {reason}; exclude it"
    )
    reason = re.escape(f"{name!r}: {reason}; exclude it")
    refused_zip(tmp_path, out, zip_bytes({name: b""}), f"{reason}$")


def test_a_nul_in_a_name(tmp_path: Path, out: Path) -> None:
    (tmp_path / "x.tar").write_bytes(
        tar_bytes([file("x", pax_headers={"path": "a\0b"})], tarfile.PAX_FORMAT)
    )
    with pytest.raises(PackError, match=r"x\.tar: 'a\\x00b': has a NUL in it"):
        pack_archive(tmp_path / "x.tar", out)
    content = zip_bytes({"aXb": b""}).replace(b"aXb", b"a\0b")
    refused_zip(tmp_path, out, content, r"'a\\x00b': has a NUL in it")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([file("a"), file("a")], "'a': is in the archive twice; exclude it"),
        ([file("a"), file("./a")], "'./a': is in the archive twice; exclude it"),
        ([file("a"), link("a", "b")], "'a': is in the archive twice; exclude it"),
        ([file("a/b"), file("a")], "'a': is in the archive twice; exclude it"),
        ([file("a"), file("a/b")], "'a/b': needs the directory 'a', which is a file"),
        (
            [file("a"), member("a", tarfile.DIRTYPE)],
            "'a': needs the directory 'a', which is a file",
        ),
        (
            [link("a", "/etc"), file("a/b")],
            "'a/b': needs the directory 'a', which is a symbolic link",
        ),
        ([file(".")], "'.': is not a directory"),
        (
            [link("a", "b", tarfile.LNKTYPE), file("b")],
            "'a': is a hard link to 'b', which is not a file packed before it; exclude it",
        ),
        (
            [link("a", "../b", tarfile.LNKTYPE)],
            "'a': is a hard link to '../b', which is not a file packed before it; exclude it",
        ),
        (
            [file("d/x"), link("a", "d", tarfile.LNKTYPE)],
            "'a': is a hard link to 'd', which is not a file packed before it; exclude it",
        ),
        ([link("a", "")], "'a': is a symbolic link that leads nowhere"),
        ([link("a", "x" * 4096)], "'a': is a symbolic link that leads nowhere"),
    ],
)
def test_members_that_no_directory_can_hold(
    tmp_path: Path, out: Path, members: list[Member], message: str
) -> None:
    assert refusal(tmp_path, out, members) == message


@pytest.mark.parametrize(
    ("special", "reason"),
    [
        (member("pipe", tarfile.FIFOTYPE), "is a FIFO"),
        (member("null", tarfile.CHRTYPE), "is a character device"),
        (member("disk", tarfile.BLKTYPE), "is a block device"),
        (member("label", b"V"), "is of an unknown type, b'V'"),
        (file("caf\udce9"), "the name is not UTF-8"),
    ],
)
def test_special_members_are_refused_or_skipped(
    tmp_path: Path, out: Path, special: Member, reason: str
) -> None:
    info = special[0] if isinstance(special, tuple) else special
    members = [file("a"), special, file("b", b"b")]
    name = f"'{info.name}'".replace("\udce9", r"\xe9")  # messages show names by bytes
    assert refusal(tmp_path, out, members) == f"{name}: {reason}; exclude it"
    summary = pack_members(tmp_path, out, members, skip_special=True)
    assert summary.skipped == [f"{tmp_path}/x.tar: {name}"]
    assert shown_tree(out) == {"a": b"", "b": b"b"}


def test_a_special_member_of_a_zip(tmp_path: Path, out: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        info = zipfile.ZipInfo("pipe")
        info.external_attr = (stat.S_IFIFO | 0o644) << 16
        archive.writestr(info, b"")
    with pytest.raises(PackError, match="'pipe': is a FIFO; exclude it"):
        pack_archive(tmp_path / "x.zip", out)
    assert pack_archive(tmp_path / "x.zip", out, skip_special=True).file_count == 0


def refused_zip(tmp_path: Path, out: Path, content: bytes | bytearray, reason: str) -> None:
    """`reason`: a pattern for the error's text after the name of the archive."""
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(PackError, match=rf"^{tmp_path}/x\.zip: {reason}"):
        pack_archive(tmp_path / "x.zip", out)
    assert os.listdir(out.parent) == []


def damaged_tar(tmp_path: Path, content: bytes, **options: Any) -> str:
    (tmp_path / "bad.tar").write_bytes(content)
    (tmp_path / "out").mkdir(exist_ok=True)
    with pytest.raises(PackError) as caught:
        pack_archive(tmp_path / "bad.tar", tmp_path / "out" / "x.ffr", **options)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/bad.tar: ")
    assert "\n" not in message
    assert os.listdir(tmp_path / "out") == []
    return message


@pytest.mark.parametrize("size", [0, 1, 100, 511, 512, 513, 5000, 1024, 1536, 2048])
def test_a_truncated_tar(tmp_path: Path, size: int) -> None:
    """A cut at the end of a member is noticed, too; tarfile sees nothing wrong there."""
    whole = tar_bytes([file("a", b"a" * 512), file("b", b"b" * 3000)])
    damaged_tar(tmp_path, whole[:size])


def test_a_damaged_header_is_not_the_end(tmp_path: Path) -> None:
    whole = bytearray(tar_bytes([file("a", b"a"), file("b", b"b")]))
    whole[1024 + 5] ^= 1  # in the second header
    assert "no member begins at byte 1024, nor is it marked as the end" in damaged_tar(
        tmp_path, bytes(whole)
    )


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_damaged_compression(tmp_path: Path, suffix: str) -> None:
    whole = COMPRESSIONS[suffix](tar_bytes([file("a", os.urandom(50_000))]))
    damaged_tar(tmp_path, whole[:-30])
    damaged_tar(tmp_path, whole[: len(whole) // 2])
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    damaged_tar(tmp_path, bytes(damaged))


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    assert "not a tar or zip archive" in damaged_tar(tmp_path, b"hello" * 1000)
    assert "not a tar or zip archive" in damaged_tar(tmp_path, b"PK\x03\x04" + bytes(100))


def header(name: bytes, size: bytes, type: bytes) -> bytes:
    """Return a header with a size that no library writes."""
    fields = bytearray(512)
    fields[0 : len(name)] = name
    fields[100:108] = b"0000644\0"
    fields[108:124] = b"0000000\0" * 2
    fields[124 : 124 + len(size)] = size
    fields[136:148] = b"00000000000\0"
    fields[148:156] = b" " * 8
    fields[156:157] = type
    fields[257:265] = b"ustar  \0"
    fields[148:156] = b"%06o\0 " % sum(fields)
    return bytes(fields)


NEGATIVE_SIZE = b"\xff" * 8 + struct.pack(">i", -512)
HUGE_SIZE = b"\x80" + bytes(3) + b"\x7f" + b"\xff" * 7


@pytest.mark.parametrize("size", [NEGATIVE_SIZE, HUGE_SIZE, b"77777777777\0"])
@pytest.mark.parametrize("type", [b"0", b"L", b"x", b"g", b"S", b"V"])
def test_false_sizes_in_headers(tmp_path: Path, size: bytes, type: bytes) -> None:
    content = header(b"liar", size, type) + bytes(512) + tar_bytes([file("a")])
    with memory_below(16 << 20):
        damaged_tar(tmp_path, content)
        damaged_tar(tmp_path, gzip.compress(content))


def test_a_negative_size_that_would_loop_forever(tmp_path: Path) -> None:
    """The size of a member that is not packed leads from the end back to the first header."""
    back = b"\xff" * 8 + struct.pack(">i", -2048)
    content = header(b"g", b"00000000000\0", b"g") * 4 + header(b"liar", back, b"V") + bytes(4096)
    message = damaged_tar(tmp_path, content, exclude=["liar"])
    assert "a header leads back from byte 2560 to byte 511" in message


def test_many_long_name_headers_in_a_row(tmp_path: Path) -> None:
    long = header(b"l", b"00000000002\0", b"L") + b"n".ljust(512, b"\0")
    damaged_tar(tmp_path, long * 3000 + tar_bytes([file("a")]))


def test_a_huge_map_of_a_sparse_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However large, it compresses to little, and tarfile makes pairs of numbers of it."""
    assert tar_members._HEADERS_LIMIT <= 16 << 20
    monkeypatch.setattr(tar_members, "_HEADERS_LIMIT", 2 << 20)
    pairs = 1 << 20
    sparse = tarfile.TarInfo("bomb")
    sparse.size = 3 << 20
    sparse.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
    content = sparse.tobuf(tarfile.PAX_FORMAT) + b"%d\n" % pairs + b"0\n" * 2 * pairs
    message = damaged_tar(tmp_path, content.ljust(4 << 20, b"\0"))
    assert "headers of a member before byte" in message
    assert "have over 2,097,152 bytes" in message


@pytest.mark.parametrize(
    ("parts", "size"),
    [
        ("0,600", 600),  # the data would include the next header
        ("0,500", 500),  # or the padding of the last block
        ("0,5,3,5", 12),
        ("5,5,0,5", 12),
        ("0,5,-5,5", 12),
        ("0,15,20,-5", 20),
        ("0,10", 9),
    ],
)
def test_a_false_map_of_a_sparse_file(tmp_path: Path, parts: str, size: int) -> None:
    keys = {"GNU.sparse.map": parts, "GNU.sparse.size": str(size)}
    members = [file("s", b"helloworld", pax_headers=keys), file("secret", b"x")]
    message = damaged_tar(tmp_path, tar_bytes(members, tarfile.PAX_FORMAT))
    assert "'s': the map of a sparse file" in message


@pytest.mark.parametrize("count", [1000, 1001])
def test_the_limit_of_keys_in_global_headers(tmp_path: Path, count: int) -> None:
    keys = {f"key{number}": "v" for number in range(count)}
    content = tarfile.TarInfo.create_pax_global_header(keys) + tar_bytes([file("a")])
    if count == 1000:
        (tmp_path / "good.tar").write_bytes(content)
        assert pack_archive(tmp_path / "good.tar", tmp_path / "good.ffr").file_count == 1
    else:
        assert "over 1,000 keys of global headers" in damaged_tar(tmp_path, content)


@pytest.mark.parametrize("dedup", [False, True])
def test_members_larger_than_the_free_disk_space(tmp_path: Path, *, dedup: bool) -> None:
    """A sparse member claims to have 4 EiB, which are not even read to compare them."""
    sparse = bytearray(header(b"bomb", b"00000000000\0", b"S"))
    sparse[483:495] = b"\x80" + bytes(3) + struct.pack(">Q", 1 << 62)
    sparse[148:156] = b" " * 8
    sparse[148:156] = b"%06o\0 " % sum(sparse)
    message = damaged_tar(tmp_path, bytes(sparse) + bytes(1024), dedup=dedup)
    assert "announces 4,611,686,018,427,387,904 bytes of files, more than there is" in message


@pytest.mark.parametrize("options", [{}, {"dedup": True}, {"shards": 2}])
def test_disk_space_is_required_only_for_stored_bytes(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=2500, f_frsize=1))
    content = bytes(1000)
    other = file("c", content if "dedup" in options else b"c" * 1000)
    links = [link(f"b{number}", "a", tarfile.LNKTYPE) for number in range(9)]
    members = [file("a", content), *links, other]
    pack_members(tmp_path, out, members, **options)
    with pytest.raises(PackError, match="announces 3,000 bytes of files"):
        more = [file(name, name.encode() * 1000) for name in "xyz"]
        pack_members(tmp_path, tmp_path / "more", more, **options)
    assert not (tmp_path / "more").exists()


def test_a_pipe_is_copied_into_the_target_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = []

    def full(*, dir: str, **_: object) -> BinaryIO:
        places.append(dir)
        return open("/dev/full", "wb+", buffering=0)

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    (tmp_path / "set").mkdir()
    for name in ("set", "new"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(tar_bytes([file("a")]))))
        with pytest.raises(OSError, match="No space left") as caught:
            pack_archive("-", tmp_path / name, shards=1)
        assert caught.value.filename == places[-1]
    assert places == [str(tmp_path / "set"), str(tmp_path)]


def test_a_pipe_that_cannot_be_read_is_named(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(read=read)))
    with pytest.raises(PackError, match=r"^standard input: Input/output error$"):
        pack_archive("-", out)
    assert os.listdir(out.parent) == []


def test_encrypted_zips_are_refused(tmp_path: Path, out: Path) -> None:
    content = bytearray(zip_bytes({"secret": b"x"}, zipfile.ZIP_STORED))
    content[6] |= 1  # in the member's own header
    content[content.index(b"PK\x01\x02") + 8] |= 1  # in the directory
    refused_zip(tmp_path, out, content, "'secret' is encrypted; decrypt")


@pytest.mark.parametrize("size", [10, 100_000])
def test_zip_members_of_another_size_than_announced(tmp_path: Path, out: Path, size: int) -> None:
    """A bomb announces a size that is too small; with one that is too large, bytes are missing."""
    content = bytearray(zip_bytes({"bomb": bytes(50_000)}))
    at = content.index(b"PK\x01\x02") + 24
    content[at : at + 4] = struct.pack("<I", size)
    refused_zip(tmp_path, out, content, "")


def test_a_damaged_zip_member(tmp_path: Path, out: Path) -> None:
    content = bytearray(zip_bytes({"x": os.urandom(5000)}, zipfile.ZIP_STORED))
    content[1000] ^= 1
    refused_zip(tmp_path, out, content, ".*CRC")


def test_a_zip_with_an_unknown_compression_method(tmp_path: Path, out: Path) -> None:
    content = bytearray(zip_bytes({"x": b"x" * 100}))
    content[8] = 97
    content[content.index(b"PK\x01\x02") + 10] = 97
    refused_zip(tmp_path, out, content, "")


def test_an_archive_that_changes_meanwhile(tmp_path: Path, out: Path) -> None:
    write_tree(tmp_path / "x.tar", {"a": b"a", "b": b"b"})

    def append(*_: int) -> None:
        with (tmp_path / "x.tar").open("ab") as archive:
            archive.write(b"\0")

    with pytest.raises(PackError, match=r"x\.tar: changed while it was packed; pack again"):
        pack_archive(tmp_path / "x.tar", out, progress=append)
    assert os.listdir(out.parent) == []


def test_a_missing_file_or_a_directory_as_archive(tmp_path: Path, out: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pack_archive(tmp_path / "x.tar", out)
    with pytest.raises(IsADirectoryError):
        pack_archive(tmp_path, out)


def test_every_byte_flipped(tmp_path: Path, out: Path) -> None:
    """Every damaged tar gives an error of ours, or a sound pack."""
    whole = tar_bytes([file("a/b", b"content"), link("c", "a/b")], tarfile.PAX_FORMAT)
    archive = tmp_path / "x.tar"
    for position in [*range(0, 520, 3), *range(1024, 1300, 7)]:
        damaged = bytearray(whole)
        damaged[position] ^= 0x15
        archive.write_bytes(bytes(damaged))
        try:
            pack_archive(archive, out)
        except PackError:
            continue
        read_records(out)


def pax_record(key: bytes, value: bytes) -> bytes:
    """Return a record of a pax header; the number at its head counts its own digits, too."""
    rest = b" " + key + b"=" + value + b"\n"
    size = len(rest)
    while len(b"%d" % size) + len(rest) != size:
        size = len(b"%d" % size) + len(rest)
    return b"%d" % size + rest


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("-1", "its header has the size '-1', which is not a number of bytes"),
        ("1e3", "its header has the size '1e3', which is not a number of bytes"),
        ("many", "its header has the size 'many', which is not a number of bytes"),
        ("", "its header has the size '', which is not a number of bytes"),
        (str(1 << 62), f"the next one begins at byte {(1 << 62) + 1535}, where no file has any"),
        (str((1 << 63) - 1), "where no file has any"),
        (str(1 << 80), f"'a': is said to have {1 << 80} bytes, which no file has"),
    ],
)
def test_false_sizes_in_extended_headers(tmp_path: Path, out: Path, said: str, reason: str) -> None:
    extended = pax_record(b"size", said.encode())
    members = [file("PaxHeader/a", extended, type=tarfile.XHDTYPE), file("a", b"x"), file("b")]
    message = refusal(tmp_path, out, members)
    assert reason in message
    assert "is damaged" in message
    assert "Errno" not in message


@pytest.mark.parametrize("offset", [0x7FFFFFFF, 0xFFFFFFFE])
def test_a_false_offset_of_a_zip_directory(tmp_path: Path, out: Path, offset: int) -> None:
    archive = bytearray(zip_bytes({"a": b"content"}))
    struct.pack_into("<I", archive, archive.index(b"PK\5\6") + 16, offset)
    reason = "is damaged.*leads to a place before its own beginning"
    refused_zip(tmp_path, out, archive, reason)


@pytest.mark.parametrize(
    ("sizes_and_offset", "reason"),
    [
        ((1 << 63, 7, 0), f"'a': is said to have {1 << 63} bytes, which no file has"),
        (((1 << 64) - 1, 7, 0), f"'a': is said to have {(1 << 64) - 1} bytes, which no file has"),
        ((7, 7, 1 << 63), f"'a' is said to begin at byte {1 << 63}, where no file has any"),
    ],
)
def test_false_sizes_and_offsets_in_a_zip64(
    tmp_path: Path, out: Path, sizes_and_offset: tuple[int, int, int], reason: str
) -> None:
    content = zip_bytes({"a": b"content"})
    begin, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    entry, tail = bytearray(content[begin:end]), bytearray(content[end:])
    extra = struct.pack("<HHQQQ", 1, 24, *sizes_and_offset)
    struct.pack_into("<I", entry, 20, 0xFFFFFFFF)
    struct.pack_into("<I", entry, 24, 0xFFFFFFFF)
    struct.pack_into("<I", entry, 42, 0xFFFFFFFF)
    struct.pack_into("<H", entry, 30, len(extra))
    entry = entry[: 46 + len("a")] + bytearray(extra)
    struct.pack_into("<I", tail, 12, len(entry))
    # In the order of the format: uncompressed size, compressed size, offset.
    refused_zip(tmp_path, out, content[:begin] + entry + tail, f".*{reason}.*damaged")
