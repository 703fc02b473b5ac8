"""A packed folder that is truncated and restored while a program reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.interpreter import python

FOLDER_COUNT, FILE_COUNT = 100, 60


@pytest.mark.promise("S40")
def test_a_program_with_its_own_fault_handler_survives(tmp_path: Path) -> None:
    for i in range(FOLDER_COUNT):
        folder = tmp_path / "source" / f"{i}"
        folder.mkdir(parents=True)
        for k in range(FILE_COUNT):
            (folder / f"file_{k:04d}").write_bytes(b"x" * 10)
    pack = tmp_path / "p.ffr"
    pack_folder(tmp_path / "source", pack)
    program = Path(__file__).with_name("cut_pack_reader.py")
    sizes = [str(FOLDER_COUNT), str(FILE_COUNT)]
    done = python(program, pack, *sizes, "100", timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 wrong\n", "")
