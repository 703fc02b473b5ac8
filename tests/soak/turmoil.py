"""Mounts that are read, hinted, reloaded, stopped, killed and unmounted at random.

    turmoil.py SEED DURATION_S PACK FOLDER WAY[,WAY...]

One mount lasts to the end, served in the last of these ways (WAYS of command.py); at a few other
places mounts come and go, each served in any of the ways. test_turmoil.py runs it in separate
namespaces, so that everything it finds comes from itself. It prints, as JSON, what there was
before and at the end, and the readers' results.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ffrfs.mount.client.mount_statuses import mount_statuses
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.process import Process
from tests.leftovers import found, found_in_the_end, reap, wait_for_daemons
from tests.mount.child import Child
from tests.mount.command import children, engine_settings, engine_words, ffrfs, wait_until
from tests.mount.preloaded import preloaded
from tests.mount.waiting import waited_s
from tests.soak.wanderer import wander

READER_COUNT = 4
PLACE_COUNT = 3
ANSWER_TIMEOUT_S = 60.0
PS_LIMIT_S = 2.0
CACHE_MB = 32
PAUSE_MAX_S = 0.5
_STATUS = re.compile(r"Rss(?:Anon|Shmem):\s*(\d+) kB")


class Turmoil:
    """The acts on the mounts; the seed decides which act comes next."""

    def __init__(self, seed: int, pack: Path, folder: Path, ways: list[str]) -> None:
        self.random = random.Random(seed)
        self.acts: Counter[str] = Counter()
        self._pack = pack
        self._ways = ways
        self._names = ffrfs("ls", pack).out.splitlines()
        self._journal = folder / "journal"
        self._config = folder / "config.toml"
        self._hints = folder / "hints"
        self._hints.write_text("\n".join([*self._names, "absent"]))
        self._metrics = folder / "metrics.prom"
        self.lasting = folder / "lasting"
        self.places = [folder / f"place{number}" for number in range(PLACE_COUNT)]

    def mount_lasting(self) -> None:
        self._configure(CACHE_MB, self._metrics)
        done = ffrfs("mount", "--config", self._config, self._pack, self.lasting)
        assert (done.status, done.err) == (0, ""), done

    def _configure(self, cache_mb: int, metrics: Path | None) -> None:
        lines = [f"cache_mb = {cache_mb}", f'log_file = "{self._journal}"']
        settings = engine_settings(self._ways[-1])
        lines += [f'{name} = "{value}"' for name, value in settings.items()]
        lines += [] if metrics is None else [f'metrics_file = "{metrics}"']
        self._config.write_text("\n".join(lines) + "\n")

    def act(self) -> None:
        """Do one random act at a random place."""
        weights = {
            **{self.mount: 12, self.unmount: 3, self.unmount_by_others: 2, self.signal_daemon: 3},
            **{self.kill_worker: 2, self.pause: 2, self.hint: 3, self.reload: 2},
            **{self.list_mounts: 1, self.ask_statistics: 1, self.rest: 2},
        }
        (act,) = self.random.choices(list(weights), list(weights.values()))
        self.acts[act.__name__] += 1
        print(f"{time.monotonic():.1f} {act.__name__}", file=sys.stderr)
        act()
        reap()

    def mount(self) -> None:
        place = self._place()
        arguments = ["--cache-mb", str(CACHE_MB), "--log-file", str(self._journal)]
        arguments += engine_words(self.random.choice([*self._ways, "native"]))
        done = ffrfs("mount", *arguments, self._pack, place)
        # A place with a live mount is refused, and so is one whose mount's worker is just dying.
        assert done.status == 0 or (done.status == 32 and "ffrfs umount" in done.err), done

    def unmount(self) -> None:
        done = ffrfs("umount", self._place())
        assert done.status == 0 or "not mounted" in done.err, done

    def unmount_by_others(self) -> None:
        lazy = self.random.choice([[], ["--lazy"]])
        self._run(["umount", *lazy, str(self._place())])

    def signal_daemon(self) -> None:
        numbers = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
        self._signal(self._daemon(self._place()), self.random.choice(numbers))

    def kill_worker(self) -> None:
        self._signal(self._worker(self._place()), signal.SIGKILL)

    def pause(self) -> None:
        place = self._place()
        process = self.random.choice([self._daemon, self._worker])(place)
        self._signal(process, signal.SIGSTOP)
        time.sleep(self.random.random() * PAUSE_MAX_S)
        self._signal(process, signal.SIGCONT)

    def hint(self) -> None:
        place = self.random.choice([self.lasting, self._place()])
        done = ffrfs("prefetch", "--from", self._hints, place)
        # The name "absent" is in no mount. A daemon outlives a lazy umount while files are open.
        assert done.status == 1 or "unmounted" in done.err, done

    def reload(self) -> None:
        metrics = self.random.choice([None, self._metrics])
        self._configure(self.random.choice([8, CACHE_MB, 64]), metrics)
        self._signal(self._daemon(self.lasting), signal.SIGHUP)

    def list_mounts(self) -> None:
        began_s = waited_s()
        mount_statuses()
        assert waited_s() - began_s < PS_LIMIT_S
        done = ffrfs("ps", "--json")
        assert (done.status, done.err) == (0, ""), done
        wait_until(self._is_live, "the lasting mount is live")

    def _is_live(self) -> bool:
        """Return whether `ps` shows it as live; on a busy machine it may need more than 1.5 s."""
        told = json.loads(ffrfs("ps", "--json").out)
        states = {one["mountpoint"]: one["state"] for one in told}
        return states[str(self.lasting)] == "live"

    def ask_statistics(self) -> None:
        place = self.random.choice([self.lasting, self._place()])
        done = ffrfs("stats", "--json", place)
        assert done.status in ((0,) if place == self.lasting else (0, 1)), done

    def rest(self) -> None:
        time.sleep(self.random.random())

    def settle(self) -> dict[str, int]:
        """Return what the lasting mount holds while it gets no requests but reads."""
        self._configure(CACHE_MB, self._metrics)
        daemon, worker = self._daemon(self.lasting), self._worker(self.lasting)
        self._signal(daemon, signal.SIGHUP)
        time.sleep(2)
        assert daemon is not None
        assert worker is not None
        held = {}
        for name, process in {"daemon": daemon, "worker": worker}.items():
            status = Path(f"/proc/{process.pid}/status").read_text()
            held[f"{name}_kb"] = sum(map(int, _STATUS.findall(status)))
            held[f"{name}_fds"] = len(os.listdir(f"/proc/{process.pid}/fd"))
            held[f"{name}_threads"] = len(os.listdir(f"/proc/{process.pid}/task"))
        return held

    def end(self) -> list[object]:
        """Run `ffrfs umount --all`; return its status and output."""
        done = ffrfs("umount", "--all")
        return [done.status, done.out, done.err]

    def _place(self) -> Path:
        return self.random.choice(self.places)

    def _daemon(self, place: Path) -> Process | None:
        known = state.find(str(place))
        return None if known is None else known[1].process

    def _worker(self, place: Path) -> Process | None:
        daemon = self._daemon(place)
        return None if daemon is None else next(iter(children(daemon)), None)

    def _signal(self, process: Process | None, number: int) -> None:
        if process is not None and process.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def _run(self, command: list[str]) -> None:
        subprocess.run(command, capture_output=True, timeout=ANSWER_TIMEOUT_S, check=False)


def main() -> None:
    seed, duration_s = int(sys.argv[1]), float(sys.argv[2])
    pack, folder = Path(sys.argv[3]), Path(sys.argv[4])
    turmoil = Turmoil(seed, pack, folder, sys.argv[5].split(","))
    make_what_stays(turmoil)
    preloaded()  # its process stays to the end
    before = found(str(folder))
    turmoil.mount_lasting()
    told = shake(turmoil, seed, duration_s)
    told["umount --all"] = turmoil.end()
    assert not any(mount_at(str(place)) for place in (turmoil.lasting, *turmoil.places))
    reap()
    told |= {"before": before, "after": found_in_the_end(str(folder), before)}
    print(json.dumps(told))


def make_what_stays(turmoil: Turmoil) -> None:
    """Make the runtime directory, mount(8)'s own one, and the files that a test looks into."""
    turmoil.mount_lasting()
    turmoil.unmount_by_others()
    ffrfs("umount", turmoil.lasting)
    wait_for_daemons()


def shake(turmoil: Turmoil, seed: int, duration_s: float) -> dict[str, Any]:
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        readers = []
        for number in range(READER_COUNT):
            places = [str(place) for place in (turmoil.lasting, *turmoil.places)]
            reader = Child(wander, places, seed + number)
            stack.callback(reader.kill)
            readers.append(reader)
            reader.ask_next()
        for reader in readers:
            assert reader.answer(ANSWER_TIMEOUT_S) == "ready"
            reader.ask_next()
        act_until(turmoil, began_s + duration_s / 4)
        early = turmoil.settle()
        act_until(turmoil, began_s + duration_s)
        late = turmoil.settle()
        for reader in readers:
            reader.signal_end()
        results = [reader.answer(ANSWER_TIMEOUT_S) for reader in readers]
    return {
        "early": early,
        "late": late,
        "acts": turmoil.acts,
        "results": results,
        "duration_s": time.monotonic() - began_s,
    }


def act_until(turmoil: Turmoil, end_s: float) -> None:
    while time.monotonic() < end_s:
        turmoil.act()


if __name__ == "__main__":
    main()
