"""Fixtures of the command's tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ffrfs.cli.main import main
from tests.cli.command_run import TREE, Done, Run
from tests.ffrecord_file import write_folder


@pytest.fixture
def ffrfs(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    def run(*arguments: str | os.PathLike[str]) -> Done:
        capfdbinary.readouterr()
        try:
            status = main([os.fspath(argument) for argument in arguments])
        except SystemExit as end:  # of argparse
            status = int(str(end.code))
        out, err = capfdbinary.readouterr()
        return Done(status, out, err.decode())

    return run


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "x.ffr", TREE)
