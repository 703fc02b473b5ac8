"""`ffrfs.fsspec`: the adapter for fsspec (ffrfs/adapters/fsspec.py)."""

from ffrfs.adapters import import_as
from ffrfs.adapters.fsspec import *  # noqa: F403

import_as("ffrfs.fsspec", "ffrfs.adapters.fsspec")
