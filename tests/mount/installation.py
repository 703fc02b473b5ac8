"""Installations of ffrfs that a test may replace or remove under a live mount."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.checkout import CHECKOUT

ANSWER_S = 120.0


class Installation:
    """A virtual environment in which one of several versions of the package is installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        place = folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        self.python = place / "bin" / "python"
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
        # Only the path: the .pth file of an editable install of ffrfs there has no effect.
        (packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
        self._installed = packages / "ffrfs"

    def add(self, version: str, changes: dict[str, tuple[str, str]]) -> None:
        package = self._folder / version / "ffrfs"
        shutil.copytree(CHECKOUT / "ffrfs", package)
        spec = importlib.util.find_spec("ffrfs._native")
        assert spec is not None
        assert spec.origin is not None
        built = Path(spec.origin).parent
        for file in (Path(spec.origin), built / "ffrfs-worker", built / "ffrfs-guardian"):
            shutil.copy(file, package)
        for name, (text, other) in changes.items():
            source = package / "mount" / "daemon" / name
            assert text in source.read_text()
            source.write_text(source.read_text().replace(text, other, 1))

    def install(self, version: str) -> None:
        new = self._installed.with_name("new")
        new.symlink_to(self._folder / version / "ffrfs")
        new.rename(self._installed)

    def remove(self) -> None:
        self._installed.unlink()

    def run(self, *arguments: str | Path) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [self.python, "-P", "-m", "ffrfs", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
