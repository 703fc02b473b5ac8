"""Many reading processes on one mount, for the tests of this folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from tests.mount.child import Child
from tests.mount.command import Mount
from tests.soak.readers import read_for

_START_TIMEOUT_S = 120.0  # many interpreters start on two cores

Result = dict[str, Any]


class Load:
    """Readers that have all begun."""

    def __init__(self, readers: list[Child]) -> None:
        self._readers = readers
        for reader in readers:
            reader.ask_next()

    def results(self, timeout_s: float) -> list[Result]:
        """Return the readers' results in their order; raise ChildTimeoutError if a reader hangs."""
        deadline_s = time.monotonic() + timeout_s
        return [reader.answer(deadline_s - time.monotonic()) for reader in self._readers]


@contextlib.contextmanager
def load(mount: Mount, count: int, duration_s: float, *, drop: float) -> Iterator[Load]:
    """Start `count` processes that read (see read_for)."""
    readers: list[Child] = []
    try:
        for seed in range(count):
            reader = Child(read_for, str(mount.path), seed, duration_s, drop)
            readers.append(reader)
            reader.ask_next()
        for reader in readers:
            assert reader.answer(_START_TIMEOUT_S) == "ready"
        yield Load(readers)
    finally:
        for reader in readers:
            reader.kill()


def check_bytes(results: list[Result]) -> str:
    """Check that there were bytes, and none was wrong; return a line that says how many."""
    reads = sum(result["reads"] for result in results)
    size_bytes = sum(result["bytes"] for result in results)
    assert [name for result in results for name in result["wrong"]] == []
    assert reads > len(results)
    longest_s = max(result["longest_s"] for result in results)
    return (
        f"{len(results)} readers: {reads} reads, {size_bytes >> 20} MB, "
        f"none wrong, the longest took {longest_s:.1f} s"
    )
