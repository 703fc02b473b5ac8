"""Slow requests of the pyfuse3 engine: the loop never waits for their paths."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
import trio

from ffrfs.mount.engines.request_log import WAITING_MAX, RequestLog

SLOW_NS = 2**30
LIMIT_S = 20.0


class HangingIndex:
    """A volume whose paths come when `go` is set."""

    def __init__(self) -> None:
        self.counted = 0
        self.is_asked, self.go = threading.Event(), threading.Event()

    def count_request(self, kind: str, elapsed_ns: int) -> bool:
        self.counted += 1
        return elapsed_ns >= SLOW_NS

    def describe_slow(self, kind: str, ino: int, elapsed_ns: int) -> bytes:
        self.is_asked.set()
        self.go.wait(LIMIT_S)
        return b"slow %s: file %d \xff" % (kind.encode(), ino)


@pytest.mark.trio
@pytest.mark.promise("S56")
async def test_slow_requests_beyond_the_limit_are_only_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    index: Any = HangingIndex()
    requests = RequestLog(index)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(requests.run)
            requests.note("read", 1, SLOW_NS - 1)
            requests.note("statfs", "no inode", SLOW_NS)
            requests.note("lookup", 1, SLOW_NS)
            assert await trio.to_thread.run_sync(index.is_asked.wait, LIMIT_S)
            for _ in range(WAITING_MAX + 10):
                requests.note("read", 2, SLOW_NS)
            assert index.counted == WAITING_MAX + 13
            index.go.set()
            while len(caplog.messages) < WAITING_MAX + 1:
                await trio.sleep(0.001)
            requests.note("read", 3, SLOW_NS)
            while len(caplog.messages) < WAITING_MAX + 2:
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
    first, *others, last = caplog.messages
    assert first == "slow lookup: file 1 \\xff"
    assert set(others) == {"slow read: file 2 \\xff"}
    assert last == "slow read: file 3 \\xff"


@pytest.mark.trio
async def test_hanging_index_does_not_delay_the_end() -> None:
    index: Any = HangingIndex()
    requests = RequestLog(index)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(requests.run)
            requests.note("read", 1, SLOW_NS)
            assert await trio.to_thread.run_sync(index.is_asked.wait, LIMIT_S)
            nursery.cancel_scope.cancel()
    index.go.set()


@pytest.mark.trio
async def test_logging_continues_after_a_thread_cannot_start(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    index: Any = HangingIndex()
    index.go.set()
    requests = RequestLog(index)
    run_sync, failures = trio.to_thread.run_sync, [RuntimeError("can't start new thread")]

    async def fail_once(*arguments: Any, **more: Any) -> object:
        if failures:
            raise failures.pop()
        return await run_sync(*arguments, **more)

    monkeypatch.setattr(trio.to_thread, "run_sync", fail_once)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(requests.run)
            requests.note("read", 1, SLOW_NS)
            requests.note("read", 2, SLOW_NS)
            while not caplog.messages:
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
    assert caplog.messages == ["slow read: file 2 \\xff"]
