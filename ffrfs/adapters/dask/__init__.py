"""Packs as a Dask bag. Only this room imports dask.

Not here: cutting packs into ranges and reading one (ffrfs.folder).
Concurrency: the client opens the packs once; each task opens its file itself.
"""

from __future__ import annotations

try:
    import dask.bag  # noqa: F401
except ImportError as error:
    if (error.name or "").partition(".")[0] != "dask":
        raise
    raise ModuleNotFoundError(
        "ffrfs.dask needs Dask; to install it: pip install 'ffrfs[dask]'", name="dask"
    ) from None

from ffrfs.adapters.dask.bag import from_packs

__all__ = ["from_packs"]
