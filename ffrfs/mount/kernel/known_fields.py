"""Fields of dataclasses that a process of another version may have written.

Concurrency: functions without state.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any


def known_fields(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return a copy without the values that this version's dataclass has no fields for."""
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in values.items() if name in names}


def is_sound(values: dict[str, Any]) -> bool:
    """Return whether the values of a MountState are of the types that its fields need.

    JSON may hold others, if somebody has written the file. Raises errors of any kind.
    """
    processes = [one for one in (values["process"], values["guardian"]) if one is not None]
    numbers = [number for one in processes for number in (one.pid, one.start_ticks)]
    for version in values["versions"].values():
        numbers += [version[0], *version]
    needed = [values["mountpoint"], values["pack"], *values["packs"]]
    texts = [values[name] for name in ("log_file", "journal", "device")]
    times = [values[name] for name in ("began_s", "began_monotonic_s")]
    return (
        all(isinstance(one, str) for one in needed)
        and all(isinstance(one, str | None) for one in texts)
        and all(isinstance(one, int) for one in numbers)
        and all(one is None or math.isfinite(one) for one in times)
    )
