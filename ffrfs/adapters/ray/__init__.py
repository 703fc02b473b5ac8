"""Packs as a Ray Data datasource. Only this room imports ray.

Not here: cutting packs into ranges and reading one (ffrfs.folder).
Concurrency: the driver opens the packs once; each read task opens its file itself.
"""

from __future__ import annotations

from ffrfs.errors import MissingPackageError

# Ray Data itself imports pyarrow and pandas.
with MissingPackageError.instead("ray pyarrow pandas", "ffrfs.ray needs Ray Data", "ray"):
    import ray.data  # noqa: F401

from ffrfs.adapters.ray.datasource import PackDatasource, read_packs

__all__ = ["PackDatasource", "read_packs"]
