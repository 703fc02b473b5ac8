"""A folder of packs that are one set: written as a whole, or added to.

    data/part_00000.ffr, data/part_00001.ffr, …

Each pack can be read by itself; the index of each says which set it is of, its number and
how many there are. A new set is written into a folder beside its own name, which it then
gets; shards that are added are written into a folder inside the set's, and then moved.
So a set is complete, or is not there; only a SIGKILL at the wrong moment leaves the folder
".….partial" behind.

Not here: who writes the packs (shard_processes.py), what the set holds already (existing.py).
Concurrency: one thread; a set that is added to is locked against another process.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from functools import partial
from typing import Self

from ffrfs._native import PackIndex
from ffrfs.errors import PackError
from ffrfs.folder.contents import Contents, Tick
from ffrfs.folder.existing import Existing
from ffrfs.folder.pack_file import Run, write_pack
from ffrfs.folder.shard_processes import Task, run_in_turn, run_side_by_side
from ffrfs.folder.source import FolderIdentity

_SUFFIX = ".ffr"
_ID_SIZE = 16
_NAME_OF_MORE = "more"
# So many bytes of the name go into the staging name that it stays below NAME_MAX.
_NAME_PART_SIZE = 200
# Of files whose paths are in memory at a time.
_BATCH_COUNT = 4096


class ShardSet:
    """The set in the folder `path`; it is there already if `append`.

    Raises PackError if something else is there, OSError.
    """

    def __init__(self, path: str, *, append: bool) -> None:
        self.path = path
        self.existing: Existing | None = None
        self._folder = os.path.realpath(path)
        self._id: bytes | None = None
        self._first_number = 0
        self._lock: int | None = None
        try:
            self._is_new = not os.path.lexists(self._folder)
            if append:
                self._open()
            elif not self._is_new:
                self._refuse_content()
            # The folder that will be written to.
            within = os.path.dirname(self._folder) if self._is_new else self._folder
            self.identity = FolderIdentity.of(os.stat(within))
        except BaseException:
            self.close()
            raise

    def write(
        self,
        contents: Contents,
        runs: list[Run],
        jobs: int,
        tick: Tick,
        *,
        reproducible: bool = False,
    ) -> None:
        """Write a pack of each run, all of them or none. Raises PackError, OSError."""
        if self._id is None:
            self._id = _id_of(contents, runs) if reproducible else secrets.token_bytes(_ID_SIZE)
        staging = self._make_staging()
        try:
            with self._naming(staging):
                self._run(self._tasks(staging, contents, runs), staging, contents, jobs, tick)
                self._publish(staging)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _tasks(self, staging: str, contents: Contents, runs: list[Run]) -> list[Task]:
        assert self._id is not None
        tasks = []
        for number, run in enumerate(runs, self._first_number):
            path = os.path.join(staging, f"part_{number:05}{_SUFFIX}")
            write = partial(
                write_pack,
                contents,
                path,
                run,
                rest=number == self._first_number,
                shard=(self._id, number, self._first_number + len(runs)),
            )
            tasks.append(Task(path, write))
        return tasks

    def _run(
        self, tasks: list[Task], staging: str, contents: Contents, jobs: int, tick: Tick
    ) -> None:
        if contents.is_stream:
            run_in_turn(tasks, tick)
        else:
            orphaned = partial(shutil.rmtree, staging, ignore_errors=True)
            run_side_by_side(tasks, jobs, tick, orphaned)

    def _open(self) -> None:
        """Take over the set that is there, to add to it."""
        self._lock = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PackError(f"{self.path}: another process is adding to it; try again") from None
        except OSError:
            pass  # a file system without locks
        packs = [
            os.path.join(self.path, name)
            for name in sorted(os.listdir(self._folder))
            if name.endswith(_SUFFIX) and not name.startswith(".")
        ]
        if not packs:
            raise PackError(f"{self.path}: holds no packs to add to; leave out --append")
        self._id, self._first_number = _identity_of(packs)
        self.existing = Existing(packs)

    def _refuse_content(self) -> None:
        with os.scandir(self._folder) as entries:
            if any(entries):
                raise PackError(
                    f"{self.path}: is not empty; write the shards elsewhere, or add to a set "
                    "with --append"
                )

    def _make_staging(self) -> str:
        above, name = os.path.split(self._folder) if self._is_new else (self._folder, _NAME_OF_MORE)
        part = os.fsdecode(os.fsencode(name)[:_NAME_PART_SIZE])
        staging = os.path.join(above, f".{part}.{secrets.token_hex(8)}.partial")
        with self._naming(staging):
            os.mkdir(staging)
        return staging

    def _publish(self, staging: str) -> None:
        if self._is_new:
            os.rename(staging, self._folder)
            _sync(os.path.dirname(self._folder))
            return
        moved: list[str] = []
        try:
            for name in sorted(os.listdir(staging)):
                place = os.path.join(self._folder, name)
                if os.path.lexists(place):
                    raise PackError(f"{place}: is there already; nothing was added")
                os.rename(os.path.join(staging, name), place)
                moved.append(place)
        except BaseException:
            for place in moved:
                os.unlink(place)
            raise
        _sync(self._folder)

    @contextlib.contextmanager
    def _naming(self, staging: str) -> Iterator[None]:
        """Name the set's folder in errors, not the one where it is being written."""
        try:
            yield
        except PackError as error:
            raise PackError(str(error).replace(staging, self.path)) from None
        except OSError as error:
            if not isinstance(error.filename, (str, bytes)):
                raise
            file = os.fsdecode(error.filename).replace(staging, self.path)
            raise OSError(error.errno, error.strerror, file) from None

    def close(self) -> None:
        if self.existing is not None:
            self.existing.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _identity_of(packs: list[str]) -> tuple[bytes, int]:
    """Return the id of the set that `packs` are, and how many it has."""
    numbers = []
    ids = set()
    for pack in packs:
        shard = PackIndex(os.fsencode(pack)).shard
        if shard is None:
            raise PackError(
                f"{pack}: is no shard of a set; only to what was packed in shards can be added"
            )
        ids.add(shard[0])
        numbers.append(shard[1])
        if len(ids) > 1:
            raise PackError(f"{pack}: is of another set than {packs[0]}; keep them apart")
    missing = sorted(set(range(len(packs))).difference(numbers))
    if missing:
        raise PackError(
            f"{os.path.dirname(packs[0])}: shard {missing[0]} of the set is missing; bring it back"
        )
    return ids.pop(), len(packs)


def _id_of(contents: Contents, runs: list[Run]) -> bytes:
    """Return an id that the same list, in the same packs, always has."""
    digest = hashlib.sha256(repr(runs).encode())
    listed = contents.entries
    sizes = listed.sizes()
    for first in range(0, listed.record_count, _BATCH_COUNT):
        files = listed.files(first, min(_BATCH_COUNT, listed.record_count - first))
        digest.update(b"\0".join(listed.paths(files)))
        digest.update(sizes[files].tobytes())
    return digest.digest()[:_ID_SIZE]


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system that does not sync folders
            os.fsync(fd)
    finally:
        os.close(fd)
