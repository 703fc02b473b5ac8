"""Errors name the kind of a file: archives, files that change, damaged files.

trial.txt has the messages of each command for files that it does not take.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from ffrfs.cli.main import main
from ffrfs.packing.sources.source import Source
from tests.cli.command_run import Run
from tests.ffrecord_file import write_folder
from tests.tfrecord_file import write_tfrecord


def write_archive(folder: Path, name: str) -> Path:
    path = folder / name
    with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as archive:
        archive.add(__file__, "a.py")
    return path


def test_convert_names_the_kind_of_an_archive(ffrfs: Run, tmp_path: Path) -> None:
    done = ffrfs("convert", write_archive(tmp_path, "x.tgz"), tmp_path / "out.tfrecord")
    assert "is a tar archive (gzip), not" in done.err
    (tmp_path / "x.tar").write_bytes(write_archive(tmp_path, "x.tar").read_bytes()[:700])
    done = ffrfs("convert", tmp_path / "x.tar", tmp_path / "out.tfrecord")
    assert (done.status, "is a tar archive" in done.err) == (1, False)


def test_the_error_names_a_file_that_changes_while_it_is_packed(
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
    pack = write_folder(tmp_path / "x.ffr", {"a": b"1", "b": b"2"})
    records = write_tfrecord(tmp_path / "x", [b"", b""])
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
