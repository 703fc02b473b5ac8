"""Fields of dataclasses that a process of another version may have written.

Concurrency: a function without state.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def known_fields(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return a copy without the values that this version's dataclass has no fields for."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in values.items() if name in names}
