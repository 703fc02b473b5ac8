"""Replaces a mount's worker, and then its daemon, by those of the version that is installed now.

Each is tried before it takes over. The worker is the engine's; the daemon ends, and the guardian
or the service manager starts the next one (keeper.py).

Concurrency: one task of the daemon's loop for each request.
"""

from __future__ import annotations

import logging
import os
import sys

import trio

import ffrfs
from ffrfs.mount.daemon.keeper import Keeper
from ffrfs.mount.engines.engine import Engine
from ffrfs.mount.engines.worker_deaths import WorkerDeaths

# For a program that imports the next daemon: a second of CPU right after an installation, on a
# machine whose cores and disks may be busy. The present one serves meanwhile.
TRIAL_LIMIT_S = 60.0
_WORKER_LIMIT_S = 15.0  # more than the engine gives a new worker
_KEEPING_LIMIT_S = 5.0  # a guardian that has died is replaced sooner
_PAUSE_S = 0.02
_TRIAL = (sys.executable, "-P", "-m", "ffrfs.mount.daemon.resume", "--try")

log = logging.getLogger(__name__)


def installed() -> tuple[int, int, int] | None:
    """Return the identity of the installed version, which changes with each installation.

    None: there is none, for example because one is just being installed.
    """
    try:
        found = os.stat(ffrfs.__file__)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


async def renew(engine: Engine, deaths: WorkerDeaths, keeper: Keeper) -> None:
    """Replace the worker, and end this process if another daemon goes on with the mount.

    `deaths` shows the result, and the next daemon's `starts`.
    """
    if keeper.has_next and (reason := await _trouble(keeper)) is not None:
        _fail(deaths, reason)
        return
    before = deaths.starts
    failed_before = deaths.failed_restarts
    was_refusing = engine.refusal is not None
    engine.restart()
    with trio.move_on_after(_WORKER_LIMIT_S) as limit:
        while deaths.starts == before and deaths.failed_restarts == failed_before:
            await trio.sleep(_PAUSE_S)
            if engine.refusal is None:
                was_refusing = False
            elif not was_refusing:
                _fail(deaths, f"no worker can begin: {deaths.last_failure}")
                return
    if limit.cancelled_caught:
        _fail(deaths, f"the next worker has not taken over within {_WORKER_LIMIT_S:g} s")
    if deaths.starts == before or not keeper.has_next:
        return
    with trio.move_on_after(_KEEPING_LIMIT_S):
        while True:
            keeper.hand_over(is_renewal=True)
            await trio.sleep(_PAUSE_S)
    _fail(deaths, "there is no guardian to start the next daemon")


def _fail(deaths: WorkerDeaths, reason: str) -> None:
    deaths.failed_restarts += 1
    deaths.last_failure = reason
    log.error("restart: %s; this daemon serves on", reason)


async def _trouble(keeper: Keeper) -> str | None:
    """Return why the installed version cannot go on with the mount; None: it can."""
    figures = keeper.now().figures()
    try:
        with trio.fail_after(TRIAL_LIMIT_S):
            tried = await trio.run_process(
                _TRIAL,
                stdin=figures,
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
    except trio.TooSlowError:
        return f"the installed version did not start within {TRIAL_LIMIT_S:g} s"
    except OSError as error:
        return f"the installed version does not start: {error.strerror}"
    finally:
        os.close(figures)
    if tried.returncode == 0:
        return None
    *_, last = tried.stderr.decode(errors="backslashreplace").strip().splitlines() or [""]
    return f"the installed version does not start: {last}"
