"""A daemon that is killed under its readers, many times, by its unit's own commands restarted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.checkout import CHECKOUT
from tests.leftovers import check_nothing_left, run_alone
from tests.mount.checkable_files import write_checkable_file
from tests.mount.command import WAYS
from tests.mount.kills import READER_COUNT

COUNTS = {"native": 20, "uring": 5, "pyfuse3": 5}
FILE_COUNT = 40
TIMEOUT_S = 240.0

# What readers may get: of the dead mount, and of the place while nothing is mounted there.
EXPECTED_ERRORS = {"ENOTCONN", "ECONNABORTED", "ECANCELED", "ENOENT"}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    for serial in range(FILE_COUNT):
        write_checkable_file(source, serial, 20_000 * (1 + serial % 10))
    pack_folder(source, tmp_path / "pack.ffr")
    return tmp_path / "pack.ffr"


@pytest.mark.promise("S50", "S19")
@pytest.mark.parametrize("engine", WAYS, indirect=True)
@pytest.mark.timeout(TIMEOUT_S)
def test_kills_under_load_and_restarts_leave_nothing(
    engine: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = COUNTS[engine]
    folder = tmp_path / "service"
    folder.mkdir()
    program = CHECKOUT / "tests/mount" / "kills.py"
    told = run_alone(program, engine, pack, folder, count, timeout_s=TIMEOUT_S - 10)
    print(f"{engine}: {count} kills in {told['duration_s']:.0f} s, {told['errors']}, ")
    print(f"the longest restart took {told['restart_s']:.2f} s")
    check_nothing_left(told["before"], told["after"])
    assert told["statuses"] == [0, 0]
    assert told["mounts_at_once"] == [1]
    assert told["errors"].keys() <= EXPECTED_ERRORS
    assert sum(told["errors"].values()) >= count * READER_COUNT
    journal = (folder / "journal").read_text()
    assert journal.count("ended") >= 2
    assert "Traceback" not in journal
