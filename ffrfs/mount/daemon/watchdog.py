"""Feeds the service manager's watchdog for as long as the mount really serves.

The daemon's loop feeds it after a probe process (tree_probe.py) has read a file of the
mount, through the kernel and the engine. The loop waits for the answer to a question and
feeds nothing meanwhile, so there is one question at a time.

A thread of the daemon cannot ask: a killed process keeps its connections for as long as one
of its threads waits for a read. So a manager that kills a mount whose reads hang would wait
for the very daemon that does not answer any more.

If the mount is detached, and still serves open files, no path leads to it: then the loop
feeds the watchdog as long as the loop itself runs.

Concurrency: one task of the daemon's loop.
"""

from __future__ import annotations

import logging
import subprocess
import sys

import trio

from ffrfs.errors import describe
from ffrfs.mount.daemon import tree_probe
from ffrfs.mount.daemon.notify import Notifier

# How long to wait for the end of a probe; a probe that hangs in the mount is abandoned.
END_TIMEOUT_S = 1.0

log = logging.getLogger(__name__)


class Watchdog:
    """Feeds `notifier` while the mount on `mountpoint` answers.

    `device`: the mount's "major:minor", as in MountEntry.
    """

    def __init__(self, notifier: Notifier, mountpoint: str, device: str) -> None:
        self._notifier = notifier
        self._command = [sys.executable, "-I", "-S", tree_probe.__file__, mountpoint, device]
        self._probe: trio.Process | None = None
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
            await self._end_probe()
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
                answer = await self._ask()
            except OSError as error:
                log.error("the watchdog's probe does not start: %s", describe(error))
                return False
            if answer:
                return answer != tree_probe.ENDED
            await self._end_probe()
        log.error("the watchdog is not fed: its probe died, and again: %s", self._command)
        return False

    async def _ask(self) -> bytes:
        """Return the probe's answer, or b"" if it has died."""
        if self._probe is None:
            self._probe = await trio.lowlevel.open_process(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        assert self._probe.stdin is not None
        assert self._probe.stdout is not None
        try:
            await self._probe.stdin.send_all(b"?")
            return bytes(await self._probe.stdout.receive_some(1))
        except trio.BrokenResourceError:
            return b""

    async def _end_probe(self) -> None:
        probe, self._probe = self._probe, None
        if probe is None:
            return
        probe.kill()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + END_TIMEOUT_S):
            await probe.wait()
        for pipe in (probe.stdin, probe.stdout):
            if pipe is not None:
                await trio.aclose_forcefully(pipe)
