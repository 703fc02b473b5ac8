"""Packs as a Dask bag. Only this room imports dask.

Not here: cutting packs into ranges and reading one (ffrfs.folder).
Concurrency: the client opens the packs once; each task opens its file itself.
"""

from __future__ import annotations

from ffrfs.errors import MissingPackageError

with MissingPackageError.instead("dask", "ffrfs.dask needs Dask", "dask"):
    import dask.bag  # noqa: F401

from ffrfs.adapters.dask.bag import from_packs

__all__ = ["from_packs"]
