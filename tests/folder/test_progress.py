"""ProgressBar: what it shows of work that is fast, slow, or first fast and then slow."""

from __future__ import annotations

import pytest

from tests.terminal import UNKNOWN_SIZE, run_on_terminal

# A burst of 400 MB in 0.2 s, then single bytes, at intervals of more than one tick of the bar.
WORK = """
import time
from ffrfs.folder.progress import ProgressBar

with ProgressBar("some/where.ffr", unit="records") as bar:
    for count in range(1, 5):
        time.sleep(0.05)
        bar(count, 0, count * 100_000_000, 0)
    for count in range(5, 10):
        time.sleep(0.11)
        bar(count, 9, 400_000_000 + count, 400_000_009)
"""


@pytest.mark.parametrize("size", [(24, 80), (2, 80), (1, 80), UNKNOWN_SIZE])
def test_each_step_of_slow_work_is_shown(size: tuple[int, int]) -> None:
    output = run_on_terminal("-c", WORK, size=size).decode()
    assert output.startswith("\rwhere.ffr: 0.00B [00:00, ?B/s]")
    for count in range(5, 10):
        assert f"{count} of 9 records" in output
    widths = [len(part) for line in output.split("\n") for part in line.split("\r")]
    assert max(widths) == 79  # no line wraps


def test_line_fits_the_width_of_the_terminal() -> None:
    output = run_on_terminal("-c", WORK, size=(24, 40)).decode()
    assert max(len(part) for part in output.split("\r")) == 39


def test_fast_work_is_shown_ten_times_a_second() -> None:
    work = """
import time
from ffrfs.folder.progress import ProgressBar

begin = time.monotonic()
with ProgressBar("where.ffr") as bar:
    for count in range(200_000):
        bar(count, 200_000, count, 200_000)
print(time.monotonic() - begin)
"""
    *bars, duration_s = run_on_terminal("-c", work).split(b"\r")[1:-1]
    assert 1 <= sum(b"where.ffr" in part for part in bars) <= 1 + float(duration_s) / 0.1
