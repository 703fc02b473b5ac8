"""Sidecars: where they are written, when readers trust them, and that the pack looks the same."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings

from ffrfs import PackedFolder, pack_folder
from ffrfs._native import Pack
from ffrfs.errors import FormatError, PackError, PackWarning
from ffrfs.folder.sidecar import carries_index, ensure_sidecar, write_sidecar
from ffrfs.mount.engines.sidecars import WORTH_WHILE_COUNT
from tests.ffrecord_file import Tree, write_records
from tests.folder.folder_model import make_folder, packed, trees, walk

TREE: Tree = {"a": {"b": b"1", "é": b"2" * 5000}, "empty": {}, "z": os.urandom(3 << 20)}
NOBODY = 65534


def listing(file: Path) -> list[str]:
    with PackedFolder(file) as pack:
        return pack.list(recursive=True)


@settings(max_examples=30)
@given(tree=trees)
def test_a_sidecar_does_not_change_the_contents(
    tmp_path_factory: pytest.TempPathFactory, tree: Tree
) -> None:
    file = tmp_path_factory.mktemp("any") / "x.ffr"
    file.write_bytes(packed(tree))
    assert write_sidecar(file, chunks=True) == f"{file}.idx"
    assert Pack(os.fsencode(file)).index_kind == "sidecar"
    everything = dict(walk(tree))
    files = {path: data for path, data in everything.items() if data is not None}
    with PackedFolder(file) as pack:
        assert pack.list(recursive=True) == sorted(
            everything, key=lambda path: [os.fsencode(part) for part in path.split("/")]
        )
        assert [array.tobytes() for array in pack.read(list(files))] == list(files.values())


def test_a_plain_file_gets_no_sidecar(tmp_path: Path) -> None:
    plain = write_records(tmp_path / "x.ffr", [b"a", b"b" * 20])
    with pytest.raises(FormatError, match=f"^{plain}: "):
        write_sidecar(plain)
    assert sorted(tmp_path.iterdir()) == [plain]


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that this process may not write to, even if it runs as root."""
    top = Path(tempfile.mkdtemp(prefix="ffrfs-test-"))
    is_root = os.geteuid() == 0
    cache, folder = top / "cache", top / "folder"
    try:
        for made in (cache, folder):
            made.mkdir()
        (folder / "x.ffr").write_bytes(packed(TREE))
        (folder / "x.ffr").chmod(0o644)
        top.chmod(0o755)
        folder.chmod(0o555)
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "mine"))
        if is_root:
            os.chown(cache, NOBODY, -1)
            os.seteuid(NOBODY)
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(top)


def test_sidecar_of_a_read_only_directory_is_cached(read_only: Path) -> None:
    file = read_only / "x.ffr"
    sidecar = Path(write_sidecar(file))
    assert sidecar.parent == read_only.parent / "cache" / "mine" / "ffrfs" / "index"
    assert sidecar.parent.stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in read_only.iterdir()] == ["x.ffr"]
    index = Pack(os.fsencode(file))
    assert (index.index_kind, index.index_path) == ("sidecar", os.fsencode(sidecar))
    assert listing(file) == ["a", "a/b", "a/é", "empty", "z"]


@pytest.mark.promise("S55")
@pytest.mark.parametrize("target", ["file", "missing"])
def test_a_link_in_place_of_the_sidecar_is_not_followed(file: Path, target: str) -> None:
    foreign = file.parent / "foreign"
    if target == "file":
        foreign.write_text("of somebody else's")
    link = Path(f"{file}.idx")
    link.symlink_to(foreign)
    with pytest.raises(FileExistsError, match="not a regular file"):
        write_sidecar(file)
    assert link.readlink() == foreign
    assert not foreign.exists() or foreign.read_text() == "of somebody else's"


@pytest.mark.promise("S70")
def test_a_file_that_is_no_index_is_not_replaced(file: Path) -> None:
    sidecar = Path(f"{file}.idx")
    sidecar.write_text("mine")
    with pytest.raises(PackError, match=r"idx: exists \(a text file\), and is not an index"):
        write_sidecar(file)
    assert sidecar.read_text() == "mine"


def test_no_writable_directory_is_an_error(
    read_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(read_only / "none"))
    with pytest.raises(PermissionError):
        write_sidecar(read_only / "x.ffr")


@pytest.mark.parametrize("change", ["stale", "damaged"])
def test_an_unusable_sidecar_is_ignored_with_one_warning(file: Path, change: str) -> None:
    before = listing(file)
    sidecar = Path(write_sidecar(file))
    if change == "stale":
        os.utime(file, (1, 1))
    else:
        sidecar.write_bytes(sidecar.read_bytes()[:-100])
    with pytest.warns(PackWarning, match=f"^{sidecar}: .*ffrfs index") as caught:
        assert listing(file) == before
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_sidecar(file)
        assert listing(file) == before


def test_only_a_large_pack_needs_a_sidecar(file: Path) -> None:
    assert ensure_sidecar(file, WORTH_WHILE_COUNT) is None
    assert ensure_sidecar(file, 4) is None  # the pack has 4 records
    assert ensure_sidecar(file, 3) == f"{file}.idx"
    assert ensure_sidecar(file, 3) is None
    os.utime(file, (1, 1))
    with pytest.warns(PackWarning, match="stale"):
        assert ensure_sidecar(file, 3) == f"{file}.idx"
    assert Pack(os.fsencode(file)).index_kind == "sidecar"


def test_files_that_need_no_sidecar(tmp_path: Path) -> None:
    """A plain file, and a pack that contains its index."""
    assert ensure_sidecar(write_records(tmp_path / "plain.ffr", [b"a", b"b" * 20]), 1) is None
    pack_folder(make_folder(tmp_path / "folder", TREE), tmp_path / "x.ffr")
    assert carries_index(tmp_path / "x.ffr")
    assert ensure_sidecar(tmp_path / "x.ffr", 0) is None


def test_many_threads_may_write_the_same_sidecar(file: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(write_sidecar, [file] * 24))
    assert set(made) == {f"{file}.idx"}
    assert sorted(entry.name for entry in file.parent.iterdir()) == ["x.ffr", "x.ffr.idx"]
    assert Pack(os.fsencode(file)).find_fault() == ""
