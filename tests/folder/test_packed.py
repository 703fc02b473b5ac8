"""PackedFolder: the reference's API, over packs of the reference and of ours."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings

from ffrfs import PackedFolder, pack_folder
from ffrfs.errors import (
    ChecksumError,
    FormatError,
    IsAFolderError,
    NotAFolderError,
    PathNotFoundError,
    UnverifiedHeaderWarning,
)
from tests.ffrecord_file import Tree, flip_byte, record_extents, write_records
from tests.folder.folder_model import make_folder, trees, walk
from tests.interpreter import python
from tests.tfrecord_file import write_tfrecord

TREE: Tree = {
    "B": b"upper",
    "a": {"a": {"x": b"deep"}, "b": b"1", "é": b"2"},
    "a.png": b"image" * 1000,
    "empty": {},
}
PATHS = ["B", "a", "a/a", "a/a/x", "a/b", "a/é", "a.png", "empty"]


@settings(max_examples=50)
@given(tree=trees)
def test_any_folder_packed_and_read(tmp_path_factory: pytest.TempPathFactory, tree: Tree) -> None:
    folder = make_folder(tmp_path_factory.mktemp("any") / "folder", tree)
    pack_folder(folder, folder.parent / "x.ffr")
    everything = dict(walk(tree))
    files = {path: data for path, data in everything.items() if data is not None}
    with PackedFolder(folder.parent / "x.ffr") as pack:
        assert pack.list(recursive=True) == list(everything)
        assert pack.list(recursive=True, list_dir=False) == list(files)
        assert pack.num_files() == len(files)
        assert [array.tobytes() for array in pack.read(list(files))] == list(files.values())
        for path, data in everything.items():
            assert (pack.is_file(path), pack.is_dir(path)) == (data is not None, data is None)
        # As a mapping (test_mapping.py).
        assert list(pack.items()) == list(files.items())
        assert list(pack) == list(pack.keys()) == list(files)
        assert list(pack.values()) == list(files.values())
        assert len(pack) == len(pack.items()) == len(files)
        assert bool(pack) is bool(files)
        # As the reference unpickles it.
        index = pack.reader.read_one(pack.reader.n - 1).tobytes()
        assert pack.structure == pickle.loads(index.removeprefix(b"piouhjgbr"))


def test_the_golden_pack(golden: Path) -> None:
    manifest = json.loads((golden / "packed.manifest.json").read_text())
    with PackedFolder(golden / "packed.ffr") as pack:
        assert set(pack.list(recursive=True)) == manifest.keys()
        files = [path for path, digest in manifest.items() if digest is not None]
        assert pack.num_files() == len(files)
        for path, array in zip(files, pack.read(files), strict=True):
            assert array.dtype == "uint8"
            assert array.ndim == 1
            assert hashlib.sha256(array).hexdigest() == manifest[path]


def test_lists(file: Path) -> None:
    with PackedFolder(file) as pack:
        assert pack.list() == ["B", "a", "a.png", "empty"]
        assert pack.list(list_dir=False) == ["B", "a.png"]
        assert pack.list(list_file=False) == ["a", "empty"]
        assert pack.list(list_file=False, list_dir=False) == []
        assert pack.list(recursive=True) == PATHS
        assert pack.list(recursive=True, list_dir=False) == ["B", "a/a/x", "a/b", "a/é", "a.png"]
        assert pack.list(list_file=False, recursive=True) == ["a", "a/a", "empty"]
        assert pack.list("a") == ["a", "b", "é"]
        assert pack.list("a", recursive=True) == ["a", "a/x", "b", "é"]
        assert pack.list("empty") == []
        assert all(type(path) is str for path in pack.list(recursive=True))


@pytest.mark.parametrize("root", ["", ".", "./", "./.", "/", PurePosixPath(), PurePosixPath(".")])
def test_spellings_of_the_root(file: Path, root: str) -> None:
    with PackedFolder(file) as pack:
        assert pack.list(root) == pack.list()
        assert pack.exists(root)
        assert pack.is_dir(root)
        assert not pack.is_file(root)
        with pytest.raises(IsAFolderError):
            pack.read_one(root)


@pytest.mark.parametrize(
    "path",
    ["a/b", "/a/b", "//a/b", "./a/b", "a//b", "a/./b", "a/b/", "a/b/.", PurePosixPath("a/b")],
)
def test_spellings_of_a_file(file: Path, path: str) -> None:
    with PackedFolder(file) as pack:
        assert pack.read_one(path).tobytes() == b"1"
        assert pack.exists(path)
        assert pack.is_file(path)
        assert not pack.is_dir(path)


@pytest.mark.parametrize(
    "path", ["b", "A", "a/c", "a/b/c", "a.png/..", "..", "../a", "a/../B", "/../B", "B\0", "\ud800"]
)
def test_paths_that_do_not_exist(file: Path, path: str) -> None:
    with PackedFolder(file) as pack:
        assert not pack.exists(path)
        assert not pack.is_file(path)
        assert not pack.is_dir(path)
        for call in (pack.read_one, pack.list, lambda path: pack.read(["B", path])):
            with pytest.raises(PathNotFoundError) as caught:
                call(path)
            assert str(caught.value) == f"{file}: has no {path!r}"


def test_a_file_is_no_folder_and_a_folder_no_file(file: Path) -> None:
    with PackedFolder(file) as pack:
        with pytest.raises(IsAFolderError, match="'a' is a directory"):
            pack.read(["B", "a"])
        with pytest.raises(NotAFolderError, match=r"'a\.png' is a file"):
            pack.list("a.png")


def test_batches(file: Path) -> None:
    with PackedFolder(file) as pack:
        assert pack.read([]) == []
        assert [a.tobytes() for a in pack.read(("a/b", "B", "a/b"))] == [b"1", b"upper", b"1"]
        first, second = pack.read(["B", "B"])
        first[:] = 0
        assert second.tobytes() == b"upper"


def test_a_damaged_file_is_named_and_the_others_are_read(file: Path) -> None:
    offset, _ = record_extents(file)[2]  # a/b
    flip_byte(file, offset)
    with PackedFolder(file) as pack:
        for paths in (["a/b"], ["B", "a/é", "a/b"]):
            with pytest.raises(ChecksumError, match=f"^{file}: 'a/b': record 2 "):
                pack.read(paths)
        assert pack.read_one("B").tobytes() == b"upper"
    with PackedFolder(file, check_data=False) as pack:
        assert pack.read_one("a/b").tobytes() == b"\xce"


def test_a_plain_ffrecord_file_is_refused(tmp_path: Path) -> None:
    path = write_records(tmp_path / "plain.ffr", [b"a", b"b" * 20])
    with pytest.raises(FormatError, match=f"^{path}: is a plain FFRecord file, not a pack"):
        PackedFolder(path)
    with pytest.raises(ValueError, match="packed"):  # as with the reference
        PackedFolder(path)


def test_a_tfrecord_file_is_refused(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x.tfrecord", [b"a"])
    for each in (path, tmp_path):
        with pytest.raises(FormatError, match=f"^{each}: is TFRecord, not a pack"):
            PackedFolder(each)


def test_an_old_header_warns_once(file: Path) -> None:
    with file.open("r+b") as old:
        old.write(bytes(4))
    with pytest.warns(UnverifiedHeaderWarning) as caught:
        pack = PackedFolder(file)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert pack.read_one("B").tobytes() == b"upper"


def test_an_unpickled_folder_opens_its_pack_again(file: Path) -> None:
    with PackedFolder(file, check_data=False) as pack:
        copy = pickle.loads(pickle.dumps(pack))
    with copy:
        assert copy.read_one("B").tobytes() == b"upper"
        assert copy.check_data is False


def test_a_relative_path_survives_chdir(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    with PackedFolder(file.name) as pack:
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        assert pack.reader.n == pack.num_files() + 1
        with pickle.loads(pickle.dumps(pack)) as copy:
            assert copy.read_one("B").tobytes() == b"upper"


def test_a_closed_folder_refuses_reads(file: Path) -> None:
    pack = PackedFolder(file)
    pack.close()
    pack.close()
    with pytest.raises(ValueError, match=r"was closed, by close\(\) .*; open it again"):
        pack.read_one("B")


def test_threads_share_a_folder(file: Path) -> None:
    with PackedFolder(file) as pack, ThreadPoolExecutor(8) as threads:
        read = threads.map(pack.read_one, ["a.png", "a/a/x"] * 200)
        assert [array.tobytes() for array in read] == [b"image" * 1000, b"deep"] * 200


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_reads_with_its_parents_folder(file: Path) -> None:
    with PackedFolder(file) as pack:
        assert pack.read_one("B").tobytes() == b"upper"
        child = os.fork()
        if child == 0:
            good = pack.read_one("a.png").tobytes() == b"image" * 1000
            os._exit(0 if good else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


_FORKING = """
import os, signal, sys, threading, ffrfs
pack = ffrfs.PackedFolder(sys.argv[1])
assert "numpy" not in sys.modules
threading.Thread(target=pack.read, args=(["B"],)).start()
while "numpy" not in sys.modules:
    pass
child = os.fork()
if child == 0:
    signal.alarm(30)  # nobody else would end it
    os._exit(pack.read("B").tobytes() != b"upper")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_forked_during_the_first_read_of_a_thread_reads(file: Path) -> None:
    """The read imports NumPy, and the child has no thread that would finish the import."""
    done = python("-W", "ignore", "-c", _FORKING, file)
    assert done.returncode == 0, done.stderr


def test_read_of_one_path_equals_read_one(file: Path) -> None:
    with PackedFolder(file) as pack:
        for path in ("a/b", PurePosixPath("a/b")):
            assert pack.read(path).tobytes() == b"1"
        with pytest.raises(PathNotFoundError, match="has no 'nothing'"):
            pack.read("nothing")
        with pytest.raises(IsAFolderError):
            pack.read("a")
        with pytest.raises(TypeError, match="takes a list of paths, or one path"):
            pack.read(b"a/b")  # type: ignore[call-overload]


def test_structure_numbers_the_records_of_the_reader(golden: Path) -> None:
    with PackedFolder(golden / "packed.ffr") as pack:
        index = pack.reader.read_one(pack.reader.n - 1).tobytes()
        assert pack.structure == pickle.loads(index.removeprefix(b"piouhjgbr"))
        assert pack.structure is pack.structure
        reader = pack.reader
        assert reader is pack.reader
        assert (reader.check_data, reader.n) == (True, pack.num_files() + 1)
        again = pickle.loads(pickle.dumps(pack))
        assert (again.structure, again.reader.n) == (pack.structure, reader.n)
        again.close()
    with pytest.raises(ValueError, match="closed"):
        reader.read_one(0)


def test_structure_of_several_packs_with_shared_records_and_links(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    (one / "s").mkdir(parents=True)
    (other / "s").mkdir(parents=True)
    (one / "a").write_bytes(b"same")
    (one / "s" / "b").write_bytes(b"same")
    (one / "link").symlink_to("a")
    (other / "s" / "c").write_bytes(b"other")
    pack_folder(one, tmp_path / "1.ffr", dedup=True, symlinks="keep")
    pack_folder(other, tmp_path / "2.ffr")
    with PackedFolder([tmp_path / "1.ffr", tmp_path / "2.ffr"]) as pack:
        assert pack.structure == {"a": 0, "s": {"b": 0, "c": 2}}
        assert [pack.reader[number].tobytes() for number in (0, 2)] == [b"same", b"other"]


ENDS = """
import sys, threading, time
from ffrfs import PackedFolder
pack = PackedFolder(sys.argv[1])
reads = 0
def read():
    global reads
    while True:
        pack.read(["large", "larger"])
        reads += 1
for _ in range(3):
    threading.Thread(target=read, daemon=True).start()
while not eval(sys.argv[2]):
    time.sleep(0.001)
"""


@pytest.mark.parametrize("end", ["reads >= 10", "'numpy' in sys.modules"])
def test_a_program_may_end_while_its_threads_read(tmp_path: Path, end: str) -> None:
    folder = make_folder(tmp_path / "folder", {"large": b"1" * 2**20, "larger": b"2" * 2**22})
    pack_folder(folder, tmp_path / "x.ffr")
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, "-c", ENDS, tmp_path / "x.ffr", end],
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
