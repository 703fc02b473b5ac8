"""Functions of the process that has Ray: it starts once, and pytest's own never imports Ray.

Each function runs there and returns plain values, as Ray's errors do not survive pickling.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
import ray.data
from ray.data.context import ShuffleStrategy

import ffrfs.ray
from ffrfs.errors import ChecksumError
from tests.adapters.other_process import numbers_after

__all__ = ["numbers_after"]  # the tests call it in this process

_PLACE = tempfile.TemporaryDirectory(prefix="ffrfs-ray-")  # short: socket paths have a limit


def start() -> None:
    # Otherwise Ray writes a token to the home directory.
    token = Path(_PLACE.name) / "token"
    token.touch(mode=0o600)
    token.write_text(secrets.token_hex(32))
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # as in tests/cluster/engines.py
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=500 << 20,
        _temp_dir=_PLACE.name,
        # Otherwise workers end after a second, and each new one imports everything again.
        _system_config={"idle_worker_killing_time_threshold_ms": 600_000},
    )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.shuffle_strategy = ShuffleStrategy.SORT_SHUFFLE_PULL_BASED  # no process just for sum()
    try:  # Ray Data waits without a limit for a process that does not start.
        ray.get(ray.remote(num_cpus=0)(lambda: None).remote(), timeout=120)
    except ray.exceptions.GetTimeoutError:
        for log in sorted(Path(_PLACE.name).glob("session_2*/logs/*.???")):
            print(log.name, *log.read_text(errors="replace").splitlines()[-20:], sep="\n")
        raise


def stop() -> None:
    ray.shutdown()
    _PLACE.cleanup()


def look(packs: str, **options: Any) -> None:
    """Start no task: errors must be raised before Ray begins."""
    ffrfs.ray.read_packs(packs, **options)


def read(packs: str | list[str], **options: Any) -> SimpleNamespace:
    """Return the sorted rows, the types of the columns, and Ray's row count before it reads."""
    found = ffrfs.ray.read_packs(packs, **options)
    schema = found.schema()
    columns = {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
    count = found.count()
    rows = sorted(tuple(row.values()) for row in found.take_all())
    return SimpleNamespace(rows=rows, columns=columns, count=count)


def use(packs: str) -> tuple[int, list[str], set[str]]:
    """Return the size of all files, the names of a few, and the NumPy types of their contents."""
    found = ffrfs.ray.read_packs(packs, num_cpus=1, concurrency=2)
    sizes = found.map(lambda row: {"size": len(row["data"])})
    batch = next(iter(found.iter_batches(batch_size=5, batch_format="numpy")))
    kinds = {type(data).__name__ for data in batch["data"]}
    return sum(row["size"] for row in sizes.iter_rows()), batch["path"].tolist(), kinds


def limited(packs: str, count: int) -> int:
    return len(ffrfs.ray.read_packs(packs).limit(count).take_all())


def error_of(packs: str) -> tuple[bool, str, str, int]:
    try:
        ffrfs.ray.read_packs(packs).take_all()
    except Exception as error:
        cause = error.cause  # type: ignore[attr-defined]
        return isinstance(error, ChecksumError), str(cause), cause.file, cause.record
    raise AssertionError("nothing was raised")


def blocks(packs: str) -> list[int]:
    """Return the number of rows of each block that a single task makes."""
    [task] = ffrfs.ray.PackDatasource(packs).get_read_tasks(1)
    return [len(table) for table in task()]


def is_same(packs: str, path: str) -> bool:
    """Return whether Ray reads the same bytes of a file as PackedFolder."""
    rows = ffrfs.ray.read_packs(packs, override_num_blocks=3).iter_rows()
    [data] = [row["data"] for row in rows if row["path"] == path]
    with ffrfs.PackedFolder(packs) as folder:
        return bool(folder[path] == data)


def input_files(packs: str, url: str) -> list[tuple[str, ...]]:
    """Return the input files that Ray gets for these packs at a URL."""
    source = ffrfs.ray.PackDatasource(packs)
    source._cutter.files[0] = source._cutter.files[0]._replace(path=url)
    return [task.metadata.input_files for task in source.get_read_tasks(1)]


def said_by(program: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(program, {})
    return said.getvalue()


def metadata(packs: str, **options: Any) -> list[tuple[int | None, int, tuple[str, ...]]]:
    """Return the metadata of four tasks before they read: rows, bytes, files."""
    tasks = ffrfs.ray.PackDatasource(packs, **options).get_read_tasks(4)
    found = [task.metadata for task in tasks]
    return [(one.num_rows, one.size_bytes, one.input_files) for one in found]
