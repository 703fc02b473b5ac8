"""Reads and fills in the files of systemd/: units, the helper of mount(8), examples.

In a checkout, or its editable install, they are beside the package; a wheel has them
inside (native/CMakeLists.txt puts them there).

No state: safe from any thread.
"""

from __future__ import annotations

import os
import re
import subprocess

import ffrfs
from ffrfs.errors import InstallError

PLACEHOLDER = "@PYTHON@"
UNITS = ("ffrfs@.service", "ffrfs.target")
EXAMPLES = ("example.toml", "mnt-data.mount", "mnt-data.automount")
HELPER = "mount.ffrfs"

# Such a path means the same to sh and to systemd, between double quotes.
_PLAIN_PATH = re.compile(r"/[\w@+=:,./~ -]*")
_TIMEOUT_S = 60.0


def read_template(name: str, interpreter: str) -> str:
    """Return the text of a template, with this interpreter in it."""
    with open(os.path.join(_folder(), name), encoding="utf-8") as file:
        return file.read().replace(PLACEHOLDER, interpreter)


def check_interpreter(path: str) -> None:
    """Raise InstallError if a service could not run ffrfs by this interpreter.

    It runs the interpreter as a service would: without our environment, in the root directory.
    """
    if not _PLAIN_PATH.fullmatch(path):
        raise InstallError(
            f"{path}: units and shell scripts cannot hold this path of an interpreter; "
            "install ffrfs into an environment with a plain name"
        )
    command = [path, "-P", "-c", "import ffrfs"]
    try:
        done = subprocess.run(
            command, env={}, cwd="/", capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise InstallError(
            f"{path}: has not imported ffrfs within {_TIMEOUT_S:g} s; try again, or install ffrfs "
            "on a faster file system"
        ) from None
    if done.returncode != 0:
        raise InstallError(
            f"{path}: ffrfs is not installed there, so a service cannot run it; run: "
            f"{path} -m pip install ffrfs, and then: {path} -m ffrfs install-units"
        )


def _folder() -> str:
    package = os.path.dirname(ffrfs.__file__)
    for folder in (package, os.path.dirname(package)):
        path = os.path.join(folder, "systemd")
        # The test excludes another package of that name beside ours.
        if os.path.exists(os.path.join(path, UNITS[0])):
            return path
    raise InstallError(f"{package}: the units are missing; reinstall ffrfs")
