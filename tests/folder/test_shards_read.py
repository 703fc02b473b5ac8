"""Several packs as one: PackedFolder, extract, info and verify over folders and lists of them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from ffrfs import PackedFolder, pack_folder
from ffrfs.errors import ChecksumError, FormatError, PackWarning
from ffrfs.folder.extract import extract_tree
from ffrfs.folder.info import pack_info
from ffrfs.folder.sidecar import write_sidecar
from ffrfs.folder.tree import PackTree
from ffrfs.folder.verify import verify_packs
from tests.ffrecord_file import Tree, flip_byte, record_extents, write_records
from tests.folder.folder_model import make_folder, packed, read_folder, walk

TREE: Tree = {
    "a": {"b": b"1", "c": {"deep": b"deep"}, "é": b"2" * 100_000},
    "empty": {},
    "large": b"large" * 400_000,
    "z": b"zz",
}
PATHS = [path for path, _ in walk(TREE)]
FILES = {path: data for path, data in walk(TREE) if data is not None}


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    make_folder(tmp_path / "folder", TREE)
    pack_folder(tmp_path / "folder", tmp_path / "set", shards=3)
    assert len(list((tmp_path / "set").iterdir())) == 3
    return tmp_path / "set"


def parts(folder: Path, *trees: Tree) -> list[Path]:
    """Return packs that contain no mapped index."""
    folder.mkdir()
    paths = [folder / f"{number}.ffr" for number in range(len(trees))]
    for path, tree in zip(paths, trees, strict=True):
        path.write_bytes(packed(tree))
    return paths


def test_a_folder_of_shards_equals_their_list(shards: Path) -> None:
    with PackedFolder(shards) as one, PackedFolder(sorted(shards.iterdir())) as other:
        assert one.list(recursive=True) == other.list(recursive=True) == PATHS
        assert one.fname == str(shards)
        assert other.fname == f"{shards}/part_00000.ffr and 2 more"
        for pack in (one, other):
            assert pack.num_files() == len(FILES)
            assert [array.tobytes() for array in pack.read(list(FILES))] == list(FILES.values())
            copy = pickle.loads(pickle.dumps(pack))
            with copy:
                assert copy.read_one("a/c/deep").tobytes() == b"deep"


def test_independent_packs_are_merged(tmp_path: Path) -> None:
    first, second = parts(tmp_path / "packs", {"a": {"x": b"1"}, "b": b"2"}, {"a": {"y": b"3"}})
    write_sidecar(second)
    with PackedFolder([second, first]) as pack:
        assert pack.list(recursive=True) == ["a", "a/x", "a/y", "b"]
        assert [array.tobytes() for array in pack.read(["a/y", "b", "a/x"])] == [b"3", b"2", b"1"]
    (report,) = verify_packs([tmp_path / "packs"])
    assert report.is_good
    assert pack_info(tmp_path / "packs").missing_shards == []


def test_conflicts(tmp_path: Path) -> None:
    first, second = parts(tmp_path / "packs", {"a": b"first"}, {"a": b"second", "b": b""})
    with pytest.raises(FormatError, match='both have "a"') as caught:
        PackedFolder(tmp_path / "packs")
    assert str(first) in str(caught.value)
    assert str(second) in str(caught.value)
    for which, data in (("first", b"first"), ("last", b"second")):
        with PackedFolder(tmp_path / "packs", on_conflict=which) as pack:  # type: ignore[arg-type]
            assert pack.read_one("a").tobytes() == data
            copy = pickle.loads(pickle.dumps(pack))
            assert copy.read_one("a").tobytes() == data
            copy.close()
    (report,) = verify_packs([tmp_path / "packs"])
    assert not report.is_good
    assert report.set_error is not None
    assert str(first) in report.set_error


def test_a_missing_shard(shards: Path) -> None:
    (shards / "part_00001.ffr").unlink()
    with pytest.raises(FormatError, match="missing: number 1"):
        PackedFolder(shards)
    with pytest.warns(PackWarning, match="missing: number 1") as caught:
        pack = PackedFolder(shards, allow_missing=True)
    assert caught[0].filename == __file__
    with pack:
        assert set(pack.list(recursive=True)) < set(PATHS)
    with pytest.warns(PackWarning):
        found = pack_info(shards)
    assert (found.pack_count, found.missing_shards, found.missing_shard_count) == (2, [1], 1)
    (report,) = verify_packs([shards])
    assert not report.is_good
    assert report.set_error is not None
    assert "missing: number 1" in report.set_error


def test_a_damaged_file_names_its_shard(shards: Path) -> None:
    first, *_ = sorted(shards.iterdir())
    flip_byte(first, record_extents(first)[0][0])
    with PackedFolder(shards) as pack:
        with pytest.raises(ChecksumError, match=f"^{first}: 'a/b': record 0 "):
            pack.read(["z", "a/b"])
        assert pack.read_one("z").tobytes() == b"zz"
    (report,) = verify_packs([shards])
    assert report.packs[0].file == str(first)
    assert [bad.path for bad in report.packs[0].bad] == ["a/b"]
    assert report.bad_count == 1


def test_one_bad_pack_does_not_hide_the_others(shards: Path) -> None:
    first, second, third = sorted(shards.iterdir())
    second.write_bytes(b"no pack at all")
    flip_byte(third, record_extents(third)[0][0])
    (report,) = verify_packs([shards])
    assert [pack.is_good for pack in report.packs] == [True, False, False]
    assert report.packs[1].error is not None
    assert not report.packs[1].error.startswith(str(second))
    assert len(report.packs[2].bad) == 1
    with pytest.raises(FormatError):
        verify_packs([second])
    reports = verify_packs([first, second])
    assert [report.is_good for report in reports] == [True, False]
    assert reports[1].packs[0].error is not None


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_progress_counts_all_packs_together(shards: Path, tmp_path: Path, jobs: int) -> None:
    alone = write_records(tmp_path / "plain.ffr", [b"a", b"b" * 20])
    seen: list[tuple[int, int, int, int]] = []
    reports = verify_packs([shards, alone], lambda *state: seen.append(state), jobs)
    assert [report.is_good for report in reports] == [True, True]
    records = sum(report.record_count for report in reports)
    size = sum(report.byte_count for report in reports)
    assert seen[-1] == (records, records, size, size)
    assert {state[1] for state in seen} == {records}
    assert seen == sorted(seen)


def test_info_of_a_set(shards: Path) -> None:
    found = pack_info(shards)
    assert (found.pack_count, found.file_count, found.folder_count) == (3, 5, 3)
    assert found.byte_count == sum(map(len, FILES.values()))
    assert [(shard.number, shard.of) for shard in found.shards] == [(0, 3), (1, 3), (2, 3)]
    assert [index.file for index in found.indexes] == [
        str(path) for path in sorted(shards.iterdir())
    ]
    assert found.sizes is not None
    assert found.sizes.max == 2_000_000


def test_a_folder_without_packs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="holds no packs"):
        PackedFolder(tmp_path)
    with pytest.raises(FormatError, match="holds no packs"):
        verify_packs([tmp_path])
    with pytest.raises(ValueError, match="at least one"):
        PackedFolder([])
    (tmp_path / "x.ffr").symlink_to("x.ffr")
    with pytest.raises(OSError, match="cannot open") as caught:
        PackedFolder(tmp_path)
    assert caught.value.filename == str(tmp_path / "x.ffr")


def test_extract_over_shards_restores_contents_and_times(shards: Path, tmp_path: Path) -> None:
    with PackTree(shards) as tree:
        assert extract_tree(tree, tmp_path / "out") == []
    assert read_folder(tmp_path / "out") == TREE
    for path in ("a", "a/c/deep", "empty", "z"):
        assert (
            os.stat(tmp_path / "out" / path).st_mtime_ns
            == os.stat(tmp_path / "folder" / path).st_mtime_ns
        )
