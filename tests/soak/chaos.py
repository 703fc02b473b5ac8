"""Readers on a mount in chaos: its processes die, stop and are replaced, its storage fails.

    chaos.py KIND PACK FOLDER WORK SEED DURATION_S

test_chaos.py runs it in separate namespaces, so that everything it finds comes from itself. It
prints, as JSON, the readers' results, the acts, and what there was before and at the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ffrfs.mount.engines.worker import PATH_VARIABLE
from tests.leftovers import found, found_in_the_end, reap
from tests.mount.child import Child, ask
from tests.mount.command import Mount, ffrfs, start_ffrfs, wait_until
from tests.mount.disk import Disk
from tests.mount.preloaded import preloaded
from tests.mount.without_resend import worker_without_resend
from tests.remote.servers.nginx import nginx
from tests.soak.chaos_acts import Chaos
from tests.soak.chaos_readers import read_all, read_in_chaos
from tests.soak.hints import hinting

_ALL = ("plain", "plain", "mapped", "find", "tar")
_READERS = {
    "local": _ALL,
    "failing": _ALL,
    "remote": _ALL,
    "unresent": _ALL,
    "torch": ("plain", "plain", "torch", "torch"),
}
_HINTERS = 2
_CACHE = ("--cache-mb", "32")
_CACHE_DISK_MB = 24  # less than the pack
_ANSWER_S = 120.0
_SAMPLE_S = 0.05


@dataclass
class Ground:
    """The pack to mount, the command's arguments, and the arguments of Chaos."""

    pack: Path | str
    arguments: tuple[str, ...] = _CACHE
    acts: dict[str, Any] = field(default_factory=dict)


class HeldWatch(threading.Thread):
    """Measures for how long the kernel holds a thread so that no signal ends it.

    Readers do not count: SIGKILL ends them where they wait, though their state looks the same.
    """

    def __init__(self, readers: list[Child]) -> None:
        super().__init__(daemon=True)
        self._sessions = {str(reader.pid) for reader in readers}
        self._has_ended = threading.Event()
        self.longest_s = 0.0
        self.who = ""

    def run(self) -> None:
        since: dict[tuple[str, ...], float] = {}
        while not self._has_ended.wait(_SAMPLE_S):
            held = dict(self._held())
            now_s = time.monotonic()
            since = {key: since.get(key, now_s) for key in held}
            for key, began_s in since.items():
                if now_s - began_s > self.longest_s:
                    self.longest_s, self.who = now_s - began_s, held[key]

    def _held(self) -> Iterator[tuple[tuple[str, ...], str]]:
        for pid in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # the process has ended
                for task in os.listdir(f"/proc/{pid}/task"):
                    place = Path(f"/proc/{pid}/task/{task}")
                    name, _, rest = (place / "stat").read_text().rpartition(")")
                    fields = rest.split()
                    if fields[0] == "D" and fields[3] not in self._sessions:
                        where = (place / "wchan").read_text()
                        yield (task, fields[19]), f"{name}) in {where}"

    def end(self) -> dict[str, Any]:
        self._has_ended.set()
        self.join()
        return {"longest_s": self.longest_s, "who": self.who}


@contextlib.contextmanager
def ground_of(kind: str, pack: Path, work: Path) -> Iterator[Ground]:
    with contextlib.ExitStack() as stack:
        if kind == "failing":
            disk = Disk(pack, work / "disk", {})
            stack.callback(disk.close)
            yield Ground(disk.pack, acts={"disk": disk})
        elif kind == "remote":
            server = stack.enter_context(nginx(pack.parent))
            cache = work / "cache"
            cache.mkdir()
            options = f"size={_CACHE_DISK_MB}m,mode=700"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "cache", cache], check=True)
            # A fetcher ends a moment after the mount: found_in_the_end() waits for that.
            stack.callback(subprocess.run, ["umount", "--lazy", cache], check=True)
            arguments = (*_CACHE, "--cache-dir", str(cache))
            acts = {"server": server.program, "full": cache}
            yield Ground(f"{server.url}/{pack.name}", arguments, acts)
        else:
            if kind == "unresent":
                os.environ[PATH_VARIABLE] = str(worker_without_resend(work))
            yield Ground(pack)


def go_through(
    kind: str, pack: Path, places: Path, work: Path, *, seed: int, duration_s: float
) -> Any:
    with ground_of(kind, pack, work) as ground:
        tree = Mount("native", [ground.pack], places / "mount", work / "log")  # type: ignore[list-item]
        try:
            return read_through(tree, kind, ground, pack, seed=seed, duration_s=duration_s)
        finally:
            sys.stderr.write(tree.log())
            tree.close()


def read_through(
    tree: Mount, kind: str, ground: Ground, pack: Path, *, seed: int, duration_s: float
) -> dict[str, Any]:
    mounted = tree.mount(*ground.arguments)
    assert mounted.status == 0, mounted.err
    chaos = Chaos(tree, random.Random(seed), pack=pack, **ground.acts)
    with contextlib.ExitStack() as stack:
        readers = []
        for number, way in enumerate(_READERS[kind]):
            reader = Child(read_in_chaos, way, str(tree.path), seed + number, duration_s)
            stack.callback(reader.kill)
            readers.append(reader)
            assert reader.next(_ANSWER_S) == "ready"
        watch = HeldWatch(readers)
        watch.start()
        hinters = stack.enter_context(hinting(tree, _HINTERS, duration_s))
        for reader in readers:
            reader.ask_next()
        ends_s = time.monotonic() + duration_s - 1
        while time.monotonic() < ends_s:
            chaos.act()
        seen = [reader.answer(_ANSWER_S) for reader in readers]
        hints = [hinter.answer(_ANSWER_S) for hinter in hinters]
    told = {
        "seen": seen,
        "hints": hints,
        "done": vars(chaos.done),
        "wrong_at_last": ask(read_all, str(tree.path), timeout_s=_ANSWER_S),
        "worker": tree.statistics()["worker"],
    }
    unmount_in_warming(tree, chaos)
    return told | {
        "held": watch.end(),
        "log": tree.log(),
    }


def unmount_in_warming(tree: Mount, chaos: Chaos) -> None:
    """Unmount while files are pushed and a process has just died."""
    begun = tree.statistics()["warm"]["begun"]
    with start_ffrfs("warm", tree.path, stderr=subprocess.STDOUT) as warming:
        wait_until(
            lambda: warming.poll() is not None or tree.statistics()["warm"]["begun"] > begun,
            "files are pushed",
        )
        chaos.kill_one()
        assert ffrfs("umount", tree.path).status == 0
        warming.communicate(timeout=_ANSWER_S)


def main() -> None:
    kind, (pack, folder, work) = sys.argv[1], map(Path, sys.argv[2:5])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    preloaded()  # its process stays to the end
    reap()
    Path("/run/ffrfs").mkdir(mode=0o700)  # a mount would make it, and leave it
    before = found(str(folder))
    told = go_through(
        kind, pack, folder, work, seed=int(sys.argv[5]), duration_s=float(sys.argv[6])
    )
    reap()
    after = found_in_the_end(str(folder), before)
    print(json.dumps(told | {"before": before, "after": after}))


if __name__ == "__main__":
    main()
