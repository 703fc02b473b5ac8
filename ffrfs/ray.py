"""`ffrfs.ray`: the adapter for Ray Data (ffrfs/adapters/ray)."""

from ffrfs.adapters import import_as
from ffrfs.adapters.ray import *  # noqa: F403

import_as("ffrfs.ray", "ffrfs.adapters.ray")
