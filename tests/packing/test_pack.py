"""pack_folder writes the reference's bytes, or no file at all."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from ffrfs import PackedFolder, pack_folder
from ffrfs.errors import PackError
from ffrfs.packing.pack_file import writing
from ffrfs.packing.sources.source import Source
from tests.ffrecord_file import Tree
from tests.folder.folder_model import (
    assert_packed,
    make_folder,
    packed,
    read_as_reference,
    read_records,
    shown_tree,
    trees,
)
from tests.interpreter import python
from tests.tiny_disk import error_on_tiny_disk

TREE: Tree = {
    "a": {"large": bytes(range(256)) * 8192, "x.png": b"x", "empty": {}},
    "b.txt": b"b" * 4097,
    "c": {},
    "nothing": b"",
}
OLD_TREE: Tree = {"old": b"what was there before"}


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "x.ffr"
    path.write_bytes(packed(OLD_TREE))
    return path


def assert_untouched(old_file: Path) -> None:
    assert old_file.read_bytes() == packed(OLD_TREE)
    assert os.listdir(old_file.parent) == [old_file.name]


@pytest.mark.parametrize("jobs", [None, 1, 2, 7])
def test_packs_have_the_same_bytes_as_the_reference(
    folder: Path, old_file: Path, jobs: int | None
) -> None:
    summary = pack_folder(folder, old_file, force=True, jobs=jobs)
    assert_packed(old_file, TREE)
    assert (summary.file_count, summary.folder_count, summary.skipped) == (4, 3, [])
    assert summary.byte_count == summary.stored_byte_count == 8192 * 256 + 1 + 4097
    assert (summary.link_count, summary.shared_count, summary.shard_count) == (0, 0, 0)


@settings(max_examples=50)
@given(tree=trees)
def test_any_folder(tmp_path_factory: pytest.TempPathFactory, tree: Tree) -> None:
    folder = make_folder(tmp_path_factory.mktemp("any") / "folder", tree)
    pack_folder(folder, folder.parent / "x.ffr")
    assert_packed(folder.parent / "x.ffr", tree)
    assert read_as_reference(folder.parent / "x.ffr") == tree
    assert shown_tree(folder.parent / "x.ffr") == tree


def test_packing_reproduces_the_golden_pack(golden: Path, tmp_path: Path) -> None:
    manifest = json.loads((golden / "packed.manifest.json").read_text())
    with PackedFolder(golden / "packed.ffr") as theirs:
        for path, digest in manifest.items():
            if digest is None:
                (tmp_path / "folder" / path).mkdir(parents=True, exist_ok=True)
            else:
                data = theirs.read_one(path).tobytes()
                assert hashlib.sha256(data).hexdigest() == digest
                (tmp_path / "folder" / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / "folder" / path).write_bytes(data)
    pack_folder(tmp_path / "folder", tmp_path / "x.ffr")
    theirs, ours = read_records(golden / "packed.ffr"), read_records(tmp_path / "x.ffr")
    assert ours[:-1] == theirs[:-1]
    assert ours[-1].startswith(theirs[-1])


def test_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    pack_folder(str(tmp_path / "folder") + "/", str(tmp_path / "x.ffr"))
    assert_packed(tmp_path / "x.ffr", {})


def test_progress(folder: Path, old_file: Path) -> None:
    seen: list[tuple[int, int, int, int]] = []
    pack_folder(folder, old_file, force=True, progress=lambda *state: seen.append(state))
    size = 8192 * 256 + 1 + 4097
    assert seen[-1] == (4, 4, size, size)
    assert seen == sorted(seen)


def test_a_thousand_folders_deep(tmp_path: Path) -> None:
    tree: Tree = {"file": b"deep"}
    for _ in range(400):  # deeper ones are too deep for pickle
        tree = {"d": tree}
    folder = tmp_path / "folder"
    (folder / "/".join("d" * 400)).mkdir(parents=True)
    (folder / "/".join("d" * 400) / "file").write_bytes(b"deep")
    pack_folder(folder, tmp_path / "x.ffr")
    with PackedFolder(tmp_path / "x.ffr") as ours:
        assert ours.read_one("d/" * 400 + "file").tobytes() == b"deep"


def test_verbose_shows_a_bar(
    folder: Path, old_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack_folder(folder, old_file, force=True)
    assert capsys.readouterr() == ("", "")
    pack_folder(folder, old_file, force=True, verbose=True)
    assert "x.ffr" in capsys.readouterr().err


def test_paths_as_bytes_are_refused(folder: Path, old_file: Path) -> None:
    for wrong in ((os.fsencode(folder), old_file), (folder, os.fsencode(old_file))):
        with pytest.raises(TypeError, match=r"^paths are text, not b'/"):
            pack_folder(*wrong, force=True)
    assert_untouched(old_file)


def test_a_pack_inside_its_own_source_is_refused(folder: Path) -> None:
    for target in (folder / "x.ffr", folder / "a" / ".." / "c" / "x.ffr"):
        with pytest.raises(PackError, match="the pack would be inside the directory"):
            pack_folder(folder, target)
    (folder.parent / "link").symlink_to(folder / "c")
    with pytest.raises(PackError, match="the pack would be inside the directory"):
        pack_folder(folder, folder.parent / "link" / "x.ffr")
    (folder / "empty.ffr").touch()
    (folder.parent / "link.ffr").symlink_to(folder / "empty.ffr")
    with pytest.raises(PackError, match="the pack would be inside the directory"):
        pack_folder(folder, folder.parent / "link.ffr")
    pack_folder(folder, folder / "c" / "x.ffr", exclude=["c"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda path: path.write_bytes(b"b" * 120),
            "changed size while it was packed (was 4097 bytes, now 120)",
        ),
        (lambda path: os.utime(path, ns=(1, 1)), "changed while it was packed; pack again"),
    ],
    ids=["size", "time"],
)
def test_a_file_that_changes_meanwhile_is_named(
    folder: Path, old_file: Path, monkeypatch: pytest.MonkeyPatch, change: Any, message: str
) -> None:
    append = Source.append

    def changing(self: Source, *arguments: Any) -> None:
        change(Path(self.name, "b.txt"))
        append(self, *arguments)

    monkeypatch.setattr(Source, "append", changing)
    with pytest.raises(PackError) as caught:
        pack_folder(folder, old_file, force=True)
    assert str(caught.value) == f"{folder}/b.txt: {message}"
    assert_untouched(old_file)


def test_an_exception_from_progress_ends_packing(folder: Path, old_file: Path) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack_folder(folder, old_file, force=True, progress=interrupt)
    assert_untouched(old_file)


KILLED = """
import os, signal, sys
from ffrfs import pack_folder
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
pack_folder(sys.argv[1], sys.argv[2], force=True, progress=kill)
"""


def test_a_killed_command_leaves_the_old_file(folder: Path, old_file: Path) -> None:
    assert python("-c", KILLED, folder, old_file).returncode == -signal.SIGKILL
    assert_untouched(old_file)


def test_a_full_disk_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    program = 'from ffrfs import pack_folder; pack_folder(words[0], disk + "/x.ffr")'
    error, names = error_on_tiny_disk(disk, program, str(folder))
    assert error == ["OSError", "cannot write: No space left on device", str(disk / "x.ffr")]
    assert names == []


@pytest.mark.promise("S70")
def test_an_empty_file_that_is_filled_meanwhile_is_kept(out: Path) -> None:
    out.touch()
    with pytest.raises(PackError, match=r"x\.ffr: exists \(a text file\)"), writing(str(out), 0):
        out.write_text("theirs")
    assert out.read_text() == "theirs"
    assert os.listdir(out.parent) == ["x.ffr"]
