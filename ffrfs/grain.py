"""`ffrfs.grain`: the adapter for grain (ffrfs/adapters/grain.py)."""

from ffrfs.adapters import import_as
from ffrfs.adapters.grain import *  # noqa: F403

import_as("ffrfs.grain", "ffrfs.adapters.grain")
