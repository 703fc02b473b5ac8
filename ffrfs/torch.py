"""`ffrfs.torch`: the adapter for PyTorch (ffrfs/adapters/torch)."""

from ffrfs.adapters import import_as
from ffrfs.adapters.torch import *  # noqa: F403

import_as("ffrfs.torch", "ffrfs.adapters.torch")
