"""Calls of functions in the process that has Dask, by name: pytest's own imports no dask."""

from __future__ import annotations

from typing import Any, NamedTuple


class Read(NamedTuple):
    rows: list[tuple[Any, ...]]  # sorted
    partitions: list[int]  # rows of each


def call(name: str, *arguments: Any, **options: Any) -> Any:
    from tests.adapters.dask import dask_process

    return getattr(dask_process, name)(*arguments, **options)
