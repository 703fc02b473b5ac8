"""Mounting, reading and unmounting a thousand times leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.leftovers import check_nothing_left, run_alone
from tests.soak.scale import CYCLES, TEST_TIMEOUT_S


@pytest.mark.timeout(TEST_TIMEOUT_S)
def test_cycles_leave_nothing(engine: str, tmp_path: Path) -> None:
    source, pack, folder = tmp_path / "source", tmp_path / "pack.ffr", tmp_path / "tmp"
    (source / "d").mkdir(parents=True)
    (source / "d" / "file").write_bytes(b"bytes" * 10_000)
    pack_folder(source, pack)
    folder.mkdir()
    cycles = Path(__file__).with_name("cycles.py")
    told = run_alone(cycles, engine, pack, folder, CYCLES, timeout_s=TEST_TIMEOUT_S - 20)
    check_nothing_left(told["before"], told["after"])
    log = (folder / "log").read_text()
    assert log.count(f"engine {engine}") == log.count(": ended") == CYCLES + 1
    assert "WARNING" not in log
    assert "ERROR" not in log
    print(f"{engine}: {CYCLES} cycles in {told['duration_s']:.0f} s")
