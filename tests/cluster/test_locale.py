"""Plans with names that Python decodes by the encoding of the locale, here ASCII."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.ascii_locale import ASCII
from tests.cluster.trees import shards_of

# Their order as bytes differs from their order as Python decodes them.
NAMES = ["a", "dé", "é", "ï", "\uffee", "\U0001f600"]


def run(*words: str | Path) -> None:
    command = [sys.executable, "-m", "ffrfs", *map(str, words)]
    subprocess.run(command, env=os.environ | ASCII, check=True, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files and directories in turn, in two directories, and a link to one of these files."""
    path = tmp_path / "source"
    for above in ("x", "x/ö"):
        (path / above).mkdir(parents=True)
        for number, name in enumerate(NAMES):
            place = path / above / name
            if number % 2:
                place.mkdir()
                place /= "größe"
            place.write_text(name)
    (path / "x" / "lö").symlink_to("ö/dé/größe")
    return path


HOW = ("--symlinks", "keep", "--reproducible", "--shards", "3")


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    """The set that this process packs, whose locale has all characters."""
    pack_folder(folder, tmp_path / "packed", symlinks="keep", reproducible=True, shards=3)
    return tmp_path / "packed"


def test_a_plan_packs_names_by_their_bytes(folder: Path, packed: Path, tmp_path: Path) -> None:
    target, plan = tmp_path / "target", tmp_path / "plan"
    run("cluster", "plan", "-q", *HOW, plan, folder, target)
    run("cluster", "run", "-q", plan, "--task", "0/1")
    run("cluster", "commit", "-q", plan)
    assert shards_of(target) == shards_of(packed)


def test_repacking_keeps_the_bytes_of_names(folder: Path, packed: Path, tmp_path: Path) -> None:
    again, extracted = tmp_path / "again", tmp_path / "extracted"
    run("pack", "-q", *HOW, "--executor", "processes:1", packed, again)
    run("extract", again, extracted)
    subprocess.run(["diff", "-r", "--no-dereference", folder, extracted], check=True)
