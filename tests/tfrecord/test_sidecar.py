"""Sidecars of other tools that we read, ours that they read, and when a sidecar is not trusted."""

from __future__ import annotations

import os
import random
import stat
import time
from pathlib import Path

import pytest

from ffrfs._native import TFRecords, cached_index_path
from ffrfs.errors import FormatError, PackError, TruncatedError
from ffrfs.tfrecord import TFRecordReader, tf_record_iterator
from ffrfs.tfrecord import sidecar as sidecar_module
from ffrfs.tfrecord.sidecar import keep_sidecars, write_sidecar
from tests.tfrecord_file import framed, tfrecord_extents, write_tfrecord
from tests.tfrecord_package import the_package_tfrecord

NOBODY = 65534
RECORDS = [random.Random(i).randbytes(i * i) for i in range(60)]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own cache, in which no other test has made directories."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", RECORDS)


def make_their_index(file: Path, index: Path) -> None:
    the_package_tfrecord().tools.tfrecord2idx.create_index(str(file), str(index))


def used_sidecar(path: Path) -> bool:
    records = TFRecords([os.fsencode(path)])
    extents = tfrecord_extents(path.read_bytes())
    assert records.offsets(0).tolist() == [o for o, _ in extents] + [path.stat().st_size]
    (used,) = records.used_sidecars
    return used


def test_sidecars_of_other_tools_are_used(file: Path) -> None:
    assert not used_sidecar(file)
    make_their_index(file, file.with_name("x.tfindex"))
    assert used_sidecar(file)
    reader = TFRecordReader(file)
    assert reader[:] == RECORDS
    # Nothing was missing, so nothing was written.
    assert sorted(os.listdir(file.parent)) == ["x.tfindex", file.name]


@pytest.mark.parametrize("records", [RECORDS, [], [b""] * 1000, [bytes(70_000)] * 3])
def test_our_sidecar_equals_that_of_the_tfrecord_package(
    tmp_path: Path, records: list[bytes]
) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", records)
    assert write_sidecar(file) == f"{file}.idx"
    make_their_index(file, tmp_path / "theirs")
    assert (tmp_path / "x.tfrecord.idx").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert used_sidecar(file)


def test_the_tfrecord_package_reads_our_sidecar(file: Path) -> None:
    tfrecord_iterator = the_package_tfrecord().reader.tfrecord_iterator
    sidecar = write_sidecar(file)
    halves = [
        bytes(record)
        for number in range(2)
        for record in tfrecord_iterator(str(file), sidecar, shard=(number, 2))
    ]
    assert halves == RECORDS


def cached(file: Path) -> Path:
    return Path(os.fsdecode(cached_index_path(os.fsencode(file))))


def test_a_reader_writes_a_missing_sidecar_into_the_cache(file: Path) -> None:
    """A program that lists the data would take a sidecar beside it for data."""
    TFRecordReader(file, sidecar=False)
    sidecar = cached(file)
    assert not sidecar.exists()
    TFRecordReader(file)
    assert os.listdir(file.parent) == [file.name]
    assert sidecar.stat().st_mtime_ns == file.stat().st_mtime_ns
    assert stat.S_IMODE(sidecar.parent.stat().st_mode) == 0o700
    assert used_sidecar(file)
    inode = sidecar.stat().st_ino
    assert TFRecordReader(file)[:] == RECORDS
    assert sidecar.stat().st_ino == inode


def test_a_relative_name_finds_the_same_sidecar(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    TFRecordReader(file.name)
    assert used_sidecar(file)


def test_the_sidecar_beside_the_file_comes_first(file: Path) -> None:
    TFRecordReader(file)
    os.truncate(cached(file), 0)
    assert not used_sidecar(file)
    write_sidecar(file)
    assert used_sidecar(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_sidecar_of_another_user_is_not_used(file: Path) -> None:
    TFRecordReader(file)
    os.chown(cached(file), NOBODY, NOBODY)
    assert not used_sidecar(file)


def test_a_reader_replaces_a_stale_sidecar(file: Path) -> None:
    TFRecordReader(file)
    records = [*RECORDS, b"one more"]
    write_tfrecord(file, records)
    os.utime(file, ns=(0, cached(file).stat().st_mtime_ns + 1))
    assert not used_sidecar(file)
    assert TFRecordReader(file)[:] == records
    assert used_sidecar(file)


@pytest.mark.parametrize("count", [1, len(RECORDS)])
def test_an_index_that_is_opened_as_data_is_recognised(tmp_path: Path, count: int) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", RECORDS[:count])
    sidecar = write_sidecar(file)
    told = r"x\.tfrecord\.idx: is the index of a TFRecord file, not a TFRecord file"
    with pytest.raises(FormatError, match=told):
        TFRecordReader(sidecar)
    with pytest.raises(FormatError, match=told):
        list(tf_record_iterator(sidecar))


def test_a_change_after_indexing_makes_the_sidecar_stale(file: Path) -> None:
    """The file changes after it was indexed, but before the sidecar is written."""
    records = TFRecords([os.fsencode(file)], sidecar=False)
    others = list(reversed(RECORDS))
    file.write_bytes(framed(others))
    os.utime(file, ns=(0, records.mtimes_ns[0] + 1_000_000))
    keep_sidecars(records, [str(file)])
    assert cached(file).exists()
    assert not used_sidecar(file)
    assert TFRecordReader(file)[:] == others


def test_a_stale_sidecar_of_another_name_is_left_alone(file: Path) -> None:
    (file.parent / "x.tfindex").write_text("0 17\n")
    assert TFRecordReader(file)[:] == RECORDS
    assert (file.parent / "x.tfindex").read_text() == "0 17\n"
    assert used_sidecar(file)


def test_a_reader_ignores_a_cache_that_cannot_be_written(file: Path) -> None:
    cached(file).mkdir(parents=True)  # a directory is in the way, for root too
    assert TFRecordReader(file)[:] == RECORDS
    Path(f"{file}.idx").mkdir()
    with pytest.raises(PackError, match="is a directory"):
        write_sidecar(file)
    assert sorted(os.listdir(file.parent)) == [file.name, f"{file.name}.idx"]


def test_a_truncated_file_gets_no_sidecar(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(TruncatedError):
        write_sidecar(file)
    assert os.listdir(file.parent) == [file.name]


def test_a_million_records_are_indexed_in_little_time(tmp_path: Path) -> None:
    """It takes half a second of CPU time; the limit is generous, as other tests run beside it."""
    file = tmp_path / "x.tfrecord"
    file.write_bytes(framed([b""]) * 1_000_000)
    begin = time.process_time()
    reader = TFRecordReader(file)
    assert reader.n == 1_000_000
    assert TFRecords([os.fsencode(file)]).used_sidecars == [True]
    assert time.process_time() - begin < 5


@pytest.mark.promise("S70")
def test_only_an_index_is_replaced(file: Path) -> None:
    sidecar = Path(write_sidecar(file))
    index = sidecar.read_bytes()
    sidecar.write_bytes(b"0 17\n")
    write_sidecar(file)
    assert sidecar.read_bytes() == index
    sidecar_module.create_index(file, sidecar)
    sidecar.write_bytes(b"0: mine\n")
    for write in (lambda: write_sidecar(file), lambda: sidecar_module.create_index(file, sidecar)):
        with pytest.raises(PackError, match=r"idx: exists \(a text file\), and is not an index"):
            write()
        assert sidecar.read_bytes() == b"0: mine\n"
