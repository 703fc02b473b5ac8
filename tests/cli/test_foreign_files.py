"""Files that a command does not take: it says what they are, and which command takes them."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from pathlib import Path

import pytest

from ffrfs.cli.main import main
from ffrfs.packing.sources.source import Source
from tests.cli.command_run import Run
from tests.ffrecord_file import write_folder, write_records
from tests.tfrecord_file import write_tfrecord

EITHER = "a pack or a TFRecord file"
PACK_IT = "ffrfs pack {} OUT.ffr makes a pack of it"
CONVERT_IT = "ffrfs convert {} OUT.tfrecord makes TFRecord of it"
READERS = (["ls"], ["verify"], ["info"], ["cat", "a"], ["mount", "--check"])


def write(folder: Path, name: str) -> Path:
    path = folder / name
    match name:
        case "x.ffr":
            return write_folder(path, {"a": b"1", "b": b"2"})
        case "records.ffr":
            return write_records(path, [b"one"])
        case "x.tar":
            with tarfile.open(path, "w") as archive:
                archive.add(__file__, "a.py")
        case "x.tar.gz" | "x.tgz":
            path.write_bytes(gzip.compress(write(folder, "x.tar").read_bytes()))
        case "x.zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("a", "text")
        case "x.jsonl":
            path.write_text("{}\n")
        case "x.jpg":
            path.write_bytes(b"\xff\xd8\xff\xe0" + bytes(100))
    return path


def line_of(ffrfs: Run, command: list[str], file: Path) -> str:
    """What the command says of the file."""
    words = [*command[:1], file, *command[1:]]
    if command[0] == "schema":
        words = [*command, file]
    elif command[0] == "mount":
        (place := file.with_name("place")).mkdir()
        words = [*command, file, place]
    done = ffrfs(*words)
    assert done.status == 1
    return done.err.splitlines()[0].removeprefix(f"ffrfs: {file}: ")


@pytest.mark.parametrize("command", READERS, ids=lambda each: each[0])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("x.tar", f"a tar archive, not {EITHER}; {PACK_IT}"),
        ("x.tar.gz", f"a tar archive (gzip), not {EITHER}; {PACK_IT}"),
        ("x.zip", f"a zip archive, not {EITHER}; {PACK_IT}"),
        ("x.jsonl", f"a file of JSON lines, not {EITHER}; {CONVERT_IT}"),
        ("x.jpg", f"a JPEG file, not {EITHER}"),
    ],
)
def test_what_is_neither_pack_nor_tfrecord(
    ffrfs: Run, tmp_path: Path, command: list[str], name: str, wanted: str
) -> None:
    file = write(tmp_path, name)
    found = line_of(ffrfs, command, file).removesuffix("; what follows could not be checked")
    assert found == f"is {wanted.format(file)}"


@pytest.mark.parametrize("command", [["head"], ["schema", "stats"]], ids=lambda each: each[0])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("x.ffr", "a pack of 2 records, not a TFRecord file; ffrfs ls {} lists its files"),
        ("records.ffr", f"an FFRecord file of 1 record, not a TFRecord file; {CONVERT_IT}"),
        ("x.tar", f"a tar archive, not a TFRecord file; {PACK_IT}"),
    ],
)
def test_what_is_no_tfrecord(
    ffrfs: Run, tmp_path: Path, command: list[str], name: str, wanted: str
) -> None:
    file = write(tmp_path, name)
    assert line_of(ffrfs, command, file) == f"is {wanted.format(file)}"


def test_convert_takes_archives_by_their_names(ffrfs: Run, tmp_path: Path) -> None:
    done = ffrfs("convert", write(tmp_path, "x.tgz"), tmp_path / "out.tfrecord")
    assert "is a tar archive (gzip), not" in done.err
    (tmp_path / "x.tar").write_bytes(write(tmp_path, "x.tar").read_bytes()[:700])
    done = ffrfs("convert", tmp_path / "x.tar", tmp_path / "out.tfrecord")
    assert (done.status, "is a tar archive" in done.err) == (1, False)


def test_a_file_that_changes_while_it_is_packed_is_no_wrong_argument(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (source := tmp_path / "source").mkdir()
    log = source / "train.log"
    log.write_text("step 1\n")
    number = Source.number

    def write_more(self: Source) -> None:
        number(self)
        log.write_text("step 1\nstep 2\n")

    monkeypatch.setattr(Source, "number", write_more)
    assert main(["pack", str(source), str(tmp_path / "x.ffr")]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"ffrfs: {log}: changed size while it was packed (was 7 bytes, now 14)")
    assert main(["pack", str(log), str(tmp_path / "x.ffr")]) == 1
    assert "is a text file, not a directory" in capsys.readouterr().err


def test_damaged_files_are_called_damaged(ffrfs: Run, tmp_path: Path) -> None:
    pack, records = write(tmp_path, "x.ffr"), write_tfrecord(tmp_path / "x", [b"", b""])
    data = bytearray(pack.read_bytes())
    data[0] ^= 1
    pack.write_bytes(data)
    assert "damaged header" in ffrfs("ls", pack).err
    data = bytearray(records.read_bytes())
    data[-1] ^= 1
    records.write_bytes(data)
    assert "checksum mismatch" in ffrfs("verify", records).err
    (tmp_path / "text").write_text("some text\n" * 9)
    assert "not an FFRecord or TFRecord file" in ffrfs("ls", tmp_path / "text").err
