"""`ffrfs.dask`: the adapter for Dask (ffrfs/adapters/dask)."""

from ffrfs.adapters import import_as
from ffrfs.adapters.dask import *  # noqa: F403

import_as("ffrfs.dask", "ffrfs.adapters.dask")
