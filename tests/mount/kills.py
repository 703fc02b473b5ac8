"""Kills the daemon of a service under its readers, and starts it anew, again and again.

    kills.py ENGINE PACK FOLDER COUNT

Run by test_mount_kills.py in namespaces of its own, so all that it finds is its own doing.
Prints, as JSON, what was there before and what is left, and what the readers have seen.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ffrfs.mount.kernel.mount_table import read_mount_table
from tests.leftovers import found, found_in_the_end, reap
from tests.mount.checkable_files import read_through_deaths
from tests.mount.child import Child
from tests.mount.command import engine_words
from tests.mount.preloaded import preloaded
from tests.mount.running_unit import RunningUnit

READER_COUNT = 8
ANSWER_TIMEOUT_S = 60.0


def main() -> None:
    engine, pack, folder, count = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    place = folder / "mount"
    options = " ".join(engine_words(engine))
    environment = {"PACKS": pack, "MOUNTPOINT": str(place), "OPTIONS": options}
    unit = RunningUnit(environment, folder / "notify", folder / "journal")
    # What is made once, for good, is no leak: the runtime directory, the journal.
    unit.start()
    statuses = [unit.stop()]
    reap()
    preloaded()  # it stays to the end
    before = found(str(folder))
    began_s = time.monotonic()
    unit.start()
    told = kill_often(unit, str(place), count)
    statuses.append(unit.stop())
    duration_s = time.monotonic() - began_s
    reap()
    after = found_in_the_end(str(folder), before)
    unit.close()
    told |= {"before": before, "after": after, "statuses": statuses, "duration_s": duration_s}
    print(json.dumps(told))


def kill_often(unit: RunningUnit, place: str, count: int) -> dict[str, Any]:
    errors: Counter[str] = Counter()
    restarts_s, mounts = [], set()
    with contextlib.ExitStack() as stack:
        readers = [Child(read_through_deaths, place, seed) for seed in range(READER_COUNT)]
        for reader in readers:
            stack.callback(reader.kill)
            reader.ask_next()
        for reader in readers:
            assert reader.answer(ANSWER_TIMEOUT_S) == {}
        for _ in range(count):
            for reader in readers:
                reader.ask_next()
            time.sleep(random.random() / 20)
            unit.kill()
            killed_s = time.monotonic()
            unit.start()
            restarts_s.append(time.monotonic() - killed_s)
            for reader in readers:
                errors.update(reader.answer(ANSWER_TIMEOUT_S))
            mounts.add(sum(entry.mountpoint == place for entry in read_mount_table()))
    return {"errors": errors, "mounts_at_once": sorted(mounts), "restart_s": max(restarts_s)}


if __name__ == "__main__":
    main()
