"""dump: writes a data set into one FFRecord file, or into a directory of them, in parallel.

Not here: writing one file (writer.py). Concurrency: a process of the default start method
writes each file; under "fork" it inherits the data set, else the data set is pickled.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from ffrfs.errors import PackError
from ffrfs.files.staged_file import staged_folder
from ffrfs.record.processes import check_end, interrupts_held, open_pool
from ffrfs.record.writer import FileWriter

if TYPE_CHECKING:
    from typing_extensions import Buffer

PROCESS_LIMIT = 16

T = TypeVar("T")


class Dataset(Protocol):
    def __getitem__(self, index: int, /) -> Buffer: ...
    def __len__(self) -> int: ...


def dump(
    dataset: Dataset, fname: str | os.PathLike[str], nfiles: int, verbose: bool = False
) -> None:
    """Write `dataset[0]`, `dataset[1]`, … (bytes-like) as records.

    nfiles == 1: into the file `fname`. Else into the directory `fname` (made if missing), as
    PART_00000.ffr, PART_00001.ffr, … of equally many records; warns if there are fewer than
    `nfiles`. They appear when all are written; an error of one of the processes is raised
    here, and then no file appears. Raises PackError if the directory holds other parts, which
    would stay: a reader would read them as well.
    """
    if nfiles < 1:
        raise ValueError(f"cannot write {nfiles} files")
    if nfiles == 1:
        _write(dataset, range(len(dataset)), os.fspath(fname), verbose)
        return
    parts = list(_parts(len(dataset), nfiles))
    if len(parts) < nfiles:
        warnings.warn(
            f"{os.fspath(fname)}: {len(dataset)} records make {len(parts)} files, not {nfiles}",
            stacklevel=2,
        )
    _dump_parts(dataset, Path(fname), parts, verbose)


def _parts(count: int, nfiles: int) -> Iterator[range]:
    size = max(1, -(-count // nfiles))
    for start in range(0, max(1, count), size):  # without records there is one empty file
        yield range(start, min(start + size, count))


def _dump_parts(dataset: Dataset, folder: Path, parts: list[range], verbose: bool) -> None:
    names = [f"PART_{number:05d}.ffr" for number in range(len(parts))]
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    stale = sorted(path.name for path in folder.glob("PART_*.ffr") if path.name not in names)
    if stale:
        raise PackError(
            f"{folder}: holds {stale[0]} of an earlier data set, which readers would take "
            "for a part of this one; remove it or choose another directory"
        )
    try:
        with staged_folder(str(folder), "dump", str(folder)) as staging:
            files = [os.path.join(staging, name) for name in names]
            _write_parallel(dataset, parts, files, verbose)
            for file, name in zip(files, names, strict=True):
                os.replace(file, folder / name)
    except BrokenProcessPool:
        raise PackError(f"{folder}: a process that wrote to it was killed; dump again") from None
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it is not empty if all went well
                folder.rmdir()


def _write_parallel(dataset: Dataset, parts: list[range], files: list[str], verbose: bool) -> None:
    with open_pool(min(PROCESS_LIMIT, len(parts)), _adopt, dataset) as executor:
        with interrupts_held():
            tasks = zip(parts, files, strict=True)
            futures = [executor.submit(_write_part, *task) for task in tasks]
        for future in _shown(as_completed(futures), len(futures), "files", verbose):
            future.result()


# In a process of the pool: the data set of its records.
_dataset: Dataset | None = None


def _adopt(dataset: Dataset) -> None:
    global _dataset  # noqa: PLW0603 - set once per process, before any part
    _dataset = dataset


def _write_part(indices: range, file: str) -> None:
    assert _dataset is not None
    _write(_dataset, indices, file, verbose=False)


def _write(dataset: Dataset, indices: range, file: str, verbose: bool) -> None:
    with FileWriter(file, len(indices)) as writer:
        for index in _shown(indices, len(indices), "records", verbose):
            check_end()
            writer.write_one(dataset[index])


def _shown(items: Iterable[T], count: int, unit: str, verbose: bool) -> Iterable[T]:
    if not verbose or find_spec("tqdm") is None:
        return items
    from tqdm import tqdm

    return cast(Iterable[T], tqdm(items, total=count, unit=f" {unit}"))
