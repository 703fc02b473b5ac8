"""Aliases of commands; trial.txt has wrong usage."""

from __future__ import annotations

import pytest

from tests.cli.command_run import Run


@pytest.mark.parametrize(
    ("line", "same"),
    {
        "help": "--help",
        "help pack": "pack --help",
        "unmount --help": "umount --help",
        "help unmount": "umount --help",
        "help cluster plan": "cluster plan --help",
        "-V": "--version",
    }.items(),
)
def test_aliases_of_commands(ffrfs: Run, line: str, same: str) -> None:
    done = ffrfs(*line.split())
    assert done == ffrfs(*same.split())
    assert done.status == 0
