"""`ffrfs convert` as a real program: its results, its messages, and the files that it leaves."""

from __future__ import annotations

import contextlib
import gzip
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.command_run import TREE, Run, peak_kb, running
from tests.ffrecord_file import write_folder, write_records
from tests.tfrecord_file import flip_record, framed, write_tfrecord

TIMEOUT_S = 60
RECORDS = [f"record {i}".encode() * i for i in range(12)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", RECORDS)


def test_every_direction(ffrfs: Run, file: Path, tmp_path: Path) -> None:
    steps: list[tuple[str, str, tuple[str, ...]]] = [
        ("x.tfrecord", "a.tfrecord.gz", ()),
        ("a.tfrecord.gz", "b.tfrecords", ("--compression", "zlib", "--level", "1")),
        ("b.tfrecords", "c.ffr", ("--to", "ffrecord")),
        ("c.ffr", "d.ffr", ("--to", "pack")),
        ("d.ffr", "e.ffr", ("--to", "ffrecord", "--records")),
        ("e.ffr", "f", ("--to", "tfrecord")),
        ("f", "g.ffr", ("--features",)),
        ("g.ffr", "h.tfrecord", ("--records",)),
    ]
    for source, target, how in steps:
        done = ffrfs("convert", *how, tmp_path / source, tmp_path / target)
        assert (done.status, done.err) == (0, ""), (source, target)
    assert (tmp_path / "h.tfrecord").read_bytes() == file.read_bytes()
    assert (tmp_path / "e.ffr").read_bytes() == (tmp_path / "c.ffr").read_bytes()
    assert gzip.decompress((tmp_path / "a.tfrecord.gz").read_bytes()) == file.read_bytes()
    assert ffrfs("ls", tmp_path / "d.ffr").lines[-1] == "000000011"
    assert ffrfs("ls", tmp_path / "g.ffr", "000000011").lines == ["record.bin"]


def test_messages(ffrfs: Run, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "y.ffr"
    done = ffrfs("convert", file, target)
    assert (done.status, done.out.decode(), done.err) == (
        0,
        f"{target}: 12 records\n",
        f"ffrfs: {target}: became a plain FFRecord file, as by --to ffrecord; --to pack makes a "
        "pack; a later version needs one of them for .ffr\n",
    )
    told = [("--to", "ffrecord"), ("--to", "pack"), ("--features",), ("-q",)]
    assert [ffrfs("convert", "--force", *how, file, target).err for how in told] == [""] * 4
    assert ffrfs("convert", "-q", file, target).complaint == (
        f"{target}: exists (an FFRecord file of 12 records); write to another file, or "
        "replace it with --force"
    )
    assert ffrfs("convert", "-q", "--force", file, target).out == b""


def test_a_packed_folder(ffrfs: Run, tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", TREE)
    assert ffrfs("convert", pack, tmp_path / "y.tfrecord").said == [
        f"{tmp_path}/y.tfrecord: 5 records, 1 empty directory left out"
    ]
    first, *_ = ffrfs("ls", tmp_path / "y.tfrecord").lines
    assert ffrfs("cat", tmp_path / "y.tfrecord", f"{first}/path.txt").out == b"a/b/deep.txt"
    assert ffrfs("cat", tmp_path / "y.tfrecord", f"{first}/data.txt").out == b"deep\n"


def test_a_damaged_record(ffrfs: Run, file: Path, tmp_path: Path) -> None:
    flip_record(file, 3)
    flip_record(file, 5)
    target = tmp_path / "y.tfrecord"
    target.write_bytes(b"before")
    assert ffrfs("convert", "--force", file, target).complaint.startswith(
        f"{file}: record 3 (offset "
    )
    assert target.read_bytes() == b"before"
    done = ffrfs("convert", "--force", "--on-error", "skip", file, target)
    assert (done.status, done.out.decode()) == (0, f"{target}: 10 records\n")
    assert done.err == f"ffrfs: {file}: left out 2 damaged records\n"
    assert target.read_bytes() == framed(RECORDS[:3] + RECORDS[4:5] + RECORDS[6:])


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("empty", "y.ffr", "empty: holds no packs"),
        ("fifo.tfrecord", "y.ffr", "fifo.tfrecord: not a regular file"),
        ("x.tfrecord", "no/y.tfrecord", "no/y.tfrecord: No such file or directory"),
        ("x.tfrecord", "no/y.ffr", "no/y.ffr: cannot create: No such file or directory"),
        ("x.tfrecord", "folder.tfrecord", "folder.tfrecord: is a directory; name a file"),
        ("x.tfrecord", "fifo.ffr", "fifo.ffr: cannot replace it: not a regular file"),
        ("x.tfrecord", "fifo.tfrecord", "fifo.tfrecord: cannot replace it: not a regular file"),
        ("shards", "shards/y.tfrecord", "shards/y.tfrecord: would be inside "),
    ],
)
def test_impossible_sources_and_targets(
    ffrfs: Run, file: Path, source: str, target: str, reason: str
) -> None:
    tmp_path = file.parent
    (tmp_path / "folder.tfrecord").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "shards").mkdir()
    write_tfrecord(tmp_path / "shards" / "x.tfrecord", RECORDS)
    os.mkfifo(tmp_path / "fifo.ffr")
    os.mkfifo(tmp_path / "fifo.tfrecord")
    before = sorted(tmp_path.rglob("*"))
    assert ffrfs("convert", tmp_path / source, tmp_path / target).complaint.startswith(
        f"{tmp_path}/{reason}"
    )
    assert sorted(tmp_path.rglob("*")) == before
    assert file.read_bytes() == framed(RECORDS)


def is_writing(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Return whether the process holds a file of `folder` that has no name yet."""
    with contextlib.suppress(FileNotFoundError):
        for fd in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if os.readlink(fd).startswith(f"{folder}/#"):
                    return True
    return False


@pytest.fixture(scope="module")
def much(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose conversion takes over a second: many bytes that compress to almost nothing."""
    file = tmp_path_factory.mktemp("much") / "x.tfrecord.gz"
    file.write_bytes(gzip.compress(framed([bytes(4 << 20)]) * 8, 1) * 4)
    return file


@pytest.mark.long
@pytest.mark.parametrize("target", ["y.tfrecord", "y.ffr"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_leaves_no_partial_file(
    tmp_path: Path, much: Path, number: signal.Signals, target: str
) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / target).write_bytes(b"before")
    how = ["--compression", "zlib", "--level", "9"] if target == "y.tfrecord" else []
    arguments = ("convert", "--force", *how, much, folder / target)
    with running(*arguments, process_group=0) as process:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_writing(process, folder):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        status = process.wait(TIMEOUT_S)
        assert process.stderr is not None
        err = process.stderr.read()
    if number == signal.SIGINT:
        assert (status, err) == (130, b"ffrfs: interrupted\n")
    else:
        assert status == -number
    assert os.listdir(folder) == [target]
    assert (folder / target).read_bytes() == b"before"


@pytest.mark.long
def test_memory_is_bounded(tmp_path: Path) -> None:
    """64 MiB of records of 1 MiB are converted between all kinds in less memory than they take."""
    file = tmp_path / "x.tfrecord.gz"
    with gzip.open(file, "wb", compresslevel=1) as stream:
        for i in range(64):
            stream.write(framed([bytes([i]) * (1 << 20)]))
    for source, target, how in [
        (file, "y.tfrecord.gz", ["--level", "1"]),
        (file, "y.ffr", []),
        (tmp_path / "y.ffr", "z.tfrecord.gz", ["--level", "1"]),
    ]:
        found = peak_kb("convert", "-q", *how, source, target, cwd=tmp_path)
        assert found < 90 << 10, target


def test_a_header_without_a_checksum_warns_once(ffrfs: Run, tmp_path: Path) -> None:
    for name, write in [("x.ffr", write_records), ("y.ffr", write_folder)]:
        content = {"a": b"1"} if write is write_folder else [b"1"]
        pack = write(tmp_path / name, content, lambda header: setattr(header, "checksum", 0))
        done = ffrfs("convert", "--force", pack, tmp_path / "z.tfrecord")
        assert done.status == 0
        assert done.err.startswith(f"ffrfs: {pack}: its header has no checksum")
        assert done.err.count("\n") == 1


def test_shards_and_json_lines(ffrfs: Run, tmp_path: Path) -> None:
    examples = [b"\x0a\x00"] * 12
    file = write_tfrecord(tmp_path / "x.tfrecord", examples)
    target = tmp_path / "train"
    done = ffrfs("convert", "--shards", "3", file, target)
    assert (done.status, done.out.decode()) == (0, f"{target}: 12 records\n")
    assert done.err == (
        f"ffrfs: {target}: the shards have 72 bytes on average, and files below 100 MB are read "
        "slowly; consider --shards 1\n"
    )
    assert len(os.listdir(target)) == 3
    assert ffrfs("convert", "-q", "--shards", "2", file, tmp_path / "quiet").said == []
    assert ffrfs("convert", target, tmp_path / "y.jsonl").status == 0
    assert (tmp_path / "y.jsonl").read_text() == '{"features": {}}\n' * 12
    assert ffrfs("convert", "--to", "pack", tmp_path / "y.jsonl", tmp_path / "y.ffr").status == 0


def test_webdataset_and_a_folder(ffrfs: Run, tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [b"\x0a\x00"] * 12)
    steps = (
        ("x.tfrecord", "sets", ("-q", "--shards", "2", "--to", "webdataset")),
        ("sets", "a.tar", ()),
        ("a.tar", "b.tfrecord", ()),
        ("b.tfrecord", "out", ("--to", "folder")),
        ("out", "c.tfrecord", ()),
    )
    for source, target, how in steps:
        done = ffrfs("convert", *how, tmp_path / source, tmp_path / target)
        assert (done.status, done.err) == (0, ""), (source, target)
    assert (tmp_path / "c.tfrecord").read_bytes() == file.read_bytes()
    assert sorted(os.listdir(tmp_path / "sets")) == ["sets-000000.tar", "sets-000001.tar"]


@pytest.mark.parametrize("name", ["x.json", "x.tsv", "x.jsonl.gz", "x"])
def test_convert_says_how_text_must_be_named(ffrfs: Run, tmp_path: Path, name: str) -> None:
    text = b'{"label": 1}\n' * 9
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    done = ffrfs("convert", tmp_path / name, tmp_path / "out.tfrecord")
    how = " (gzip)" if name.endswith("gz") else ""
    assert (done.status, done.err) == (
        1,
        f"ffrfs: {tmp_path / name}: is a text file{how}, not a pack or a TFRecord file; "
        "convert takes text only by its name: .jsonl, .csv or .csv.gz\n",
    )


@pytest.mark.parametrize(
    ("name", "content"), [("x.csv", b"a,b\n1\n"), ("x.csv.gz", gzip.compress(b"a,b\n1\n", mtime=0))]
)
def test_a_damaged_table_of_text_is_called_so(
    ffrfs: Run, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    done = ffrfs("convert", tmp_path / name, tmp_path / "out.tfrecord")
    assert (done.status, "not a CSV file, or damaged (" in done.err) == (1, True)
