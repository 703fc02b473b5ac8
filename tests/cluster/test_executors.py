"""The executors of all engines (executor_cases.py), tested in a pytest process for each engine.

Dask and Ray leave threads in a process that has used them, and other tests fork their process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.engines import shared

CASES = Path(__file__).with_name("executor_cases.py")
CHOICES = {
    "dask": "dask or killed_workers",
    "ray": "ray",
    "the others": "not dask and not ray and not killed_workers",
}
TIMEOUT_S = 600


@pytest.mark.timeout(TIMEOUT_S + 10)
@pytest.mark.parametrize("engine", CHOICES)
def test_executors(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """All cases of executor_cases.py, in a process of its own; workers take seconds to begin."""
    environment = dict(os.environ)
    if engine != "the others":
        name = "dask_engine" if engine == "dask" else "ray_head"
        environment |= shared(engine, request.getfixturevalue(name))
    words = ["--quiet", "-p", "no:cacheprovider", "--basetemp", tmp_path / "base"]
    command = [sys.executable, "-m", "pytest", *words, "-k", CHOICES[engine], CASES]
    process = subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, out
