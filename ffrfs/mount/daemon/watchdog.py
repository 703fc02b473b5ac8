"""Feeds the service manager's watchdog for as long as the mount really serves.

The daemon's loop feeds it after a probe (probe.py) has read a file of the mount, through the
kernel and the engine. The loop waits for the answer to a question and feeds nothing meanwhile, so
there is one question at a time.

If the mount is detached, and still serves open files, no path leads to it: then the loop
feeds the watchdog as long as the loop itself runs.

Concurrency: one task of the daemon's loop.
"""

from __future__ import annotations

import logging

import trio

from ffrfs.errors import describe
from ffrfs.mount.daemon import tree_probe
from ffrfs.mount.daemon.notify import Notifier
from ffrfs.mount.daemon.probe import Probe

log = logging.getLogger(__name__)


class Watchdog:
    """Feeds `notifier` while the mount on `mountpoint` answers.

    `device`: the mount's "major:minor", as in MountEntry.
    """

    def __init__(self, notifier: Notifier, mountpoint: str, device: str) -> None:
        self._notifier = notifier
        self._probe = Probe(mountpoint, device)
        self._scope = trio.CancelScope()
        self._is_idle = trio.Event()
        self._is_idle.set()

    async def run(self) -> None:
        """Feed until stop(), or cancelled; return at once if no watchdog is wanted."""
        interval_s = self._notifier.watchdog_interval_s
        if interval_s is None:
            return
        self._is_idle = trio.Event()
        try:
            with self._scope:
                await self._feed_every(interval_s)
        finally:
            await self._probe.end()
            self._is_idle.set()

    async def stop(self) -> None:
        """Stop asking the mount before it is unmounted: a reader makes it busy."""
        self._scope.cancel()
        await self._is_idle.wait()

    async def _feed_every(self, interval_s: float) -> None:
        due_s = trio.current_time()
        while True:
            if await self._is_answered():
                self._notifier.feed()
            due_s = max(due_s + interval_s, trio.current_time())
            await trio.sleep_until(due_s)

    async def _is_answered(self) -> bool:
        """Ask the probe, and another one if it has died, for example for want of memory."""
        for _ in range(2):
            try:
                answer = await self._probe.ask(tree_probe.READ)
            except OSError as error:
                log.error("the watchdog's probe does not start: %s", describe(error))
                return False
            if answer:
                return answer != tree_probe.ENDED
            await self._probe.end()
        log.error("the watchdog is not fed: its probe died, and again: %s", self._probe)
        return False
