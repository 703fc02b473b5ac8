"""`ffrfs diff`: differences between packs and directories in names, sizes and contents."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs import pack_folder
from ffrfs.folder import compare
from tests.cli.command_run import Run

FILES = {"a/x": b"1", "a.txt": b"22", "a/b/y": b"333", "z": b""}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = write(tmp_path / "folder", FILES)
    (made / "link").symlink_to("z")
    return made


def test_a_folder_its_pack_and_its_set_are_equal(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    pack_folder(folder, tmp_path / "x.ffr", symlinks="keep")
    pack_folder(folder, tmp_path / "set", symlinks="keep", shards=2)
    sides = [folder, tmp_path / "x.ffr", tmp_path / "set"]
    for first in sides:
        for second in sides:
            assert ffrfs("diff", first, second).said == []


def test_each_kind_of_difference(ffrfs: Run, folder: Path, tmp_path: Path) -> None:
    pack = tmp_path / "x.ffr"
    pack_folder(folder, pack, symlinks="keep")
    (folder / "a.txt").write_bytes(b"33")
    (folder / "z").write_bytes(b"longer")
    (folder / "new").mkdir()
    (folder / "link").unlink()
    (folder / "link").symlink_to("a.txt")
    shutil.rmtree(folder / "a" / "b")
    (folder / "a" / "x").unlink()
    (folder / "a" / "x").mkdir()
    done = ffrfs("diff", pack, folder)
    assert (done.status, done.err) == (1, "")
    assert done.lines == [
        "- a/b",
        "- a/b/y",
        "! a/x  (file, directory)",
        "! a.txt  (contents differ)",
        "! link  (targets differ)",
        "+ new",
        "! z  (0 and 6 bytes)",
    ]
    (folder / "z").unlink()
    os.mkfifo(folder / "z")  # nobody writes to it
    assert ffrfs("diff", pack, folder).lines[-1] == "! z  (file, special file)"
    quiet = ffrfs("diff", "-q", pack, folder)
    assert (quiet.status, quiet.out) == (1, b"")


NAMES = st.sampled_from(["a", "a.b", "a-", "b", "é"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FILES_OF = st.dictionaries(PATHS, st.binary(max_size=2)).map(
    lambda files: {
        path: data
        for path, data in files.items()
        if not any(other.startswith(f"{path}/") for other in files)
    }
)


def nodes(files: dict[str, bytes]) -> dict[str, bytes | None]:
    """Return the files, and the directories that they are in."""
    above = (str(folder) for path in files for folder in Path(path).parents)
    return {**dict.fromkeys(set(above) - {"."}), **files}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES_OF, FILES_OF)
def test_a_directory_and_a_pack_differ_like_two_dictionaries(
    ffrfs: Run,
    tmp_path_factory: pytest.TempPathFactory,
    left: dict[str, bytes],
    right: dict[str, bytes],
) -> None:
    place = tmp_path_factory.mktemp("trees")
    write(place / "left", left)
    pack_folder(write(place / "right", right), place / "right.ffr")
    first, second = nodes(left), nodes(right)
    expected = {f"- {path}" for path in first.keys() - second.keys()}
    expected |= {f"+ {path}" for path in second.keys() - first.keys()}
    expected |= {f"! {path}" for path in first.keys() & second if first[path] != second[path]}
    marks = [
        line.split("  ")[0] for line in ffrfs("diff", place / "left", place / "right.ffr").lines
    ]
    assert set(marks) == expected
    assert marks == sorted(marks, key=lambda mark: os.fsencode(mark[2:]).split(b"/"))


def test_a_file_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_unreadable(_: str, mode: str) -> IO[bytes]:
        return open("/proc/self/mem", mode)  # the first read fails: there is no memory at 0

    monkeypatch.setattr(compare, "open", open_unreadable, raising=False)
    with pytest.raises(OSError, match="Input/output error") as caught:
        list(compare.compare(str(folder), str(folder)))
    assert caught.value.filename == f"{folder}/a/b/y"
