"""PackWriter: all added files are in the pack, or there is no pack."""

from __future__ import annotations

import io
import itertools
import mmap
import os
import stat
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from ffrfs import PackWriter, pack_folder
from ffrfs.errors import PackError
from ffrfs.packing import pack_writer
from ffrfs.printable import quoted
from tests.ffrecord_file import Tree
from tests.folder.archives import memory_below
from tests.folder.folder_model import (
    make_folder,
    read_as_reference,
    read_records,
    shown,
    shown_tree,
    trees,
    walk,
)
from tests.interpreter import python
from tests.interruption import Interruption
from tests.tiny_disk import error_on_tiny_disk, run_on_tiny_disk

LARGE = bytes(range(256)) * 20_000


def test_bytes_files_and_paths(tmp_path: Path, out: Path) -> None:
    (tmp_path / "file").write_bytes(b"on disk")
    (tmp_path / "file").chmod(0o750)
    os.utime(tmp_path / "file", ns=(0, 1_234_567_890_123_456_789))
    before_ns = time.time_ns()
    with PackWriter(out) as pack:
        pack.add("z/bytes", b"1")
        pack.add("a/file", io.BytesIO(LARGE), mode=0o4711, mtime=7)
        pack.add(Path("z/path"), tmp_path / "file")
        pack.add("./array", np.arange(3, dtype=np.uint16))
        pack.add("nothing", bytearray())
        pack.add("view", memoryview(b"view"), mtime=1.5)
        with open(tmp_path / "file", "rb") as file:
            pack.add("open", file)
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
                memory.seek(3)
                pack.add("mapped", memory)  # taken as a buffer, though it has read()
        assert not out.exists()
    assert os.listdir(out.parent) == ["x.ffr"]
    entries = shown(out)
    assert {path: entry.content for path, entry in entries.items()} == {
        "a": None,
        "a/file": LARGE,
        "array": b"\0\0\1\0\2\0",
        "mapped": b"on disk",
        "nothing": b"",
        "open": b"on disk",
        "view": b"view",
        "z": None,
        "z/bytes": b"1",
        "z/path": b"on disk",
    }
    assert read_records(out)[:3] == [b"1", LARGE, b"on disk"]  # in the order of add()
    assert stat.S_IMODE(entries["a/file"].mode) == 0o711
    assert stat.S_IMODE(entries["z/bytes"].mode) == 0o644
    assert stat.S_IMODE(entries["z/path"].mode) == 0o750
    assert entries["z/path"].mtime_ns == 1_234_567_890_123_456_789
    assert (entries["a/file"].mtime_ns, entries["view"].mtime_ns) == (7 * 10**9, 15 * 10**8)
    assert before_ns <= entries["z/bytes"].mtime_ns <= time.time_ns()
    assert before_ns <= entries["z"].mtime_ns <= time.time_ns()


@settings(max_examples=30)
@given(tree=trees)
def test_any_tree(tmp_path_factory: pytest.TempPathFactory, tree: Tree) -> None:
    place = tmp_path_factory.mktemp("any")
    make_folder(place / "folder", tree)
    files = {path: content for path, content in walk(tree) if content is not None}
    with PackWriter(place / "x.ffr", reproducible=True) as pack:
        for path, content in files.items():
            pack.add(path, content, mode=0o600, mtime=7)  # mode and mtime do not count
    # A directory exists only because of its files.
    folder = place / "by files"
    folder.mkdir()
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    pack_folder(folder, place / "packed.ffr", reproducible=True)
    assert (place / "x.ffr").read_bytes() == (place / "packed.ffr").read_bytes()
    assert read_as_reference(place / "x.ffr") == shown_tree(place / "packed.ffr")


def test_no_files(out: Path) -> None:
    with PackWriter(out):
        pass
    assert shown_tree(out) == {}


@pytest.mark.parametrize("kind", [object, [("O", np.uint8), ("name", object)]])
def test_arrays_of_objects_are_refused(out: Path, kind: Any) -> None:
    """The memory of such an array holds pointers."""
    with PackWriter(out) as pack:
        with pytest.raises(TypeError, match="an array of Python objects"):
            pack.add("folder/a", np.zeros(2, kind))
        pack.add("b", np.zeros(1, [("O", np.uint8)]))
    assert shown_tree(out) == {"b": b"\0"}


@pytest.mark.parametrize(
    ("mode", "error"), [(-1, ValueError), (1 << 70, ValueError), ("rw", TypeError)]
)
def test_a_mode_that_is_refused_leaves_no_directory(
    out: Path, mode: Any, error: type[Exception]
) -> None:
    with PackWriter(out) as pack, pytest.raises(error):
        pack.add("folder/file", b"1", mode=mode)
    assert shown_tree(out) == {}


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.float32, np.float64, Decimal])
def test_times_of_any_kind_of_number(out: Path, kind: Any) -> None:
    with PackWriter(out) as pack:
        pack.add("a", b"1", mtime=kind(1_700_000_000))
    assert shown(out)["a"].mtime_ns == 1_700_000_000 * 10**9


@pytest.mark.parametrize(
    ("time_s", "error"),
    [
        (float("nan"), ValueError),
        (np.float32("inf"), ValueError),
        (-float("inf"), ValueError),
        (1e300, ValueError),  # too large only in nanoseconds
        ("7", TypeError),
        (np.datetime64("2024-01-01", "ns"), TypeError),
    ],
)
def test_times_that_are_refused(out: Path, time_s: Any, error: type[Exception]) -> None:
    with PackWriter(out) as pack, pytest.raises(error, match=r"^'folder/file': mtime "):
        pack.add("folder/file", b"1", mtime=time_s)
    assert shown_tree(out) == {}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "has an empty name in it"),
        (".", "names no file"),
        ("a/", "names a directory, not a file"),
        ("/a", "is an absolute path"),
        ("a//b", "has an empty name in it"),
        ("a/../b", 'leads upwards, by ".."'),
        ("..", 'leads upwards, by ".."'),
        ("a/./b", 'has a "." in it'),
        ("a\0", "has a NUL in it"),
        ("a\udcff", "the name is not UTF-8"),
        ("é" * 128, "has a name of over 255 bytes in it"),
        ("d/" * 1025 + "f", "is deeper than 1024 directories"),
        ("there", "was added before"),
        ("./there", "was added before"),
        ("there/below", "needs the directory 'there', which is a file"),
        ("folder", "is a directory, which has files in it"),
    ],
)
def test_paths_that_are_refused(out: Path, path: str, reason: str) -> None:
    with PackWriter(out) as pack:
        pack.add("there", b"1")
        pack.add("folder/file", b"2")
        with pytest.raises(PackError) as caught:
            pack.add(path, b"3")
        assert str(caught.value) == f"{out}: {quoted(path)}: {reason}"
        pack.add("d/" * 1024 + "f", b"deep")
    tree = shown_tree(out)
    del tree["d"]
    assert tree == {"there": b"1", "folder": {"file": b"2"}}


class FailingFile:
    """Gives some bytes, and then fails."""

    def __init__(self) -> None:
        self.left = 3

    def read(self, size: int) -> bytes:
        self.left -= 1
        if not self.left:
            raise ConnectionResetError("gone")
        return bytes(size)


def test_unreadable_sources_are_not_added(tmp_path: Path, out: Path) -> None:
    with PackWriter(out) as pack:
        pack.add("a", b"1")
        with pytest.raises(ConnectionResetError):
            pack.add("b", FailingFile())
        with pytest.raises(FileNotFoundError):
            pack.add("b", tmp_path / "none")
        with pytest.raises(TypeError, match="encode the text"):
            pack.add("b", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="binary mode"):
            pack.add("b", io.StringIO("text"))  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            pack.add("b", 5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="paths are text, not bytes"):
            pack.add(b"b", b"2")  # type: ignore[arg-type]
        pack.add("b", b"2")
    assert shown_tree(out) == {"a": b"1", "b": b"2"}


def test_an_exception_leaves_the_old_file(out: Path) -> None:
    for before in ({}, {"old": b"pack"}):
        if before:
            pack_folder(make_folder(out.parent.parent / "folder", before), out)
        with pytest.raises(KeyboardInterrupt), PackWriter(out, force=True) as pack:
            pack.add("a", LARGE)
            raise KeyboardInterrupt
        assert os.listdir(out.parent) == (["x.ffr"] if before else [])
    assert shown_tree(out) == {"old": b"pack"}


def test_an_interruption_at_any_step_of_add(out: Path) -> None:
    """Wherever it comes, the pack is whole afterwards, or it is missing and the error says why."""
    lost = 0
    for step in itertools.count():
        pack = PackWriter(out, force=True)
        pack.add("a/1", b"1")
        files: dict[str, Any] = {"a": {"1": b"1"}, "b": {"c": {"2": b"2"}}, "d": {"3": b"3"}}
        try:
            with Interruption(step, pack_writer):
                pack.add("b/c/2", b"2")
            break
        except KeyboardInterrupt:
            pass
        try:
            if b"b/c/2" not in pack._files:
                pack.add("b/c/2", b"2")
            pack.add("d/3", b"3")
            pack.close()
        except PackError as error:
            assert str(error) == (
                f"{out}: no pack was written: adding a file was interrupted; write it again"
            )
            with pytest.raises(PackError, match="interrupted"):
                pack.close()
            pack.abort()
            assert os.listdir(out.parent) == []
            lost += 1
        else:
            assert shown_tree(out) == files
            out.unlink()
    assert 0 < lost < step
    pack.abort()


def test_closing(out: Path) -> None:
    pack = PackWriter(out)
    pack.add("a", b"1")
    pack.close()
    pack.close()
    pack.abort()
    assert shown_tree(out) == {"a": b"1"}
    with pytest.raises(ValueError, match="is closed"):
        pack.add("b", b"2")
    other = PackWriter(out, force=True)
    other.add("b", b"2")
    other.abort()
    other.close()
    assert shown_tree(out) == {"a": b"1"}
    assert os.listdir(out.parent) == ["x.ffr"]


def test_targets_of_a_writer(out: Path) -> None:
    """Which files are refused without `force`: test_pack_kind.py."""
    for content in (b"1", b"2"):
        with PackWriter(out, force=True) as pack:
            pack.add("a", content)
    assert shown_tree(out) == {"a": b"2"}
    for target, text in {
        out.parent: f"^{out.parent}: exists and is not a regular file",
        f"{out.parent}/new/": f"^{out.parent}/new/: names a directory; name a file",
        "": "^the name of the new file is empty; give a file name",
        "s3://b/x.ffr": r"^s3://b/x\.ffr: is a URL; write a local file, and upload it",
    }.items():
        with pytest.raises(PackError, match=text):
            PackWriter(target)
    with pytest.raises(FileNotFoundError) as caught:
        PackWriter(out.parent / "none" / "x.ffr")
    assert caught.value.filename == f"{out.parent}/none"


def test_a_working_directory_that_changes_while_packing(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(out.parent)
    with PackWriter("x.ffr") as pack:
        monkeypatch.chdir("/")
        pack.add("a", b"1")
    assert shown_tree(out) == {"a": b"1"}


def test_a_damaged_spool_file_is_noticed(out: Path) -> None:
    pack = PackWriter(out)
    pack.add("a", b"1")
    pack.add("b/c", LARGE)
    assert pack._spool is not None
    pack._spool.flush()
    os.pwrite(pack._spool.fileno(), b"!", len(LARGE) // 2)
    with pytest.raises(PackError, match=f"^{out}: 'b/c' is not read as it was written"):
        pack.close()
    assert os.listdir(out.parent) == []


def test_memory(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_writer, "_PIECE_SIZE", 1 << 16)

    class Zeros:
        left = 64 << 20

        def read(self, size: int) -> bytes:
            taken = min(self.left, size)
            self.left -= taken
            return bytes(taken)

    with memory_below(4 << 20), PackWriter(out) as pack:
        pack.add("large", Zeros())
    assert shown(out)["large"].content == bytes(64 << 20)


FORKS = """
import os, sys
from ffrfs import PackWriter
pack = PackWriter(sys.argv[1])
for number in range(3):
    pack.add(f"{number}", bytes([number]) * 1000)
    if not (child := os.fork()):
        sys.exit()
    os.waitpid(child, 0)
pack.close()
"""


def test_children_that_end_while_files_are_added(out: Path) -> None:
    done = python("-c", FORKS, out)
    assert (done.returncode, done.stderr) == (0, "")
    assert {path: each.content for path, each in shown(out).items()} == {
        f"{number}": bytes([number]) * 1000 for number in range(3)
    }


FULL_DISK = """
from ffrfs import PackWriter
with PackWriter(disk + "/x.ffr") as pack:
    for number in range(1000):
        pack.add(f"{number}", bytes(100_000))
"""


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    error, names = error_on_tiny_disk(disk, FULL_DISK)
    assert error[1:] == ["No space left on device", str(disk / "x.ffr")]
    assert names == []


CAUGHT = """
import contextlib, sys
from ffrfs import PackWriter
pack = PackWriter(sys.argv[1] + "/x.ffr")
with contextlib.suppress(OSError):
    while True:
        pack.add(f"{len(pack._sizes)}", bytes(100_000))
for end in (lambda: pack.add("more", b""), pack.close):
    try:
        end()
    except OSError as error:
        print(error)
"""


def test_closing_a_pack_whose_files_were_lost_is_an_error(tmp_path: Path) -> None:
    errors = run_on_tiny_disk(tmp_path / "disk", CAUGHT)
    assert len(errors) == 2
    for error in errors:
        assert f"{tmp_path}/disk/x.ffr: no pack was written: its files could not be" in error


FULL_AT_THE_END = """
from ffrfs import PackWriter
pack = PackWriter(disk + "/x.ffr")
pack.add("a", bytes(600_000))  # less than the buffer of the spool
with open(disk + "/filler", "wb") as filler:
    filler.write(bytes(800_000))
pack.close()
"""


def test_a_disk_that_is_full_at_the_end(tmp_path: Path) -> None:
    error, _ = error_on_tiny_disk(tmp_path / "disk", FULL_AT_THE_END)
    assert error[1:] == ["No space left on device", f"{tmp_path}/disk/x.ffr"]
