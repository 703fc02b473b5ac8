"""`ffrfs.upath`: the adapter for universal_pathlib (ffrfs/adapters/upath.py)."""

from ffrfs.adapters import import_as
from ffrfs.adapters.upath import *  # noqa: F403

import_as("ffrfs.upath", "ffrfs.adapters.upath")
