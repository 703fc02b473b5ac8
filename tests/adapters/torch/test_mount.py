"""Workers that read plain paths of a mount, with hints, do not hang, and read the right bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.program_run import run_module
from tests.adapters.torch.mount_run import files
from tests.ffrecord_file import write_folder

pytestmark = [pytest.mark.usefixtures("fuse"), pytest.mark.promise("S36")]


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "files.ffr", dict(files()))


# test_run.py has spawned workers.
@pytest.mark.parametrize(
    ("engine", "method"), [("native", "fork"), ("native", "forkserver"), ("pyfuse3", "fork")]
)
def test_workers_with_hints(pack: Path, engine: str, method: str) -> None:
    """It runs a program of its own, which loads torch and reads three epochs."""
    assert run_module("mount_run", "loaders", str(pack), engine, method) == ""


@pytest.mark.parametrize("engine", ["native", "pyfuse3"])
def test_forks_in_the_middle_of_an_epoch(pack: Path, engine: str) -> None:
    assert run_module("mount_run", "forks", str(pack), engine) == ""


def test_skipped_samples_get_no_hints(pack: Path) -> None:
    assert run_module("mount_run", "steps", str(pack), "native") == ""
