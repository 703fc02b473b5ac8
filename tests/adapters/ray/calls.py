"""Calls of functions in the process that has Ray, by name: pytest's own process imports no ray."""

from __future__ import annotations

from typing import Any, NamedTuple


class Read(NamedTuple):
    rows: list[tuple[Any, ...]]  # sorted
    columns: dict[str, str]  # name → type
    count: int  # as Ray tells it without reading, if it can


def call(name: str, *arguments: Any, **options: Any) -> Any:
    from tests.adapters.ray import ray_process

    return getattr(ray_process, name)(*arguments, **options)
