"""verify and info: their reports on good files and on damaged ones.

For indexes and shards, see test_index_verify.py and test_shards_read.py.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from ffrfs.errors import UnverifiedHeaderWarning
from ffrfs.folder import verify
from ffrfs.folder.info import FileSizes, PackInfo, pack_info
from ffrfs.folder.progress import Progress
from ffrfs.folder.verify import PackReport, verify_packs
from tests.ffrecord_file import (
    Header,
    Tree,
    flip_byte,
    folder_records,
    record_extents,
    write_folder,
    write_records,
)
from tests.interpreter import python

TREE: Tree = {"a": {"x": b"x" * 10, "y": b"y" * (3 << 20)}, "b": b"", "c": b"c" * 7, "d": {}}


def verify_one(
    file: Path, progress: Progress | None = None, step_size: int = verify.STEP_SIZE
) -> PackReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "STEP_SIZE", step_size)
        (report,) = verify_packs([file], progress)
    (pack,) = report.packs
    assert report.is_good == pack.is_good
    return pack


@pytest.mark.parametrize("step", [1, 10, 64 << 20])
def test_sound_pack_is_good(file: Path, step: int) -> None:
    seen: list[tuple[int, int, int, int]] = []
    report = verify_one(file, lambda *state: seen.append(state), step)
    assert report.is_good
    assert report.record_count == 5
    assert report.byte_count == sum(size for _, size in record_extents(file))
    assert report.header_verified
    assert seen[-1] == (5, 5, report.byte_count, report.byte_count)


@pytest.mark.parametrize("step", [1, 64 << 20])
def test_every_bad_file_is_named(file: Path, step: int) -> None:
    extents = record_extents(file)
    for record in (1, 3):
        flip_byte(file, extents[record][0])
    report = verify_one(file, step_size=step)
    assert not report.is_good
    assert report.index_error is None
    assert [(bad.record, bad.path) for bad in report.bad] == [(1, "a/y"), (3, "c")]
    assert all(bad.reason.startswith(f"record {bad.record} (") for bad in report.bad)


def test_a_bad_file_is_reported_at_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "STEP_SIZE", 1)
    flip_byte(file, record_extents(file)[1][0])
    seen: list[object] = []
    verify_packs(
        [file], lambda done, *_: seen.append(done), found=lambda *fault: seen.append(fault)
    )
    ((name, path, reason),) = (each for each in seen if isinstance(each, tuple))
    assert (name, path, reason.split(" (")[0]) == (str(file), "a/y", "record 1")
    assert seen == [1, (name, path, reason), 2, 3, 4, 5]


def test_damaged_records_are_found_beside_a_bad_index(file: Path) -> None:
    extents = record_extents(file)
    for record in (0, 4):
        flip_byte(file, extents[record][0] + 9)
    report = verify_one(file)
    assert report.index_error is not None
    assert "checksum mismatch" in report.index_error
    assert [(bad.record, bad.path) for bad in report.bad] == [(0, None), (4, None)]


def test_an_invalid_index_with_good_records(tmp_path: Path) -> None:
    records = [*folder_records(TREE)[:-1], b"piouhjgbr" + b"nonsense"]
    report = verify_one(write_records(tmp_path / "x.ffr", records))
    assert report.index_error is not None
    assert report.bad == []
    assert not report.is_good


def test_a_plain_file(tmp_path: Path) -> None:
    path = write_records(tmp_path / "x.ffr", [b"a", b"b" * 20])
    assert verify_one(path).is_good
    flip_byte(path, record_extents(path)[1][0])
    (bad,) = verify_one(path).bad
    assert bad.record == 1


def test_a_file_without_records_is_good(tmp_path: Path) -> None:
    report = verify_one(write_records(tmp_path / "x.ffr", []))
    assert report.is_good
    assert report.record_count == report.byte_count == 0


def forget_checksum(header: Header) -> None:
    header.checksum = 0


@pytest.mark.parametrize("index", [None, b"piouhjgbr, but no pickle"], ids=["good", "bad index"])
def test_an_old_header_warns_once(tmp_path: Path, index: bytes | None) -> None:
    records = folder_records(TREE)
    if index is not None:
        records[-1] = index
    path = write_records(tmp_path / "x.ffr", records, forget_checksum)
    with pytest.warns(UnverifiedHeaderWarning) as caught:
        report = verify_one(path)
    assert len(caught) == 1
    assert not report.header_verified
    assert report.is_good is (index is None)


def test_info_of_a_folder(file: Path) -> None:
    assert pack_info(file) == PackInfo(
        is_folder=True,
        record_count=5,
        file_count=4,
        folder_count=2,
        byte_count=17 + (3 << 20),
        stored_byte_count=17 + (3 << 20),
        header_verified=True,
        sizes=FileSizes(min=0, median=8, max=3 << 20),
        pack_count=1,
        indexes=[],
        shards=[],
        missing_shards=[],
        missing_shard_count=0,
    )


@pytest.mark.parametrize("sizes", [[[], []], [[7]], [[], [9, 2]], [[5, 1, 4], [4, 0]], [[3], [8]]])
def test_info_of_several_packs(tmp_path: Path, sizes: list[list[int]]) -> None:
    packs = [
        write_folder(tmp_path / f"{i}.ffr", {f"{i} {j}": bytes(s) for j, s in enumerate(of_pack)})
        for i, of_pack in enumerate(sizes)
    ]
    found = pack_info(packs)
    together = [size for of_pack in sizes for size in of_pack]
    assert (found.file_count, found.byte_count) == (len(together), sum(together))
    if together:
        middle = int(statistics.median(together))
        assert found.sizes == FileSizes(min(together), middle, max(together))
    else:
        assert found.sizes is None


def test_info_needs_no_numpy(file: Path) -> None:
    """Importing NumPy would take as long as all the rest."""
    program = "import sys; from ffrfs.folder.info import info; info(sys.argv[1])"
    result = python("-c", f"{program}; print('numpy' in sys.modules)", str(file), check=True)
    assert result.stdout == "False\n"


def test_info_of_a_plain_file(tmp_path: Path) -> None:
    path = write_records(tmp_path / "x.ffr", [b"aaa", b"b", b"c" * 20], forget_checksum)
    with pytest.warns(UnverifiedHeaderWarning):
        found = pack_info(path)
    assert found == PackInfo(
        is_folder=False,
        record_count=3,
        file_count=3,
        folder_count=0,
        byte_count=24,
        stored_byte_count=24,
        header_verified=False,
        sizes=FileSizes(min=1, median=3, max=20),
        pack_count=1,
        indexes=[],
        shards=[],
        missing_shards=[],
        missing_shard_count=0,
    )
