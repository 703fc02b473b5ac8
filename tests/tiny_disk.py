"""A disk of one MiB, for tests of a full disk.

It is a tmpfs in a mount namespace of its own: only the program that runs there sees it, and
it vanishes with that program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.own_mounts import with_own_mounts

TIMEOUT_S = 60.0

_MOUNT = 'mount -t tmpfs -o size=1m ffrfs-test "$0" && exec "$@"'


def _unshare(mountpoint: Path, *command: str) -> list[str]:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return with_own_mounts("sh", "-c", _MOUNT, str(mountpoint), *command, options=user)


def run_on_tiny_disk(mountpoint: Path, program: str, *arguments: str) -> list[str]:
    """Run a Python program with `mountpoint` on that disk; return the lines that it prints."""
    mountpoint.mkdir(exist_ok=True)
    try:
        subprocess.run(_unshare(mountpoint, "true"), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no mount namespace of our own here: {error}")
    done = subprocess.run(
        _unshare(mountpoint, sys.executable, "-c", program, str(mountpoint), *arguments),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


_FAILING = """
import json, os, sys
disk, *words = sys.argv[1:]
try:
{}
except OSError as error:
    print(json.dumps([type(error).__name__, error.strerror, error.filename]))
    print(json.dumps(os.listdir(disk)))
"""


def error_on_tiny_disk(
    mountpoint: Path, program: str, *arguments: str
) -> tuple[list[str], list[str]]:
    """Run a program that fills the disk `disk`; `words` are its arguments.

    Returns its OSError as kind, text and file, and the names on the disk then.
    """
    failing = _FAILING.format(textwrap.indent(program, "    "))
    error, names = map(json.loads, run_on_tiny_disk(mountpoint, failing, *arguments))
    return error, names
