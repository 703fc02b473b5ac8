"""A thousand mounts at once answer, are listed, and leave nothing behind."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.leftovers import check_nothing_left, run_alone
from tests.soak.scale import IS_LONG, MOUNTS, TEST_TIMEOUT_S

HELD_MB = 40  # at most, by daemon and worker of one mount


def room_for_mounts() -> int:
    """Return how many mounts half of the available memory has room for."""
    text = Path("/proc/meminfo").read_text()
    (free_kb,) = re.findall(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE)
    return int(free_kb) // 1024 // 2 // HELD_MB


@pytest.mark.timeout(TEST_TIMEOUT_S)
def test_many_mounts(engine: str, tmp_path: Path) -> None:
    if engine != "native" and not IS_LONG:
        pytest.skip("only in `make soak`")
    source, pack, folder = tmp_path / "source", tmp_path / "pack.ffr", tmp_path / "tmp"
    (source / "d").mkdir(parents=True)
    (source / "d" / "file").write_bytes(b"bytes" * 10_000)
    pack_folder(source, pack)
    folder.mkdir()
    count = max(min(MOUNTS, room_for_mounts()), 2)
    program = Path(__file__).with_name("many_mounts.py")
    told = run_alone(program, engine, pack, folder, count, timeout_s=TEST_TIMEOUT_S - 20)
    assert told["seen"] == {
        "live": {"live": count},
        "wrong": 0,
        "stopped": {"not answering": count},
        "in the end": {},
    }
    assert told["held_mb"] < HELD_MB
    check_nothing_left(told["before"], told["after"])
    times = ", ".join(f"{what} {time_s} s" for what, time_s in told["took_s"].items())
    print(f"{engine}: {count} mounts, {told['held_mb']:.1f} MB each; {times}")
