"""`ffrfs.beam`: the adapter for Apache Beam (ffrfs/adapters/beam)."""

from ffrfs.adapters import import_as
from ffrfs.adapters.beam import *  # noqa: F403

import_as("ffrfs.beam", "ffrfs.adapters.beam")
