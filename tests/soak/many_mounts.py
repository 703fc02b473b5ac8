"""A thousand mounts at once: made, listed, read, stopped, unmounted.

    many_mounts.py ENGINE PACK FOLDER COUNT

test_many_mounts.py runs it in separate namespaces, where no other mounts are. It prints, as
JSON, the results, how long each step took, and what is left.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ffrfs.mount.client.mount_statuses import mount_statuses
from ffrfs.mount.daemon.memory_limit import anonymous_bytes
from tests.leftovers import found, found_in_the_end, reap, wait_for_daemons
from tests.mount import probes
from tests.mount.child import ask
from tests.mount.command import ffrfs, wait_until
from tests.mount.preloaded import preloaded

COMMAND_TIMEOUT_S = 600.0


def main() -> None:
    engine, pack, folder = sys.argv[1:4]
    places = [os.path.join(folder, str(number)) for number in range(int(sys.argv[4]))]
    mount(engine, pack, places[0])  # makes the runtime directory, which stays
    unmount_all()
    wait_for_daemons()
    preloaded()  # its process stays to the end
    before = found(folder)
    took_s: dict[str, float] = {}

    def timed(what: str, act: Callable[[], object]) -> object:
        began_s = time.monotonic()
        result = act()
        took_s[what] = round(time.monotonic() - began_s, 2)
        return result

    timed("mount all", lambda: mount_all(engine, pack, places))
    wait_until(lambda: states() == {"live": len(places)}, "all answer")
    seen = {"live": timed("list", states), "wrong": timed("read all", lambda: misread(places))}
    pids = [one.pid for one in mount_statuses() if one.pid is not None]
    held_mb = sum(map(anonymous_bytes, processes())) / (1 << 20) / len(places)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    seen["stopped"] = timed("list stopped ones", states)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    timed("unmount all", unmount_all)
    seen["in the end"] = states()
    after = found_in_the_end(folder, before)
    told = {"seen": seen, "took_s": took_s, "held_mb": held_mb, "before": before, "after": after}
    print(json.dumps(told))


def mount_all(engine: str, pack: str, places: list[str]) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(lambda place: mount(engine, pack, place), places))


def mount(engine: str, pack: str, place: str) -> None:
    done = ffrfs("mount", "--engine", engine, pack, place, timeout_s=COMMAND_TIMEOUT_S)
    if (done.status, done.err) != (0, ""):
        raise RuntimeError(f"{place}: {done.err}")


def unmount_all() -> None:
    done = ffrfs("umount", "--all", timeout_s=COMMAND_TIMEOUT_S)
    if (done.status, done.err) != (0, ""):
        raise RuntimeError(done.err)
    reap()


def states() -> dict[str, int]:
    """Return how many mounts `ffrfs ps` shows in each state."""
    done = ffrfs("ps", "--json", timeout_s=COMMAND_TIMEOUT_S)
    if (done.status, done.err) != (0, ""):
        raise RuntimeError(done.err)
    return dict(Counter(one["state"] for one in json.loads(done.out)))


def misread(places: list[str]) -> int:
    """Return how many of the mounts do not give the file's bytes."""
    paths = [os.path.join(place, "d", "file") for place in places]
    contents = ask(probes.read_all_in, "/", paths, timeout_s=COMMAND_TIMEOUT_S)
    return sum(content != b"bytes" * 10_000 for content in contents)


def processes() -> list[int]:
    return [
        int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()
    ]


if __name__ == "__main__":
    main()
