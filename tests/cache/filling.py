"""A program that fills a cache, for tests that kill it: filling.py DIR ACT.

It prepares; then comes the act whose every step is tried, after a call of access(2) that
strace(1) shows.
"""

from __future__ import annotations

import os
import sys

from ffrfs.cache.directory import CacheDirectory
from ffrfs.cache.state_file import BLOCK_SIZE
from tests.cache.blocks import URL, fill, settle

SIZE = 20 * BLOCK_SIZE
PREPARED = 10
MARK = "/the act begins"


def main() -> None:
    place, act = sys.argv[1:]
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


if __name__ == "__main__":
    main()
