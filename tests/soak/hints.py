"""Programs that hint at random on a mount that others read."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator

import ffrfs
from tests.mount.child import Child, child
from tests.mount.command import Mount
from tests.soak.readers import LARGEST_PREFIX

_HINTS_MAX = 400


def hint_too_large(mount: Mount) -> None:
    """Make the daemon's one warning certain: random hints may all be taken back before it."""
    names = ffrfs.PackedFolder(str(mount.packs[0])).list()
    mount.hint_too_large(next(name for name in names if name.startswith(LARGEST_PREFIX)))


@contextlib.contextmanager
def hinting(mount: Mount, count: int, duration_s: float) -> Iterator[list[Child]]:
    """Run `count` programs that hint for this time; each answers how many hints it has sent."""
    with contextlib.ExitStack() as stack:
        programs = [
            stack.enter_context(child(hint_for, str(mount.path), seed, duration_s))
            for seed in range(count)
        ]
        for program in programs:
            program.ask_next()
        yield programs


def hint_for(folder: str, seed: int, duration_s: float) -> int:
    """Send right and wrong hints, and take many back before they are followed; return how many."""
    order = random.Random(seed)
    names = os.listdir(folder)
    sent = 0
    end_s = time.monotonic() + duration_s
    while time.monotonic() < end_s:
        chosen = order.choices([*names, "absent", "1/2", 1 << 40], k=order.randrange(_HINTS_MAX))
        with ffrfs.prefetch(chosen, folder) as hints:
            hints.wait(order.random() / 10)
            time.sleep(order.random() / 10)
            sent += hints.sent
    return sent
