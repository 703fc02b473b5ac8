"""The file of figures is always whole and in the right place, and does not burden the mount."""

from __future__ import annotations

import errno
import logging
import os
import re
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs.errors import OptionError
from ffrfs.mount.daemon import metrics_file
from ffrfs.mount.daemon.metrics_file import MetricsFile, check_metrics_file, replace_file
from ffrfs.mount.daemon.statistics import counted, fetched
from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.engines.worker_deaths import WorkerDeaths
from ffrfs.mount.stats.metrics import prometheus
from ffrfs.mount.stats.request_rate import RequestRate
from tests.checkout import CHECKOUT
from tests.mount.command import wait_until
from tests.mount.exposition import Figures

LINES = "# HELP ffrfs_x\n" + "".join(f"figure {number}\n" for number in range(2000))


def statistics(**more: Any) -> dict[str, Any]:
    """Return the statistics of a mount that has done nothing."""
    found = counted({}) | {
        **{"mountpoint": "/mnt", "pack": "/x.ffr", "engine": "native", "age_s": 1.5},
        "transport": "uring",
        **{"cache_limit_bytes": 5, "memory_limit_bytes": None, "memory_pressure": None},
        **{"unreadable_files": 2, "pushed_limit_bytes": 6},
        **{"daemon_resident_bytes": 7, "worker_resident_bytes": None},
        **{"fetcher_resident_bytes": None, "remote": None, "worker": None},
    }
    return found | more


@settings(max_examples=25)
@given(st.text(), st.text())
def test_any_mount_point_and_pack_names_give_valid_metrics(mountpoint: str, pack: str) -> None:
    text = prometheus(statistics(mountpoint=mountpoint, pack=pack))
    assert len(text.splitlines()) == text.count("\n")
    (told,) = Figures(text).by_label("ffrfs_mount_info", "pack").items()
    assert told[1] == 1
    if pack.isprintable():
        assert told[0] == pack


def test_unknown_values_are_left_out() -> None:
    assert "memory_limit" not in prometheus(statistics())
    figures = Figures(prometheus(statistics(memory_limit_bytes=1 << 30, memory_pressure=2.5)))
    assert figures.value("ffrfs_memory_limit_bytes", mountpoint="/mnt") == 1 << 30
    assert figures.value("ffrfs_memory_pressure_ratio", mountpoint="/mnt") == 0.025


def test_documentation_names_every_metric() -> None:
    path = CHECKOUT / "docs" / "operating.md"
    table = "\n".join(line for line in path.read_text().splitlines() if line.startswith("| `"))
    known: dict[str, Any] = {"memory_limit_bytes": 1, "memory_pressure": 1.0}
    known["remote"] = fetched({"remote_starts": [1]})
    known |= {"worker": WorkerDeaths().figures({}), "daemon_starts": 0}
    text = prometheus(statistics(**known))
    named = set(re.findall(r"ffrfs_\w+", table))
    assert named == set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are written as often as the disk can."""
    monkeypatch.setattr(metrics_file, "INTERVAL_S", 0.001)


def during(file: MetricsFile, body: Callable[[], Awaitable[None]]) -> None:
    """Run `body` while `file` is written again and again; then the writing ends."""

    async def main() -> None:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(file.run)
                await body()
                nursery.cancel_scope.cancel()

    trio.run(main)


def during_until(file: MetricsFile, condition: Callable[[], object]) -> None:
    async def body() -> None:
        await until(condition)

    during(file, body)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await trio.sleep(0.005)


class Tries:
    """Counts how often MetricsFile asks for figures, which it does before each write."""

    def __init__(self) -> None:
        self._count = 0

    def statistics(self) -> dict[str, Any]:
        self._count += 1
        return statistics()

    async def go_on(self) -> None:
        """Wait until at least one more try has begun and ended."""
        count = self._count
        await until(lambda: self._count >= count + 2)


@pytest.mark.usefixtures("quick")
@pytest.mark.promise("S56")
def test_reader_never_sees_a_partial_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.prom"
    monkeypatch.setattr(metrics_file, "prometheus", lambda _: LINES)
    seen: list[str] = []
    times_ns: set[int] = set()

    def read_on() -> None:
        while len(times_ns) < 20:
            if path.exists():
                with path.open() as file:
                    times_ns.add(os.fstat(file.fileno()).st_mtime_ns)
                    seen.append(file.read())

    async def body() -> None:
        await trio.to_thread.run_sync(read_on)

    during(MetricsFile(str(path), statistics), body)
    assert set(seen) == {LINES}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("quick")
def test_file_is_removed_after_a_write_in_progress(tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    is_there = threading.Event()

    def replace(name: str, text: str) -> None:
        is_second = path.exists()
        metrics_file.replace_file(name, text)
        if is_second:
            is_there.set()
            time.sleep(0.2)  # MetricsFile has not noted the write yet

    async def body() -> None:
        await trio.to_thread.run_sync(is_there.wait)

    during(MetricsFile(str(path), statistics, replace), body)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("quick")
def test_file_is_rewritten_periodically(tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    ages_s = iter(range(1, 10**6))

    def age_s() -> float:
        if not path.exists():
            return 0
        return Figures(path.read_text()).value("ffrfs_mount_age_seconds", mountpoint="/mnt")

    during_until(
        MetricsFile(str(path), lambda: statistics(age_s=next(ages_s))), lambda: age_s() >= 5
    )


def test_changing_the_path_moves_the_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    file = MetricsFile(None, statistics)

    async def body() -> None:
        await trio.testing.wait_all_tasks_blocked()  # MetricsFile waits for change()
        assert list(tmp_path.iterdir()) == []
        for path in (first, second):
            file.change(str(path))
            await until(path.exists)
            assert list(tmp_path.iterdir()) == [path]
        file.change(str(second))
        await trio.testing.wait_all_tasks_blocked()
        assert second.exists()
        file.change(None)
        await until(lambda: not second.exists())
        assert list(tmp_path.iterdir()) == []

    during(file, body)


@pytest.mark.usefixtures("quick")
def test_missing_folder_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "folder"
    path = folder / "x.prom"
    caplog.set_level(logging.INFO)
    tries = Tries()

    async def body() -> None:
        for _ in range(3):
            folder.mkdir()
            await until(path.exists)
            folder.rename(tmp_path / "away")
            await tries.go_on()
            (tmp_path / "away" / "x.prom").unlink()
            (tmp_path / "away").rmdir()

    during(MetricsFile(str(path), tries.statistics), body)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.getMessage() for record in warnings] == [
        f"metrics are not written to {path}: No such file or directory"
    ]
    assert f"metrics are written to {path} again" in caplog.messages


@pytest.mark.usefixtures("quick")
def test_failure_to_collect_figures_is_only_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> dict[str, Any]:
        raise RuntimeError("no figures")

    during_until(MetricsFile(str(tmp_path / "x.prom"), fail), lambda: caplog.messages)
    (message,) = caplog.messages
    assert message.endswith("RuntimeError: no figures")


@pytest.mark.usefixtures("quick")
def test_failure_to_read_the_mount_table_is_retried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def is_mounted() -> bool:
        if not caplog.messages:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return True

    path = tmp_path / "x.prom"

    during_until(MetricsFile(str(path), statistics, is_mounted=is_mounted), path.exists)
    assert "Too many open files" in caplog.messages[0]


@pytest.mark.promise("S70")
def test_file_without_metrics_is_neither_replaced_nor_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.prom"
    path.write_text("mine")
    with pytest.raises(OptionError, match=r"x.prom: exists \(a text file\), and is not metrics"):
        check_metrics_file(str(path))

    during_until(MetricsFile(str(path), statistics), lambda: bool(caplog.messages))
    assert path.read_text() == "mine"
    replace_file(str(tmp_path / "y.prom"), prometheus(statistics()))
    replace_file(str(tmp_path / "y.prom"), prometheus(statistics()))


def test_symlink_at_the_path_is_not_followed(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "x.prom"
    victim.write_text("untouched")
    path.symlink_to(victim)

    during_until(MetricsFile(str(path), statistics), lambda: not path.is_symlink())
    assert victim.read_text() == "untouched"
    assert list(tmp_path.iterdir()) == [victim]


def test_stalling_disk_does_not_delay_the_end(tmp_path: Path) -> None:
    """A file that is written late, when the mount has ended, is removed again."""
    path, may_go = tmp_path / "x.prom", threading.Event()
    begun, written = threading.Event(), threading.Event()

    def replace_late(path: str, text: str) -> None:
        begun.set()
        may_go.wait(20)
        replace_file(path, text)
        written.set()

    during_until(
        MetricsFile(str(path), statistics, replace_late, replace_limit_s=0.05), begun.is_set
    )
    assert not path.exists()
    may_go.set()
    assert written.wait(20)
    wait_until(lambda: not path.exists(), "it is removed")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.promise("S56")
@pytest.mark.usefixtures("quick")
def test_hanging_disk_is_logged_and_no_longer_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At most one thread waits for the disk, and figures can be written elsewhere meanwhile."""
    caplog.set_level(logging.INFO, logger=metrics_file.__name__)
    path, other, may_go = tmp_path / "x.prom", tmp_path / "y.prom", threading.Event()
    waiting: list[str] = []

    def replace(place: str, text: str) -> None:
        if place == str(other):
            return replace_file(place, text)
        waiting.append(text)
        may_go.wait(60)

    tries = Tries()
    file = MetricsFile(str(path), tries.statistics, replace, replace_limit_s=0.05)

    async def body() -> None:
        await until(lambda: caplog.messages)
        for _ in range(3):
            await tries.go_on()
        file.change(str(other))
        await until(lambda: len(caplog.messages) > 1)
        assert other.exists()

    during(file, body)
    assert len(waiting) == 1
    assert caplog.messages == [
        f"metrics are not written to {path}: its file system does not answer",
        f"metrics are written to {other} again",
    ]
    may_go.set()


@pytest.mark.promise("S56")
def test_pipe_at_the_path_is_not_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    during_until(MetricsFile(str(path), statistics), lambda: caplog.messages)
    assert caplog.messages == [
        f"metrics are not written to {path}: {path}: must be a regular file, but is a pipe; name "
        "another file"
    ]
    assert path.is_fifo()


def test_rate_covers_the_last_seconds() -> None:
    counters: Counters = {"request.read": [0, 0], "request.open": [0], "reads": [10**9]}

    async def main() -> None:
        rate = RequestRate(lambda: counters, age_s=0)
        assert rate.per_s() == 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rate.run)
            await trio.sleep(2)
            counters["request.read"] = [30, 20]
            counters["request.open"] = [50]
            assert rate.per_s() == 100 / 2
            await trio.sleep(2)  # the older sample is still that of the beginning
            assert rate.per_s() == 100 / 4
            await trio.sleep(2)  # now the older sample is that of the first interval's end
            assert rate.per_s() == 0
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize(("age_s", "per_s"), [(0.5, 30 / 1), (3600, 0)])
def test_rate_begins_with_the_mount(age_s: float, per_s: float) -> None:
    """A new mount's first answers, before the daemon's loop begins, count; an old one's do not."""

    async def main() -> float:
        rate = RequestRate(lambda: {"request.lookup": [30]}, age_s)
        await trio.sleep(0.5)
        return rate.per_s()

    assert trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)) == per_s
