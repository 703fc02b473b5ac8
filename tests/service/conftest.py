"""Fixtures of the tests of units: the installed files, and systemd-analyze."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ffrfs.cli.main import main
from tests.service.programs import needed


@pytest.fixture
def installed(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Path:
    """The root folder of the files that `ffrfs install-units` has written."""
    root = tmp_path / "installed"
    assert main(["install-units", "--destdir", str(root)]) == 0
    return root


@pytest.fixture
def units(installed: Path) -> Path:
    return installed / "usr/local/lib/systemd/system"


@pytest.fixture
def examples(installed: Path) -> Path:
    return installed / "usr/local/share/doc/ffrfs"


@pytest.fixture
def analyze(units: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs systemd-analyze, which finds our units."""
    program = needed("systemd-analyze", "systemd")

    def run(*arguments: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "--no-pager", *arguments],
            # The colon at the end adds the default places of units.
            env=os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
