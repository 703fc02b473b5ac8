"""Packs as a Ray Data datasource. Only this room imports ray.

Not here: cutting packs into ranges and reading one (ffrfs.folder).
Concurrency: the driver opens the packs once; each read task opens its file itself.
"""

from __future__ import annotations

from ffrfs.errors import MissingPackageError

try:
    import ray.data  # noqa: F401
except ImportError as error:
    # Ray Data itself imports pyarrow and pandas.
    if (error.name or "").partition(".")[0] not in ("ray", "pyarrow", "pandas"):
        raise
    raise MissingPackageError.of("ffrfs.ray needs Ray Data", "ray") from None

from ffrfs.adapters.ray.datasource import PackDatasource, read_packs

__all__ = ["PackDatasource", "read_packs"]
