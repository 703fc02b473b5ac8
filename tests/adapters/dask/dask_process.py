"""Functions of the process that has a Dask cluster: it starts once, with two worker processes."""

from __future__ import annotations

import os
import tempfile
from types import SimpleNamespace
from typing import Any

import dask
from distributed import Client, LocalCluster

from ffrfs.dask import from_packs
from tests.adapters.other_process import numbers_after

__all__ = ["numbers_after"]  # the tests call it in this process

_PLACE = tempfile.TemporaryDirectory(prefix="ffrfs-dask-")
_OPEN: list[Client | LocalCluster] = []


def start() -> None:
    cluster = LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        local_directory=_PLACE.name,
    )
    _OPEN.extend([Client(cluster), cluster])  # from now on compute() uses this cluster


def stop() -> None:
    for one in _OPEN:
        one.close()
    _PLACE.cleanup()


def look(packs: str, **options: Any) -> None:
    """Start no task: errors must be raised before Dask begins."""
    from_packs(packs, **options)


def read(packs: str | list[str], **options: Any) -> SimpleNamespace:
    """Return the sorted rows, and the number of rows of each partition."""
    found = dask.compute(*from_packs(packs, **options).to_delayed())
    rows = sorted(row for rows in found for row in rows)
    return SimpleNamespace(rows=rows, partitions=[*map(len, found)])


def use(packs: str) -> tuple[int, int, list[tuple[str, bytes]]]:
    """Return the size of all files by a bag and by a persisted bag, and two items."""
    bag = from_packs(packs, npartitions=4)
    held = bag.persist()
    sizes = [one.starmap(lambda _, data: len(data)).sum().compute() for one in (bag, held)]
    return sizes[0], sizes[1], list(bag.take(2))


def without_cluster(packs: str) -> list[tuple[str, bytes]]:
    return sorted(from_packs(packs).compute(scheduler="synchronous"))


def keys(packs: str | list[str], **options: Any) -> list[str]:
    return [str(key) for key in from_packs(packs, **options).__dask_keys__()]


def workers_of(packs: str) -> set[int]:
    """Return the ids of the processes that read."""
    bag = from_packs(packs, npartitions=20)
    return {*bag.map_partitions(lambda rows: [os.getpid()]).compute()} - {os.getpid()}


def sizes_of(packs: str, **options: Any) -> list[int]:
    return from_packs(packs, **options).map(lambda row: len(row[1])).compute()
