"""Verifying, indexing, converting by an executor: the same as by one process, also after kills."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

import ffrfs
from ffrfs import FileWriter
from ffrfs.cluster.file_task import FileTask, run_file
from ffrfs.cluster.verifying import verify_packs, verify_tfrecords
from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.convert.convert_files import ConvertOptions, convert_files
from ffrfs.convert.convert_rows import ROWS_NAME, ConvertRow, ConvertRows, put_row
from ffrfs.errors import ChecksumError, PackError, UnfinishedError
from ffrfs.folder import verify
from ffrfs.folder.verify import PackReport, verify_file
from ffrfs.packing.places import MANIFEST_NAME
from ffrfs.tfrecord import TFRecordWriter
from ffrfs.tfrecord.verify import BadRecord
from tests.ffrecord_file import flip_byte, write_records
from tests.mount.command import ffrfs as command

SHARDS = 5
FFRECORD = ConvertOptions("ffrecord")


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    """A pack set."""
    pick = random.Random(4)
    source = tmp_path / "source"
    for number in range(200):
        path = source / f"{number % 7}" / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pick.randbytes(pick.randrange(4000)))
    ffrfs.pack_folder(source, tmp_path / "set", shards=SHARDS)
    return tmp_path / "set"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """A directory of TFRecord files."""
    pick = random.Random(5)
    folder = tmp_path / "records"
    folder.mkdir()
    for number in range(SHARDS):
        with TFRecordWriter(folder / f"train.tfrecord-{number:05}-of-{SHARDS:05}") as writer:
            for _ in range(50 + number):
                writer.write(pick.randbytes(pick.randrange(3000)))
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}


def converted(source: Path, target: Path, options: ConvertOptions = FFRECORD) -> ConvertSummary:
    with ThreadPoolExecutor(2) as pool:
        return convert_files(str(source), str(target), options, pool)


@pytest.mark.promise("S68")
@pytest.mark.parametrize("executor_text", ["processes", "dask"], indirect=True)
def test_verify(packs: Path, records: Path, executor_text: str) -> None:
    """The output is as without an executor: for good, for damaged, and for unreadable files."""
    both = [packs, records]
    alone = command("verify", *both)
    assert command("verify", "--executor", executor_text, *both) == alone
    assert alone.status == 0
    flip_byte(packs / "part_00001.ffr", (packs / "part_00001.ffr").stat().st_size // 2)
    flip_byte(records / f"train.tfrecord-00002-of-{SHARDS:05}", 2000)
    os.truncate(packs / "part_00003.ffr", 100)
    alone = command("verify", "--json", *both)
    assert command("verify", "--json", "--executor", executor_text, *both) == alone
    assert alone.status == 1


def test_verify_of_relative_paths(
    packs: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(packs.parent)
    flip_byte(packs / "part_00001.ffr", (packs / "part_00001.ffr").stat().st_size // 2)
    seen: list[tuple[str, str | None, str]] = []
    with ThreadPoolExecutor(2) as pool:
        reports = verify_packs([packs.name], pool, found=lambda *fault: seen.append(fault))
    assert reports == verify.verify_packs([packs.name])
    (bad,) = (bad for pack in reports[0].packs for bad in pack.bad)
    assert seen == [(f"{packs.name}/part_00001.ffr", bad.path, bad.reason)]


def test_progress_of_records(records: Path) -> None:
    flip_byte(records / f"train.tfrecord-00002-of-{SHARDS:05}", 2000)
    seen: list[tuple[int, ...]] = []
    told: list[BadRecord] = []
    with ThreadPoolExecutor(2) as pool:
        report = verify_tfrecords(
            str(records), pool, lambda *counts: seen.append(counts), told.append
        )
    assert told == report.bad != []
    size = sum(path.stat().st_size for path in records.iterdir())
    assert len(seen) == SHARDS
    assert seen[-1] == (260, 0, size, size)


def test_a_directory_of_plain_files_is_not_a_damaged_set(tmp_path: Path, records: Path) -> None:
    convert(records, tmp_path / "one.ffr")
    (tmp_path / "plain").mkdir()
    for number in range(2):
        shutil.copy(tmp_path / "one.ffr", tmp_path / "plain" / f"{number}.ffr")
    done = command("verify", tmp_path / "plain")
    assert (done.status, done.err) == (0, "")


@pytest.mark.promise("S68")
@pytest.mark.parametrize("executor_text", ["processes", "ray"], indirect=True)
def test_index(packs: Path, records: Path, executor_text: str) -> None:
    before = files(records)
    done = command("index", "--executor", executor_text, packs, records)
    assert (done.status, done.err) == (0, "")
    assert done.out.count("contains an index already") == SHARDS
    made = {name: content for name, content in files(records).items() if name not in before}
    for name in made:
        (records / name).unlink()
    assert command("index", records).status == 0
    assert made == {name: data for name, data in files(records).items() if name not in before}
    assert len(made) == SHARDS


@pytest.mark.promise("S68")
@pytest.mark.parametrize("executor_text", ["processes", "dask"], indirect=True)
def test_convert(records: Path, tmp_path: Path, executor_text: str) -> None:
    """Each file is converted as if alone, and the manifest names all files."""
    words = ["convert", "--executor", executor_text, "--to", "ffrecord"]
    done = command(*words, records, tmp_path / "made")
    assert (done.status, done.out) == (0, f"{tmp_path / 'made'}: 260 records\n")
    (tmp_path / "alone").mkdir()
    for path in records.iterdir():
        name = path.name.replace(".tfrecord", "") + ".ffr"
        convert(path, tmp_path / "alone" / name, "ffrecord")
    assert files(tmp_path / "made") == files(tmp_path / "alone")
    whole, *rows = (tmp_path / "made" / MANIFEST_NAME).read_text().splitlines()
    assert json.loads(whole)["files"] == len(rows) == SHARDS
    assert [json.loads(row)["records"] for row in rows] == [50 + n for n in range(SHARDS)]
    assert not (tmp_path / "made" / ROWS_NAME).exists()
    again = command(*words, records, tmp_path / "made")
    assert (again.status, again.err) == (
        1,
        f"ffrfs: {tmp_path / 'made'}: is not empty; write to another directory\n",
    )


@dataclass(frozen=True)
class MeetingTask(FileTask[PackReport]):
    """Verifies while another task does so in the same process."""

    meeting: threading.Barrier

    def run(self) -> PackReport:
        self.meeting.wait(60)
        report = verify_file(self.file, is_one_of_many=True)
        self.meeting.wait(60)
        return report


@pytest.mark.promise("S68")
def test_tasks_in_threads_keep_their_own_warnings(tmp_path: Path) -> None:
    files = [str(tmp_path / f"{number}.ffr") for number in range(2)]
    for file in files:
        write_records(Path(file), [b"x"], lambda header: setattr(header, "checksum", 0))
    meeting = threading.Barrier(len(files))
    with ThreadPoolExecutor(len(files)) as pool:
        told = list(pool.map(run_file, [MeetingTask(file, meeting) for file in files]))
    assert [[str(one).partition(":")[0] for one in each.warnings] for each in told] == [
        [file] for file in files
    ]


@pytest.mark.promise("S68")
def test_a_damaged_file_does_not_stop_the_others(records: Path, tmp_path: Path) -> None:
    broken = records / f"train.tfrecord-00002-of-{SHARDS:05}"
    content = broken.read_bytes()
    flip_byte(broken, 3000)
    target = tmp_path / "made"
    with pytest.raises(ChecksumError, match=broken.name):
        converted(records, target)
    assert len(files(target)) == SHARDS - 1
    inodes = {path.name: path.stat().st_ino for path in target.glob("*.ffr")}
    broken.write_bytes(content)
    assert converted(records, target).record_count == 260
    assert len(files(target)) == SHARDS
    assert all((target / name).stat().st_ino == inode for name, inode in inodes.items())


def test_several_failures_are_listed(records: Path, tmp_path: Path) -> None:
    for number in (1, 3):
        flip_byte(records / f"train.tfrecord-{number:05}-of-{SHARDS:05}", 3000)
    with pytest.raises(UnfinishedError) as caught:
        converted(records, tmp_path / "made")
    assert str(caught.value).startswith("2 of 5 files failed; ")
    assert len(caught.value.failures) == 2
    done = command(
        *("convert", "--executor", "processes:1", "--to", "ffrecord", "--on-error", "skip"),
        *(records, tmp_path / "made"),
    )
    assert (done.status, done.out) == (0, f"{tmp_path / 'made'}: 258 records\n")
    assert done.err == f"ffrfs: {records}: left out 2 damaged records\n"


@pytest.mark.promise("S68")
def test_a_killed_conversion_is_resumed(records: Path, tmp_path: Path) -> None:
    """There are so many files that it is killed before its end."""
    for number in range(SHARDS, 60):
        shutil.copy(next(records.iterdir()), records / f"more.tfrecord-{number:05}")
    target = tmp_path / "made"
    words = ["convert", "-q", "--executor", "processes:1", "--to", "tfrecord"]
    words += ["--compression", "gzip", str(records), str(target)]
    program = subprocess.Popen([sys.executable, "-m", "ffrfs", *words], start_new_session=True)
    deadline = time.monotonic() + 60
    try:
        while len(list(target.glob("*.gz"))) < 2:
            assert program.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.001)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    assert command(*words).status == 0
    converted(records, tmp_path / "whole", ConvertOptions("tfrecord", "GZIP"))
    assert files(target) == files(tmp_path / "whole")
    assert {path.name for path in target.glob(".*")} == {MANIFEST_NAME}


@pytest.mark.promise("S68")
def test_a_file_of_the_longest_name_has_a_row(tmp_path: Path) -> None:
    """The name has no room for ".json" behind it; the conversion finds its row all the same."""
    (tmp_path / "records").mkdir()
    names = ["é" * 123, "short"]
    for name in names:
        with FileWriter(tmp_path / "records" / f"{name}.ffr", 2) as writer:
            writer.write_one(b"one")
            writer.write_one(b"two")
    short = tmp_path / "records" / "short.ffr"
    sound = short.read_bytes()
    flip_byte(short, len(sound) - 1)
    to_tfrecord = ConvertOptions("tfrecord")
    with pytest.raises(ChecksumError, match=r"short\.ffr"):
        converted(tmp_path / "records", tmp_path / "made", to_tfrecord)
    made = tmp_path / "made" / f"{names[0]}.tfrecord"
    assert len(os.fsencode(made.name)) == 255
    before = made.stat().st_ino
    short.write_bytes(sound)
    assert converted(tmp_path / "records", tmp_path / "made", to_tfrecord).record_count == 4
    assert made.stat().st_ino == before
    assert {path.name for path in (tmp_path / "made").glob(".*")} == {MANIFEST_NAME}


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["a.tfrecord", "a.tfrecords"], "would become a.ffr, as "),
        ([], "holds no packs (*.ffr) or TFRecord files"),
    ],
)
def test_sources_that_cannot_be_converted(tmp_path: Path, names: list[str], error: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in names:
        TFRecordWriter(source / name).close()
    with pytest.raises((PackError, ffrfs.FormatError)) as caught:
        converted(source, tmp_path / "made")
    assert error in str(caught.value)
    assert not (tmp_path / "made").exists()


def test_a_name_that_becomes_too_long_is_refused_at_the_start(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "made"
    source.mkdir()
    for name in ("é" * 124, "short"):
        with FileWriter(source / f"{name}.ffr", 1) as writer:
            writer.write_one(b"one")
    with pytest.raises(PackError, match=r"é\.ffr: .*é\.tfrecord, whose name is over 255 bytes"):
        converted(source, target, ConvertOptions("tfrecord"))
    assert not target.exists()


def test_changed_options_convert_all_files_again(records: Path, tmp_path: Path) -> None:
    broken = records / f"train.tfrecord-00002-of-{SHARDS:05}"
    content = broken.read_bytes()
    flip_byte(broken, 3000)
    target = tmp_path / "made"
    with pytest.raises(ChecksumError, match=broken.name):
        converted(records, target, ConvertOptions("pack"))
    broken.write_bytes(content)
    converted(records, target)
    converted(records, tmp_path / "whole")
    assert files(target) == files(tmp_path / "whole")


def test_hostile_rows_are_ignored(records: Path, tmp_path: Path) -> None:
    """A row is cut off, of another shape, or of another file: the file is made again."""
    target = tmp_path / "made"
    (target / ROWS_NAME).mkdir(parents=True)
    lines = ["{", "[" * 100_000, "[]", '{"name": 3}', "\x00\xff", '{"name": "../x", "size": 1}']
    for number, line in enumerate(lines):
        (target / ROWS_NAME / f"{number}.json").write_text(line, encoding="utf-8")
    assert converted(records, target).record_count == 260
    assert len(files(target)) == SHARDS


@pytest.mark.promise("S55")
@pytest.mark.parametrize("kind", ["link", "foreign"])
def test_foreign_row_directories_are_refused_and_kept(
    records: Path, tmp_path: Path, kind: str
) -> None:
    target, there = tmp_path / "made", tmp_path / "there"
    rows = target / ROWS_NAME
    target.mkdir()
    there.mkdir()
    (there / "diary").write_text("today")
    if kind == "link":
        rows.symlink_to(there)
    else:
        if os.geteuid() != 0:
            pytest.skip("another user's directory is made by root alone")
        target.chmod(0o1777)
        there = there.rename(rows)
        os.chown(rows, 65534, -1)
    row = ConvertRow("x", 1, 1, "", "../there/x", 1, "", 1, 0, "")
    with pytest.raises(PackError, match=f"{ROWS_NAME}: is not what"):
        converted(records, target)
    with pytest.raises(PackError, match=f"{ROWS_NAME}: is not what"):
        put_row(str(target / row.name), row)
    assert os.listdir(there) == ["diary"]
    assert os.listdir(target) == [ROWS_NAME]


def test_a_directory_in_the_place_of_a_row(tmp_path: Path) -> None:
    (tmp_path / ROWS_NAME / "x.json").mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PackError, match=r"x\.json: is not a regular file; remove it$"):
        ConvertRows(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_foreign_file_among_the_rows_is_kept(records: Path, tmp_path: Path) -> None:
    rows = tmp_path / "made" / ROWS_NAME
    rows.mkdir(parents=True)
    (rows / "diary").write_text("today")
    (rows / ".x.json.0123456789abcdef.partial").touch()  # a killed task was writing it
    with pytest.raises(OSError, match="not empty"):
        converted(records, tmp_path / "made")
    assert os.listdir(rows) == ["diary"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--shards", "2"], "leave out --shards, --records"),
        (["--records"], "leave out --shards, --records"),
        ([], "needs --to"),
    ],
)
def test_wrong_usage(records: Path, tmp_path: Path, words: list[str], error: str) -> None:
    done = command("convert", "--executor", "processes:1", *words, records, tmp_path / "made")
    assert done.status == 2
    assert error in done.err
