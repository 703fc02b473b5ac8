"""The demo and the benchmarks run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sources


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=sources.CHECKOUT,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.usefixtures("fuse")
def test_demo(tmp_path: Path) -> None:
    result = run("examples/demo.py", TMPDIR=str(tmp_path))
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].startswith("All ")
    assert list(tmp_path.iterdir()) == []  # neither data nor a mount is left behind


def test_benchmarks_measure_every_part(tmp_path: Path) -> None:
    output = tmp_path / "figures.json"
    result = run("-m", "benchmarks", "--quick", "--dir", tmp_path / "data", "--json", output)
    assert result.returncode == 0, result.stderr
    parts = json.loads(output.read_text())["parts"]
    assert list(parts) == ["reading", "packing", "mounting", "opening"]
    can_mount = os.path.exists("/dev/fuse") and shutil.which("squashfuse_ll")
    for part, figures in parts.items():
        for figure in figures:
            assert figure["name"] in result.stdout
            if part != "mounting" or can_mount:
                assert figure["value"] > 0
            else:
                assert "not measured" in figure["note"]
    assert list((tmp_path / "data").iterdir()) == []
