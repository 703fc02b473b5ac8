"""A mount whose processes are killed, several at once, stopped and replaced, at random.

Readers of all kinds, and clients that hint, notice only pauses. But if storage was made to fail,
or if the kernel cannot resend, the reads in flight fail.
`make chaos` does this for ten minutes. FFRFS_SOAK_SEED repeats a run.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.leftovers import check_nothing_left, run_alone
from tests.soak.scale import SMALL_PACK_MB

DURATION_S = float(os.environ.get("FFRFS_CHAOS_S", "20")) / 5
HELD_MAX_S = 30.0  # a longer time means for ever, even on a busy machine
PROGRAM = Path(__file__).with_name("chaos.py")

_DEATHS = (
    r"the worker (was killed by SIGKILL|has ended)|the guardian has died|has died$"
    r"|hinted files of more than|the fetcher has ended"
)
_TROUBLES = "cannot read|Input/output error|restart: "
LOGGED = {
    "failing": f"{_DEATHS}|{_TROUBLES}",
    "remote": rf"{_DEATHS}|No space left|cache",
}


def check_failures(told: dict[str, Any], kind: str) -> None:
    """Check that reads failed only in the times when they may, and only with EIO."""
    allowed = {
        "failing": told["done"]["troubles"],
        "unresent": told["done"]["spans"],
    }.get(kind, [])
    for seen in told["seen"]:
        for error, began_s, ended_s, text in seen["failures"]:
            overlaps = any(began_s < end and begin < ended_s for begin, end in allowed)
            assert overlaps, (seen["way"], text, began_s, ended_s, allowed)
            assert error == errno.EIO, (seen["way"], text)


def check_log(log: str, kind: str) -> None:
    lines = re.findall(r"^.* (?:WARNING|ERROR|CRITICAL) .*$", log, re.MULTILINE)
    unexpected = [line for line in lines if not re.search(LOGGED.get(kind, _DEATHS), line)]
    assert not unexpected, unexpected
    assert "Traceback" not in log, log


def figures(told: dict[str, Any]) -> str:
    """Return a few lines that say what happened."""
    done, worker, held = told["done"], told["worker"], told["held"]
    ways = "; ".join(
        f"{seen['way']}: {seen['reads']} reads, {seen['size_bytes'] >> 20} MB, "
        f"{len(seen['failures'])} failed, the longest {seen['longest_s']:.2f} s"
        for seen in told["seen"]
    )
    errors = Counter(
        errno.errorcode.get(failure[0], failure[0])
        for seen in told["seen"]
        for failure in seen["failures"]
    )
    return (
        f"{ways}\nacts: {done['acts']}\nfailures: {dict(errors)}\nworkers: {worker}\n"
        f"without a daemon: {max(done['pauses_s'], default=0):.2f} s; "
        f"held by the kernel: {held['longest_s']:.2f} s ({held['who']}); "
        f"load: {os.getloadavg()[0]:.1f}"
    )


@pytest.mark.promise("S19")
@pytest.mark.timeout(DURATION_S + 400)
@pytest.mark.usefixtures("fuse")
@pytest.mark.parametrize("kind", ["local", "failing", "remote", "unresent", "torch"])
def test_chaos(
    kind: str, pack_checkable: Callable[[int], Path], places: Path, tmp_path: Path
) -> None:
    """Four seconds of chaos, after which all processes have to end."""
    seed = int(os.environ.get("FFRFS_SOAK_SEED") or random.randrange(1 << 32))
    print(f"FFRFS_SOAK_SEED={seed}")
    if kind == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not here: pip install ffrfs[torch]")
    words = (kind, pack_checkable(SMALL_PACK_MB), places, tmp_path, seed, DURATION_S)
    told = run_alone(PROGRAM, *words, timeout_s=DURATION_S + 380)
    print(figures(told))
    assert [name for seen in told["seen"] for name in seen["wrong"]] == []
    assert told["wrong_at_last"] == []
    assert all(seen["reads"] > 0 for seen in told["seen"])
    assert all(count > 0 for count in told["hints"])
    assert told["held"]["longest_s"] < HELD_MAX_S
    check_failures(told, kind)
    check_log(told["log"], kind)
    assert told["worker"]["quarantined"] == 0
    assert told["worker"]["deaths"] > 0
    check_nothing_left(told["before"], told["after"])
