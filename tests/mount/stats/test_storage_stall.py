"""StorageStall tells by an engine's counters whether storage has stopped answering."""

from __future__ import annotations

from ffrfs.mount.engines.counter_page import Counters
from ffrfs.mount.stats.storage_stall import StorageStall


class Engine:
    """An engine's counters, and the time."""

    def __init__(self) -> None:
        self.depth = self.bytes_storage = 0
        self.now_s = 100.0
        self.stall = StorageStall(self._counters, lambda: self.now_s)

    def _counters(self) -> Counters:
        return {"queue_depth": [self.depth], "bytes_storage": [self.bytes_storage]}

    def after(self, time_s: float, *, depth: int, read: int = 0) -> float:
        self.now_s += time_s
        self.depth = depth
        self.bytes_storage += read
        return self.stall.look()


def test_stall_grows_while_no_read_is_completed() -> None:
    engine = Engine()
    assert engine.after(0, depth=0) == 0
    assert engine.after(50, depth=1) == 0  # the read may just have begun
    assert engine.after(3, depth=2) == 3
    assert engine.after(4, depth=3) == 7
    assert engine.after(1, depth=3, read=10) == 0
    assert engine.after(2, depth=3) == 2
    assert engine.after(1, depth=0) == 0
    assert engine.after(1, depth=1) == 0


def test_reads_that_make_progress_are_no_stall() -> None:
    engine = Engine()
    assert [engine.after(3, depth=5, read=1) for _ in range(5)] == [0] * 5


def test_engine_without_counters_yet_has_no_stall() -> None:
    assert StorageStall(dict, lambda: 1.0).look() == 0
