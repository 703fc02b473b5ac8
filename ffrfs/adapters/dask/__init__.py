"""Packs as a Dask bag. Only this room imports dask.

Not here: cutting packs into ranges and reading one (ffrfs.folder).
Concurrency: the client opens the packs once; each task opens its file itself.
"""

from __future__ import annotations

from ffrfs.errors import MissingPackageError

try:
    import dask.bag  # noqa: F401
except ImportError as error:
    if (error.name or "").partition(".")[0] != "dask":
        raise
    raise MissingPackageError.of("ffrfs.dask needs Dask", "dask") from None

from ffrfs.adapters.dask.bag import from_packs

__all__ = ["from_packs"]
