"""Programs that ask a mount for all but bytes: listings, attributes, names that are not there,
and its statistics.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator

from ffrfs.mount.client import control_client
from tests.mount.child import Child, child
from tests.mount.command import Mount

_POLL_PAUSE_S = 0.02


@contextlib.contextmanager
def asking(mount: Mount, duration_s: float) -> Iterator[list[Child]]:
    """Two programs that ask for that long; each answers how often it has."""
    with contextlib.ExitStack() as stack:
        programs = [
            stack.enter_context(child(function, str(mount.path), duration_s))
            for function in (list_for, poll_for)
        ]
        for program in programs:
            program.ask_next()
        yield programs


def list_for(folder: str, duration_s: float) -> int:
    order = random.Random(0)
    names = sorted(os.listdir(folder))
    count = 0
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        if sorted(os.listdir(folder)) != names:
            raise ValueError("another listing")
        for name in order.choices(names, k=50):
            os.stat(os.path.join(folder, name))
        if os.path.lexists(os.path.join(folder, f"absent {order.random()}")):
            raise ValueError("a name that is not there")
        count += 1
    return count


def poll_for(folder: str, duration_s: float) -> int:
    count = 0
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        control_client.ask(folder, "stats")
        count += 1
        time.sleep(_POLL_PAUSE_S)
    return count
