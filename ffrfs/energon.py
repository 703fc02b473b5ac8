"""`ffrfs.energon`: the adapter for Megatron-Energon (ffrfs/adapters/energon.py)."""

from ffrfs.adapters import import_as
from ffrfs.adapters.energon import *  # noqa: F403

import_as("ffrfs.energon", "ffrfs.adapters.energon")
