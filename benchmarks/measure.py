"""Rounds, medians, and child processes with time limits.

Contenders take turns within a round, and another one begins each round, so that load from the
machine's neighbours affects all of them alike. A round's outcome is whatever the contender
returns, usually seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

Outcome = TypeVar("Outcome")
Samples = dict[str, list[Outcome]]
WATCH_S = 0.05
KILL_TIMEOUT_S = 5  # a child that waits for a mount may not die before the mount ends


def interleave(contenders: Mapping[str, Callable[[], Outcome]], rounds: int) -> Samples[Outcome]:
    samples: Samples[Outcome] = {name: [] for name in contenders}
    names = list(contenders)
    for index in range(rounds):
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            samples[name].append(contenders[name]())
    return samples


def median_ratio(dividends: Sequence[float], divisors: Sequence[float]) -> float:
    """Return the median of the rounds' ratios: both sides of a round had the same neighbours."""
    pairs = zip(dividends, divisors, strict=True)
    return statistics.median(dividend / divisor for dividend, divisor in pairs)


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def run(
    command: Sequence[str | Path],
    timeout_s: float,
    watch: Callable[[int], object] | None = None,
    **options: Any,
) -> str:
    """Run a program and return what it printed; raise if it fails or takes too long.

    It has its own process group, which is killed as a whole: a child that hangs on a mount
    must not hang this process. `watch` is called with its process id, every WATCH_S.
    """
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child: subprocess.Popen[str] = subprocess.Popen(
        list(map(str, command)), text=True, process_group=0, **(pipes | options)
    )
    try:
        output, errors = _outputs(child, timeout_s, watch)
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(KILL_TIMEOUT_S)
        raise
    if child.returncode:
        raise RuntimeError(f"{command[0]} ended with status {child.returncode}: {errors.strip()}")
    return output


def _outputs(
    child: subprocess.Popen[str], timeout_s: float, watch: Callable[[int], object] | None
) -> tuple[str, str]:
    deadline = time.monotonic() + timeout_s
    while watch and time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=WATCH_S)
        watch(child.pid)
    return child.communicate(timeout=max(deadline - time.monotonic(), 0))


def run_python(arguments: Sequence[str | Path], timeout_s: float) -> Any:
    """Run a fresh interpreter and return the JSON that it printed."""
    return json.loads(run([sys.executable, *arguments], timeout_s))
