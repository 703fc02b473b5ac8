"""After half an hour of all that can happen to mounts nothing is left, and nothing has grown.

FFRFS_SOAK_SEED repeats the same acts.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.leftovers import check_nothing_left, run_alone
from tests.mount.checkable_files import write_checkable_file
from tests.soak.scale import TEST_TIMEOUT_S, TURMOIL_S

FILE_COUNT = 40
FILE_SIZES = [4500, 110_000, 700_000, 5 << 20]
LONGEST_READ_S = 20.0  # in the mount that lasts, on two busy cores
# The most that the daemon and the worker of the mount that lasts may grow by.
GROWTH_KB_MAX = {"daemon": 4096, "worker": 16384}
GROWTH_COUNT_MAX = 4


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    for serial in range(FILE_COUNT):
        write_checkable_file(source, serial, FILE_SIZES[serial % len(FILE_SIZES)])
    pack_folder(source, tmp_path / "pack.ffr")
    return tmp_path / "pack.ffr"


@pytest.mark.promise("S19", "S50", "S51")
@pytest.mark.timeout(TEST_TIMEOUT_S)
def test_turmoil_leaves_nothing(ways: list[str], pack: Path, tmp_path: Path) -> None:
    """Eight seconds of turmoil, after which all processes have to end."""
    seed = int(os.environ.get("FFRFS_SOAK_SEED") or random.randrange(1 << 32))
    print(f"FFRFS_SOAK_SEED={seed}")
    folder = tmp_path / "turmoil"
    folder.mkdir()
    program = Path(__file__).with_name("turmoil.py")
    told = run_alone(
        *(program, seed, TURMOIL_S, pack, folder, ",".join(ways)), timeout_s=TEST_TIMEOUT_S - 20
    )
    results, early, late = told["results"], told["early"], told["late"]
    reads = sum(result["reads"] for result in results)
    longest_s = max(result["longest_s"] for result in results)
    print(f"{told['duration_s']:.0f} s, {sum(told['acts'].values())} acts: {told['acts']}")
    print(f"{reads} reads, the longest of the lasting mount took {longest_s:.2f} s")
    print(f"errors of {len(results)} readers: {[result['errors'] for result in results]}")
    print(f"after a quarter: {early}")
    print(f"at the end:      {late}")

    assert [path for result in results for path in result["wrong"]] == []
    assert [reason for result in results for reason in result["lasting_errors"]] == []
    assert reads > len(results)
    journal = (folder / "journal").read_text()
    assert [text for result in results for text in result["unexpected"]] == [], journal
    assert longest_s < LONGEST_READ_S
    status, out, err = told["umount --all"]
    assert (status, out) == (0, ""), err
    check_nothing_left(told["before"], told["after"])
    for name, growth_kb_max in GROWTH_KB_MAX.items():
        assert late[f"{name}_kb"] - early[f"{name}_kb"] < growth_kb_max, name
        for kind in ("fds", "threads"):
            assert late[f"{name}_{kind}"] - early[f"{name}_{kind}"] <= GROWTH_COUNT_MAX, name
    assert "Traceback" not in journal
