"""A daemon's log under a service manager: in the journal's format, and limited in size."""

from __future__ import annotations

import logging
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from ffrfs.mount.daemon import log_limit
from ffrfs.mount.daemon.log import logging_to
from ffrfs.mount.daemon.log_limit import CAUSES_MAX, LINES_MAX, LimitedHandler
from tests.ffrecord_file import flip_byte, record_extents
from tests.mount import probes
from tests.mount.command import Mount, kill_group, wait_until
from tests.mount.makers import MakeMount, PackTree, by_both
from tests.mount.notify_socket import TIMEOUT_S

DAMAGED_COUNT = 40
TREE = {f"{i:02d}": b"damaged %d" % i for i in range(DAMAGED_COUNT)} | {"z": b"well"}
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} "


@pytest.fixture
def damaged(pack_tree: PackTree) -> Path:
    pack = pack_tree(TREE)
    for offset, _ in record_extents(pack)[:DAMAGED_COUNT]:
        flip_byte(pack, offset)
    return pack


def read_damaged(tree: Mount) -> None:
    assert tree.ask(probes.readable, "") == ["z"]


@contextmanager
def foreground(tree: Mount) -> Iterator[list[str]]:
    """Run `ffrfs mount -f` with a pipe as the journal; yield a list that has its log at the end."""
    reading, writing = os.pipe()
    status = os.fstat(writing)
    lines: list[str] = []
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ffrfs", "mount", "-f", *tree.engine_words),
            *("--", *tree.packs, tree.path),
        ],
        env=os.environ | {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"},
        stdin=subprocess.DEVNULL,
        stderr=writing,
        start_new_session=True,
        text=True,
    )
    os.close(writing)
    try:
        logged = b""
        while b"mounted at" not in logged:
            assert select.select([reading], [], [], TIMEOUT_S)[0]
            logged += os.read(reading, 4096)
        tree.find_daemon()
        yield lines
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        with open(reading, "rb", closefd=False) as pipe:
            lines += (logged + pipe.read()).decode().splitlines()
    finally:
        os.close(reading)
        kill_group(process)


@pytest.mark.promise("S49")
def test_lines_for_the_journal_have_a_priority_and_no_time(
    new_mount: MakeMount, damaged: Path
) -> None:
    tree = new_mount(damaged)
    with foreground(tree) as lines:
        tree.ask(probes.errno_of, "00", "read")
    assert all(re.match(r"<[346]>\S", line) for line in lines), lines
    assert f"<6>{damaged}: mounted at {tree.path}, engine {tree.engine}, transport dev" in lines
    assert [line for line in lines if line.startswith("<3>cannot read 00: ")]
    assert "<6>SIGTERM: unmounting" in lines
    assert not [line for line in lines if re.search(STAMP, line)]


@by_both
@pytest.mark.promise("S49")
def test_many_failures_of_one_cause_are_summed_up_in_one_line(
    mount: MakeMount, damaged: Path
) -> None:
    tree = mount(damaged)
    tree.expect_log("cannot read ")
    read_damaged(tree)
    tree.signal(signal.SIGTERM)
    tree.wait_for_daemon()
    lines = [line for line in tree.log().splitlines() if "cannot read" in line]
    assert len(lines) == LINES_MAX + 1
    text = STAMP + rf"ERROR cannot read 0?(\d+): {damaged}: record \1 .*"
    found = [re.fullmatch(text, line) for line in lines[:-1]]
    # A thread of the worker may log its failure after that of the next file.
    assert len({match[1] for match in found if match}) == LINES_MAX
    last = r"the last: cannot read \d\d: .*"
    held_back = DAMAGED_COUNT - LINES_MAX
    assert re.fullmatch(
        STAMP + rf"ERROR … and {held_back} more like it in \d+ s, {last}", lines[-1]
    )


# The handlers, without a mount.


class Kept(logging.Handler):
    """Keeps the lines that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.is_closed = False

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")

    def close(self) -> None:
        self.is_closed = True
        super().close()


def record(text: str, *arguments: object, level: int = logging.ERROR) -> logging.LogRecord:
    return logging.LogRecord("test", level, __file__, 1, text, arguments, None)


def test_each_cause_is_counted_separately() -> None:
    kept = Kept()
    limited = LimitedHandler(kept)
    for i in range(LINES_MAX + 1234):
        limited.handle(record("template %s", f"name {i}"))
        limited.handle(record("%s", f"whole line {i}: rest"))
    limited.handle(record("template %s", "as a warning", level=logging.WARNING))
    limited.handle(record("%s", "other line"))
    assert len(kept.lines) == 2 * LINES_MAX + 2
    assert kept.lines[-2:] == ["WARNING template as a warning", "ERROR other line"]
    limited.close()
    assert kept.lines[2 * LINES_MAX + 2 :] == [
        f"ERROR … and 1,234 more like it in 1 s, the last: template name {LINES_MAX + 1233}",
        f"ERROR … and 1,234 more like it in 1 s, the last: whole line {LINES_MAX + 1233}: rest",
    ]
    assert kept.is_closed


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Yield the time that the handler sees, which a test sets; its timers run in real time."""
    now_s = [0.0]
    monkeypatch.setattr(log_limit, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    yield now_s


def test_number_is_logged_in_time_without_further_lines(clock: list[float]) -> None:
    kept = Kept()
    limited = LimitedHandler(kept, window_s=0.2)
    for i in range(LINES_MAX + 3):
        limited.handle(record("%d", i))
    assert len(kept.lines) == LINES_MAX
    clock[0] = 0.2
    wait_until(lambda: len(kept.lines) > LINES_MAX, "told")
    assert kept.lines[LINES_MAX:] == ["ERROR … and 3 more like it in 1 s, the last: 12"]
    limited.handle(record("%d", 99))  # begins a new window
    assert kept.lines[-1] == "ERROR 99"
    limited.close()
    assert len(kept.lines) == LINES_MAX + 2


def test_time_window_of_each_cause_ends_separately(clock: list[float]) -> None:
    kept = Kept()
    limited = LimitedHandler(kept, window_s=0.4)
    for i in range(LINES_MAX + 1):
        limited.handle(record("first %d", i))
    clock[0] = 0.2
    for i in range(LINES_MAX + 1):
        limited.handle(record("second %d", i))
    clock[0] = 1.0
    wait_until(lambda: len(kept.lines) == 2 * LINES_MAX + 2, "both are told")
    assert [line.rpartition(": ")[2] for line in kept.lines[-2:]] == ["first 10", "second 10"]
    limited.close()
    assert len(kept.lines) == 2 * LINES_MAX + 2


def test_number_of_causes_is_limited() -> None:
    """A log grows by a limited number of lines, however many causes there seem to be."""
    kept = Kept()
    limited = LimitedHandler(kept)
    for i in range(CAUSES_MAX + 5000):
        limited.handle(record(f"cause {i}"))
    assert len(kept.lines) == CAUSES_MAX + LINES_MAX
    limited.close()
    (told,) = kept.lines[CAUSES_MAX + LINES_MAX :]
    assert told.startswith(f"ERROR … and {5000 - LINES_MAX:,} more like it")


def test_change_of_the_target_loses_no_held_back_lines() -> None:
    first, second = Kept(), Kept()
    limited = LimitedHandler(first)
    for i in range(LINES_MAX + 2):
        limited.handle(record("%d", i))
    limited.change(second)
    assert first.is_closed
    limited.handle(record("other"))
    limited.close()
    assert second.lines[0] == "ERROR other"
    assert second.lines[1].startswith("ERROR … and 2 more like it")


def lines_of_a_failure(monkeypatch: pytest.MonkeyPatch, journal: str) -> list[str]:
    """Return what a failure logs to a pipe as stderr, with this value of JOURNAL_STREAM."""
    reading, writing = os.pipe()
    status = os.fstat(writing)
    monkeypatch.setenv("JOURNAL_STREAM", journal.format(dev=status.st_dev, ino=status.st_ino))
    with open(writing, "w", encoding="utf-8") as stderr:
        monkeypatch.setattr("sys.stderr", stderr)
        with logging_to(None):
            try:
                raise ValueError("two\nlines")
            except ValueError:
                logging.getLogger("test").exception("it failed")
    assert select.select([reading], [], [], 0)[0]
    with open(reading, encoding="utf-8") as pipe:
        return pipe.read().splitlines()


@pytest.mark.parametrize("journal", ["{dev}:1", "1:{ino}", "", "nonsense"])
def test_another_stream_is_not_the_journal(monkeypatch: pytest.MonkeyPatch, journal: str) -> None:
    lines = lines_of_a_failure(monkeypatch, journal)
    assert re.fullmatch(STAMP + "ERROR it failed.*", lines[0])


def test_traceback_is_one_line_of_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = lines_of_a_failure(monkeypatch, "{dev}:{ino}")
    assert line.startswith("<3>it failed\\nTraceback (most recent call last):\\n")
    assert line.endswith("ValueError: two\\nlines")
