"""Unedited scripts for HFAiLab/ffrecord, which do what its documentation and examples do."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from ffrfs.adapters.compat.__main__ import main
from tests.adapters.program_run import TORCH_PROGRAMS, run_forked
from tests.checkout import CHECKOUT

SCRIPTS = sorted((CHECKOUT / "tests" / "adapters" / "compat" / "scripts").glob("*.py"))

pytestmark = TORCH_PROGRAMS


def run_compat(script: str, folder: str) -> None:
    """Run a script as `python -m ffrfs.compat` does in its directory, the first one in sys.path."""
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.argv = ["ffrfs.compat", script, folder]
    main()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script(script: Path, tmp_path: Path) -> None:
    text = script.read_text()
    assert "ffrfs" not in text
    if "torch" in text and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not here: pip install ffrfs[torch]")
    run_forked(run_compat, str(script), str(tmp_path))
