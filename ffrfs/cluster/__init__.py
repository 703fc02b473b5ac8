"""Packing, verifying and indexing by a cluster: tasks for any engine.

A plan says which files become which shard. Its tasks are pure: the same task gives the same
shard, wherever and however often it runs. The set is complete when its manifest is written.

Not here: the engines themselves (Dask, Ray, MPI), which are extras.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrfs.cluster.manifest import commit
    from ffrfs.cluster.packing import pack_by_plan
    from ffrfs.cluster.planned_set import Plan, run
    from ffrfs.cluster.planning import plan

__all__ = ["Plan", "commit", "pack_by_plan", "plan", "run"]

# Imported late, because each process of a pool imports this package, and few of its modules.
_PLACES = {
    "Plan": ("planned_set", "Plan"),
    "commit": ("manifest", "commit"),
    "pack_by_plan": ("packing", "pack_by_plan"),
    "plan": ("planning", "plan"),
    "run": ("planned_set", "run"),
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'ffrfs.cluster' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(importlib.import_module(f"ffrfs.cluster.{module}"), attribute)
