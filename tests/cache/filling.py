"""Fills a cache in a process that tests kill. It begins once strace(1) traces it.

It prepares the cache. Then it calls access(2), which strace(1) shows, and does the act that a
test interrupts at each step.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

from ffrfs.cache.directory import CacheDirectory
from ffrfs.cache.state_file import BLOCK_SIZE
from tests.cache.blocks import URL, WAIT_S, fill, settle

SIZE = 20 * BLOCK_SIZE
PREPARED = 10
MARK = "/the act begins"
_PR_SET_PTRACER = 0x59616D61


def fill_traced(place: str, act: str) -> None:
    wait_for_tracer()
    cache = CacheDirectory(place, 32 << 20)
    settle(cache)
    if act == "open":
        begin()
        cache.open(URL, "v1", SIZE)
        return
    kept = cache.open(URL, "v1", SIZE)
    for block in range(PREPARED):
        fill(kept, block)
    kept.sync()
    begin()
    if act == "fill":
        fill(kept, PREPARED)
        kept.sync()
    elif act == "again":
        kept.forget(0)
        fill(kept, 0)
        kept.sync()
    elif act == "evict":
        cache._quota.make_room()


def begin() -> None:
    os.access(MARK, os.F_OK)


def wait_for_tracer() -> None:
    """Let any process trace this one, since strace(1) is not its parent; wait for the tracer."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1))
    end_s = time.monotonic() + WAIT_S
    while "\nTracerPid:\t0\n" in Path("/proc/self/status").read_text():
        assert time.monotonic() < end_s
        time.sleep(0.001)
