"""A process that asks the mount whether it answers (tree_probe.py), as the loop sees it.

A thread of the daemon cannot ask: a killed process keeps its connections for as long as one of its
threads waits for a read. So a manager that kills a mount whose reads hang would wait for the very
daemon that does not answer any more.

Concurrency: one task of the daemon's loop at a time.
"""

from __future__ import annotations

import subprocess
import sys

import trio

from ffrfs.mount.daemon import tree_probe

# How long to wait for the end of a probe; a probe that hangs in the mount is abandoned.
END_TIMEOUT_S = 1.0


class Probe:
    """Asks the mount on `mountpoint`, of the device "major:minor", from the first question on."""

    def __init__(self, mountpoint: str, device: str) -> None:
        self._command = [sys.executable, "-I", "-S", tree_probe.__file__, mountpoint, device]
        self._process: trio.Process | None = None

    def __str__(self) -> str:
        return " ".join(self._command)

    async def ask(self, question: bytes) -> bytes:
        """Return the answer, or b"" if the process has died. Raises OSError if none starts."""
        if self._process is None:
            self._process = await trio.lowlevel.open_process(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            await self._process.stdin.send_all(question)
            return bytes(await self._process.stdout.receive_some(1))
        except trio.BrokenResourceError:
            return b""

    async def end(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + END_TIMEOUT_S):
            await process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                await trio.aclose_forcefully(pipe)
