"""A reader that goes from mount to mount, in whatever state they are."""

from __future__ import annotations

import errno
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.mount.checkable_files import is_right, read_past_cache

_PAUSE_MAX_S = 0.01
_HELD_MAX = 4
# Errors of reads through a mount that is dead or gone.
EXPECTED_ERRORS = {"ENOTCONN", "ECONNABORTED", "ECANCELED", "ENOENT"}


def wander(places: list[str], seed: int) -> Iterator[Any]:
    """Yield "ready"; read random files until SIGUSR1 comes; yield the results.

    The first place has a mount that lasts, whose errors are counted apart. Some files stay open
    for a while, so that mounts are busy when they end.
    """
    order = random.Random(seed)
    names = os.listdir(places[0])
    told: dict[str, Any] = {"reads": 0, "wrong": [], "longest_s": 0.0, "lasting_errors": []}
    told["unexpected"] = []
    errors: Counter[str] = Counter()
    held: list[int] = []
    ending = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: ending.set())
    yield "ready"
    while not ending.is_set():
        place, name = order.choice(places), order.choice(names)
        path = os.path.join(place, name)
        began_s = time.monotonic()
        try:
            if order.random() < 0.01:
                held.append(os.open(path, os.O_RDONLY))
            data = read_past_cache(path)
            told["reads"] += 1
            if not is_right(name, data):
                told["wrong"].append(path)
        except OSError as error:
            reason = errno.errorcode[error.errno or 0]
            errors[reason] += 1
            if place == places[0]:
                told["lasting_errors"].append(reason)
            if reason not in EXPECTED_ERRORS:
                told["unexpected"].append(f"{began_s:.2f} to {time.monotonic():.2f}: {error!r}")
        if place == places[0]:
            told["longest_s"] = max(told["longest_s"], time.monotonic() - began_s)
        while len(held) > order.randrange(1, _HELD_MAX):
            os.close(held.pop(0))
        time.sleep(order.random() * _PAUSE_MAX_S)
    for fd in held:
        os.close(fd)
    told["errors"] = dict(errors)
    yield told
