"""Batches of a DataLoader as plain lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def same(items: Any) -> Any:
    """Return `items`: a collate_fn that makes no tensors."""
    return items


def flat(batches: Iterable[list[Any]]) -> list[Any]:
    return [item for batch in batches for item in batch]
