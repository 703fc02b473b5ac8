"""`ffrfs run`: the program has its own arguments, signals, limits and status."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_run import running
from tests.interpreter import python

TIMEOUT_S = 60
SHOWS = """
import json, os, resource, signal, sys
print(json.dumps([sys.argv[1:], sys.stdin.read(), os.environ["PYTHONPATH"],
                  resource.getrlimit(resource.RLIMIT_NOFILE)[0], "torch" in sys.modules,
                  "ffrfs" in sys.modules]))
sys.exit(7)
"""


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return python(
        *("-m", "ffrfs", "run", *words),
        input="given",
        env={**os.environ, **environment},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 20_000)),
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], ["--ahead", "x", "--", "--help", "-x"]),
        (["--ahead", "5"], ["-x"]),
        (["--ahead=5", "--"], ["--", "run"]),
    ],
)
def test_the_program_runs_as_without_ffrfs_run(before: list[str], after: list[str]) -> None:
    done = run(*before, sys.executable, "-c", SHOWS, *after, PYTHONPATH="/one:/other")
    assert (done.returncode, done.stderr) == (7, "")
    arguments, given, path, files, *has = json.loads(done.stdout)
    assert (arguments, given, files, has) == (after, "given", 200, [False, False])
    assert path.split(":")[1:] == ["/one", "/other"]


def test_a_signal_ends_the_program() -> None:
    sleeps = "import sys, time; print('up', flush=True); time.sleep(60)"
    with running("run", sys.executable, "-c", sleeps) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == -signal.SIGTERM


def test_a_broken_pipe_ends_the_program() -> None:
    done = run("sh", "-c", 'trap "" HUP; kill -PIPE $$; exit 1')
    assert done.returncode == -signal.SIGPIPE


def test_another_sitecustomize_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import json\nmark = 5\n")
    shows = "import sitecustomize as s; print(s.mark, s.__name__, s.__file__)"
    done = run(sys.executable, "-c", shows, PYTHONPATH=str(tmp_path))
    assert done.stdout == f"5 sitecustomize {tmp_path}/sitecustomize.py\n", done.stderr
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('its own')\n")
    done = run(sys.executable, "-c", "print('on')", PYTHONPATH=str(tmp_path))
    assert done.stdout == "on\n"
    assert "ValueError: its own" in done.stderr
    assert run(sys.executable, "-c", "import sitecustomize").returncode == 0


def test_a_missing_program() -> None:
    done = run("no-such-program", "-x")
    assert (done.returncode, done.stderr) == (
        127,
        "ffrfs: no-such-program: No such file or directory\n",
    )
    assert (run("").returncode, run("/").returncode) == (127, 126)
