"""Damaged files, read by every command: one line, status 1, no traceback.

Not here: each fault of a header or an index (record_test.cc, pickle_index_test.cc), and files of
other kinds (trial.txt).
"""

from __future__ import annotations

import os
import pickle
import resource
import struct
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ffrfs import PackedFolder
from ffrfs.errors import ChecksumError, FormatError
from tests.cli.command_run import Run, running
from tests.ffrecord_file import (
    INDEX_MAGIC,
    Header,
    folder_records,
    record_extents,
    write_folder,
    write_records,
)

TREE = {"a": b"alpha" * 100, "b": b"beta", "d": {"c": b""}}
RECORDS = folder_records(TREE)
N = len(RECORDS)
HEADER_SIZE = 12 + 12 * N


def commands(pack: Path, tmp_path: Path) -> dict[str, tuple[str | Path, ...]]:
    return {
        "ls": ("ls", "-R", pack),
        "ls --json": ("ls", "--json", pack),
        "cat": ("cat", pack, "a"),
        "extract": ("extract", pack, tmp_path / "out"),
        "info": ("info", pack),
        "info --json": ("info", "--json", pack),
        "verify": ("verify", "-q", pack),
    }


COMMANDS = list(commands(Path(), Path()))


def assert_refused(
    ffrfs: Run, pack: Path, tmp_path: Path, reason: str, only: list[str] = COMMANDS
) -> None:
    for name in only:
        done = ffrfs(*commands(pack, tmp_path)[name])
        assert done.status == 1, name
        assert done.out == b"", name
        assert done.err.startswith(f"ffrfs: {pack}: "), name
        assert done.err.count("\n") == 1, name
        assert reason in done.err, name
        assert not (tmp_path / "out").exists(), name


def place_beyond_the_end(header: Header) -> None:
    header.offsets[-1] = 1 << 20


def change_checksum(header: Header) -> None:
    header.checksum = 0x12345678


def change_checksum_of_the_index(header: Header) -> None:
    header.checksums[-1] ^= 1


def cut(size: int) -> Callable[[Path], None]:
    return lambda pack: os.truncate(write_folder(pack, TREE), size)


def indexed_by(index: bytes) -> Callable[[Path], Path]:
    return lambda pack: write_records(pack, [*RECORDS[:-1], INDEX_MAGIC + index])


# How the pack is written, and a part of the error.
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "offset past the end": (lambda pack: write_folder(pack, TREE, place_beyond_the_end), "the end"),
    "wrong header checksum": (
        lambda pack: write_folder(pack, TREE, change_checksum),
        "damaged header",
    ),
    "wrong checksum of the index": (
        lambda pack: write_folder(pack, TREE, change_checksum_of_the_index),
        "checksum mismatch",
    ),
    "empty": (cut(0), "is empty"),
    "one byte": (cut(1), "truncated"),
    "truncated in the header": (cut(HEADER_SIZE - 1), "truncated"),
    "index that is no pickle": (indexed_by(b"nonsense"), "index"),
    "record beyond the end": (indexed_by(pickle.dumps(OrderedDict(a=4))), "index"),
    "name with a slash": (indexed_by(pickle.dumps(OrderedDict({"../x": 0}))), "index"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_damaged_packs_are_refused(ffrfs: Run, tmp_path: Path, fault: str) -> None:
    pack = tmp_path / "bad.ffr"
    write, reason = FAULTS[fault]
    write(pack)
    assert_refused(ffrfs, pack, tmp_path, reason)
    with pytest.raises((FormatError, ChecksumError), match=f"^{pack}: "):
        PackedFolder(pack)


def test_no_records_at_all(ffrfs: Run, tmp_path: Path) -> None:
    pack = write_records(tmp_path / "none.ffr", [])
    reading = [name for name in COMMANDS if name != "verify"]
    assert_refused(ffrfs, pack, tmp_path, "holds no records", only=reading)
    assert ffrfs("verify", pack).status == 0


def test_truncated_anywhere_in_the_last_record(ffrfs: Run, tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "bad.ffr", TREE)
    whole = pack.read_bytes()
    offset, size = record_extents(pack)[-1]
    for left in {0, 1, 8, 9, 10, size // 2, size - 1}:
        pack.write_bytes(whole[: offset + left])
        assert_refused(ffrfs, pack, tmp_path, "checksum mismatch")


def test_truncated_in_the_last_record_of_a_plain_file(ffrfs: Run, tmp_path: Path) -> None:
    pack = write_records(tmp_path / "bad.ffr", [b"first", b"last" * 100])
    os.truncate(pack, pack.stat().st_size - 1)
    done = ffrfs("verify", "-q", pack)
    assert done.status == 1
    assert "record 1 " in done.err
    names = ffrfs("ls", pack).lines
    assert ffrfs("cat", pack, names[0]).out == b"first"
    done = ffrfs("cat", pack, names[1])
    assert (done.status, done.out) == (1, b"")


class RunsCode:
    """If this is unpickled without care, it makes a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (self.path,)


def test_code_in_a_pickled_index_does_not_run(ffrfs: Run, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    records = [*RECORDS[:-1], INDEX_MAGIC + pickle.dumps(RunsCode(str(victim)))]
    pack = write_records(tmp_path / "bad.ffr", records)
    assert_refused(ffrfs, pack, tmp_path, "run code")
    assert not victim.exists()


def test_verify_checks_records_although_the_index_is_damaged(ffrfs: Run, tmp_path: Path) -> None:
    def spoil(header: Header) -> None:
        header.checksums[1] ^= 1

    records = [*RECORDS[:-1], INDEX_MAGIC + b"nonsense"]
    pack = write_records(tmp_path / "bad.ffr", records, spoil)
    done = ffrfs("verify", pack)
    bad_record, bad_index = done.err.splitlines()
    assert bad_record.startswith(f"ffrfs: {pack}: record 1 (")
    assert bad_index.startswith(f"ffrfs: {pack}: its index is damaged")
    assert done.lines[0].endswith("1 of them damaged")


@pytest.mark.parametrize("record", [0, 1, 2])
def test_wrong_checksum_of_one_file(ffrfs: Run, tmp_path: Path, record: int) -> None:
    def spoil(header: Header) -> None:
        header.checksums[record] ^= 1

    paths = ["a", "b", "d/c"]
    pack = write_folder(tmp_path / "bad.ffr", TREE, spoil)
    for command in ("ls", "ls --json", "info", "info --json"):
        assert ffrfs(*commands(pack, tmp_path)[command]).said
    for path in paths:
        done = ffrfs("cat", pack, path)
        assert done.status == (1 if path == paths[record] else 0)
    for command in ("extract", "verify"):
        done = ffrfs(*commands(pack, tmp_path)[command])
        assert done.status == 1
        assert done.err.count("\n") == 1
        assert f"{pack}: {paths[record]!r}: record {record} " in done.err
    for path in paths:
        assert (tmp_path / "out" / path).exists() is (path != paths[record])


def test_no_header_checksum_warns_once_and_verifies_the_records(ffrfs: Run, tmp_path: Path) -> None:
    def spoil(header: Header) -> None:
        header.checksum = 0

    pack = write_folder(tmp_path / "old.ffr", TREE, spoil)
    for name, arguments in commands(pack, tmp_path).items():
        done = ffrfs(*arguments)
        assert done.status == 0, name
        assert done.err.startswith(f"ffrfs: {pack}: its header has no checksum"), name
        assert done.err.count("\n") == 1, name

    def spoil_both(header: Header) -> None:
        header.checksum = 0
        header.checksums[0] ^= 1

    write_folder(pack, TREE, spoil_both)
    for arguments in (("cat", pack, "a"), ("verify", "-q", pack)):
        done = ffrfs(*arguments)
        assert (done.status, done.out) == (1, b"")
        assert "checksum mismatch" in done.err.splitlines()[1]
        assert done.err.count("\n") == 2


def test_a_fifo_instead_of_a_file(ffrfs: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert_refused(ffrfs, tmp_path / "fifo", tmp_path, "not a regular file")


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("x.jsonl", f'{{"features": {DIGITS}}}', "convert {} {}.tfrecord"),
        ("x.json", f'{{"numExamples": {DIGITS}}}', "schema show {}"),
        ("dataset_info.json", f'{{"splits": [{DIGITS}]}}', "info {}/.."),
        ("x.toml", f"cache-mb = {DIGITS}", "mount --config={}"),
    ],
    ids=lambda each: each[:20],
)
def test_numbers_that_are_too_long(
    ffrfs: Run, tmp_path: Path, name: str, text: str, command: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    words = [word.format(*[file] * word.count("{}")) for word in command.split()]
    done = ffrfs(*(word.replace(f"{name}/..", "") for word in words))
    assert done.status in (1, 32)
    assert "a number has too many digits" in done.err
    assert done.err.count("\n") == 1


def test_options_that_are_too_long(ffrfs: Run, tmp_path: Path, pack: Path) -> None:
    done = ffrfs("mount", f"-ouid={DIGITS}", pack, tmp_path)
    assert "needs a number from 0 to 4294967294" in done.err


def test_tables_that_a_sparse_file_claims_take_no_memory(tmp_path: Path) -> None:
    count = 300_000_000
    file = tmp_path / "x.ffr"
    file.write_bytes(struct.pack("<Iq", 0, count))
    os.truncate(file, 12 + 12 * count)
    limits = (2 << 30, 2 << 30)
    limit = partial(resource.setrlimit, resource.RLIMIT_AS, limits)
    with running("info", file, preexec_fn=limit) as process:
        _, error = process.communicate(timeout=60)
    why = "record 0 begins at offset 0, inside the header (3600000012 bytes)"
    assert error.decode() == f"ffrfs: {file}: damaged header: {why}\n"
