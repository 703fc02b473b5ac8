"""Packs as a Ray Data datasource: the only room that imports ray.

Not here: cutting packs into ranges and reading one (ffrfs.dataset).
Concurrency: the driver looks at the packs once; each read task opens its file itself.
"""

from __future__ import annotations

try:
    import ray.data  # noqa: F401
except ImportError as error:
    # Ray Data asks for pyarrow and pandas itself.
    if (error.name or "").partition(".")[0] not in ("ray", "pyarrow", "pandas"):
        raise
    raise ModuleNotFoundError(
        "ffrfs.ray needs Ray Data; to install it: pip install 'ffrfs[ray]'", name=error.name
    ) from None

from ffrfs.ray.datasource import PackDatasource, read_packs

__all__ = ["PackDatasource", "read_packs"]
