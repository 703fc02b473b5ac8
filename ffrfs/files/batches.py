"""Lists of items that are read together. No state: safe from any thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def in_batches(
    items: Iterable[_T], size_of: Callable[[_T], int], size_max: int, count_max: int
) -> Iterator[list[_T]]:
    """Yield small items together, and each that is larger than `size_max` bytes by itself."""
    batch: list[_T] = []
    size = 0
    for item in items:
        own = size_of(item)
        if batch and (size + own > size_max or len(batch) == count_max):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += own
    if batch:
        yield batch
