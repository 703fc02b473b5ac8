"""A reader of disk_files.py's files that goes on whatever errors it gets."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

from tests.mount.checkable_files import read_past_cache
from tests.mount.disk_files import ALL_NAMES, content


def read_through_trouble(folder: str, duration_s: float, seed: int) -> Iterator[Any]:
    """Yield "ready", then read and list for a time; yield (right reads, errnos, wrong, longest).

    It goes on until one read was right, which takes longer on a busy machine.
    """
    order = random.Random(seed)
    contents = {name: content(name) for name in ALL_NAMES}
    yield "ready"
    right, errors, wrong, longest_s = 0, set[int](), list[str](), 0.0
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s or not right:
        name, began_s = order.choice(ALL_NAMES), time.monotonic()
        try:
            if order.random() < 0.1:
                is_right = sorted(os.listdir(folder)) == ALL_NAMES
            elif order.random() < 0.1:
                is_right = not os.path.lexists(os.path.join(folder, f"absent {order.random()}"))
            else:
                is_right = read_past_cache(os.path.join(folder, name)) == contents[name]
            right += is_right
            wrong += [] if is_right else [name]
        except OSError as error:
            errors.add(error.errno or 0)
        longest_s = max(longest_s, time.monotonic() - began_s)
    yield right, errors, wrong, longest_s
