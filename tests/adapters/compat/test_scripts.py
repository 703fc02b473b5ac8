"""Scripts written for HFAiLab/ffrecord, unedited: what its documentation and examples do."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.adapters.torch.program_run import TORCH_PROGRAMS, run
from tests.checkout import CHECKOUT

SCRIPTS = sorted((CHECKOUT / "tests" / "adapters" / "compat" / "scripts").glob("*.py"))

pytestmark = TORCH_PROGRAMS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = script.read_text()
    assert "ffrfs" not in text
    if "torch" in text and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not here: pip install ffrfs[torch]")
    monkeypatch.chdir(tmp_path)
    run(sys.executable, "-m", "ffrfs.compat", str(script), str(tmp_path))
