"""`ffrfs run` with a training script that knows nothing of ffrfs."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ffrfs import mounted, pack_folder
from ffrfs.mount.client import control_client
from tests.adapters.program_run import TORCH_PROGRAMS, run_module
from tests.adapters.torch.hint_mount import wait_until

SCRIPT = str(Path(__file__).with_name("unmodified_script.py"))
RUN = [sys.executable, "-m", "ffrfs", "run"]
COUNT = 60
TIMEOUT_S = 180
ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}

pytestmark = TORCH_PROGRAMS


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    for i in range(COUNT):
        (folder / f"{i:03}").write_bytes(random.Random(i).randbytes(10_000 + i))
    return folder


@pytest.fixture
def root(fuse: None, source: Path, tmp_path: Path) -> Iterator[str]:
    pack_folder(source, tmp_path / "x.ffr")
    with mounted(tmp_path / "x.ffr", read_around="off") as root:
        yield str(root)


@pytest.mark.parametrize(
    "how",
    [["hidden", "2"], ["shown", "1", "spawn"]],  # each spawned worker imports torch again
    ids="-".join,
)
def test_unmodified_script(root: str, source: Path, how: list[str]) -> None:
    """The script runs twice; its workers import torch if they are spawned."""
    # The batches do not depend on the start method.
    plain = run_module("unmodified_script", root, *how[:2])

    def hinted() -> int:
        answer: Any = control_client.ask(root, "stats")
        count: int = answer["prefetch"]["hinted"]
        return count

    assert hinted() == 0
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*RUN, "--ahead", "100", sys.executable, SCRIPT, root, *how],
        **{"env": ENVIRONMENT, "text": True, "stdin": pipe, "stdout": pipe, "stderr": pipe},
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            while not said.endswith("waits\n"):
                said += process.stdout.readline() or pytest.fail(process.communicate()[1])
            wait_until(lambda: hinted() > 0)
            rest, errors = process.communicate("\n", TIMEOUT_S)
        finally:
            process.kill()
    assert (process.returncode, said + rest) == (3, plain)
    learned = (
        "ffrfs: Hidden shows no paths (samples, imgs, paths, files); its files are learned in the "
        "first epoch, and read ahead from the second on\n"
    )
    assert errors == learned * (how[0] == "hidden")


def behind(folder: Path) -> list[str]:
    """Return an `ffrfs run` command with `folder` after its own directory in PYTHONPATH."""
    return [*RUN, "sh", "-c", f'PYTHONPATH="$PYTHONPATH:{folder}" exec "$@"', "sh"]


def test_a_sitecustomize_that_fails_does_not_end_the_hints(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    program = "import sys; print(sys.meta_path[0].__name__)"
    done = run(*behind(tmp_path), sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (0, "_Finder\n")
    assert "ValueError: mine" in done.stderr


# The only part of torch that sitecustomize.py uses. test_unmodified_script has the real one.
LOADER = """
class _BaseDataLoaderIter:
    def __init__(self, loader): print("iterates", *loader)
"""
ITERATES = """
from torch.utils.data.dataloader import _BaseDataLoaderIter
for epoch in range(2): _BaseDataLoaderIter([epoch])
"""


def test_a_python_without_ffrfs_warns_once(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['ffrfs'] = None\nprint('mine', file=sys.stderr)\n"
    )
    package = tmp_path / "torch" / "utils" / "data"
    package.mkdir(parents=True)
    (package / "dataloader.py").write_text(LOADER)
    for folder in (package, *package.parents[:2]):
        (folder / "__init__.py").touch()
    done = run(*behind(tmp_path), sys.executable, "-c", ITERATES)
    assert (done.returncode, done.stdout) == (0, "iterates 0\niterates 1\n")
    assert done.stderr == (
        f"mine\nffrfs: nothing is read ahead: {sys.executable} has no ffrfs of this version: "
        "install it there\n"
    )
