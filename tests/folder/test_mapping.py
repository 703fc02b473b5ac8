"""PackedFolder as a mapping: from the paths of the files to their bytes.

Any folder as a mapping: test_packed.py.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

from ffrfs import PackedFolder, pack_folder
from ffrfs.errors import ChecksumError, FfrfsError, IsAFolderError, PathNotFoundError
from ffrfs.folder import contents_view
from tests.ffrecord_file import Tree, flip_byte, record_extents
from tests.folder.folder_model import make_folder, packed

TREE: Tree = {"B": b"upper", "a": {"a": {"x": b"deep"}, "b": b"1", "é": b"2"}, "e": {}, "z": b""}
FILES = {"B": b"upper", "a/a/x": b"deep", "a/b": b"1", "a/é": b"2", "z": b""}


def test_packed_folder_is_a_mapping(file: Path) -> None:
    with PackedFolder(file) as pack:
        assert isinstance(pack, Mapping)
        assert dict(pack) == {**pack} == FILES
        assert pack["a/b"] == pack[PurePosixPath("a/b")] == pack["./a//b/"] == b"1"
        assert type(pack["a/b"]) is bytes
        assert pack.get("a/b") == b"1"
        assert pack.get("a") is None
        assert pack.get("absent", b"no") == b"no"
        assert ("a/b", b"1") in pack.items()
        assert ("a/b", b"2") not in pack.items()
        assert b"deep" in pack.values()
        assert pack.keys() == set(FILES)


def test_only_files_are_contained(file: Path) -> None:
    with PackedFolder(file) as pack:
        assert all(path in pack for path in (*FILES, PurePosixPath("a/b"), "a/./b"))
        assert not any(path in pack for path in ("a", "e", "", ".", "c", "a/b/c", "..", "\0"))
        assert not any(value in pack for value in (None, 5, b"", ("a", "b"), []))


def test_errors_are_key_errors_and_ffrfs_errors(file: Path) -> None:
    with PackedFolder(file) as pack:
        for kind in (KeyError, FfrfsError, FileNotFoundError, PathNotFoundError):
            with pytest.raises(kind) as caught:
                pack["a/c"]
            assert str(caught.value) == f"{file}: has no 'a/c'"
        for kind in (KeyError, FfrfsError, IsADirectoryError, IsAFolderError):
            with pytest.raises(kind, match=r"'a' is a directory, not a file$"):
                pack["a"]
        with pytest.raises(TypeError):
            pack[5]  # type: ignore[index]
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (type(copy), str(copy)) == (type(caught.value), str(caught.value))


def test_folders_are_not_compared_by_content(file: Path) -> None:
    with PackedFolder(file) as pack, PackedFolder(file) as other:
        assert pack == pack  # noqa: PLR0124
        assert pack != other
        assert pack != FILES
        assert len({pack, other, pack}) == 2


def test_links_give_the_content_of_their_targets(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "folder", TREE)
    for path, target in {"l": "a/b", "a/d": "../e", "m": "nowhere", "n": "l"}.items():
        (folder / path).symlink_to(target)
    pack_folder(folder, tmp_path / "x.ffr", symlinks="keep")
    with PackedFolder(tmp_path / "x.ffr") as pack:
        assert dict(pack) == {**FILES, "l": b"1", "n": b"1"}
        assert list(pack) == pack.list(recursive=True, list_dir=False)
        assert len(pack) == len(FILES) + 2
        assert pack["l"] == b"1"
        assert ("m" in pack, "a/d" in pack) == (False, False)


@pytest.mark.parametrize("on_conflict", ["first", "last"])
def test_a_path_in_several_packs_counts_once(tmp_path: Path, on_conflict: str) -> None:
    for name, tree in {"1": {"a": {"x": b"1"}, "b": b"1"}, "2": {"a": {"x": b"2"}}}.items():
        (tmp_path / f"{name}.ffr").write_bytes(packed(tree))
    with PackedFolder(tmp_path, on_conflict=on_conflict) as pack:  # type: ignore[arg-type]
        assert dict(pack) == {"a/x": b"1" if on_conflict == "first" else b"2", "b": b"1"}
        assert len(pack) == len(list(pack)) == 2


def test_an_empty_pack_is_false(tmp_path: Path) -> None:
    (tmp_path / "x.ffr").write_bytes(packed({"folder": {}}))
    with PackedFolder(tmp_path / "x.ffr") as pack:
        assert not pack
        assert (len(pack), dict(pack)) == (0, {})


def test_items_are_read_in_batches_of_a_limited_size(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, value in (("_BATCH_COUNT", 2), ("_BATCH_SIZE", 5)):
        monkeypatch.setattr(contents_view, limit, value)
        with PackedFolder(file) as pack:
            assert list(pack.items()) == list(FILES.items())


def test_iteration_of_items_ends_at_a_damaged_file(file: Path) -> None:
    flip_byte(file, record_extents(file)[2][0])  # a/b
    with PackedFolder(file) as pack:
        with pytest.raises(ChecksumError, match="'a/b'"):
            dict(pack)
        with pytest.raises(ChecksumError, match="'a/b'"):
            pack["a/b"]
        assert list(pack) == list(FILES)
        assert pack["a/é"] == b"2"


def test_data_remains_valid_after_close(file: Path) -> None:
    with PackedFolder(file) as pack:
        data = pack["a/a/x"]
        assert np.frombuffer(data, np.uint8).tolist() == list(b"deep")
    assert data == b"deep"
    for use in (len, list, bool, dict, lambda pack: pack["B"], lambda pack: "B" in pack):
        with pytest.raises(ValueError, match="closed"):
            use(pack)
