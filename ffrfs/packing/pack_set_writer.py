"""A directory of packs that are one set: written as a whole, or added to.

    data/part_00000.ffr, data/part_00001.ffr, …

Each pack can be read by itself; the index of each says which set it is of, its number and
how many there are. A new set is written into a directory beside its own name, which it then
gets; shards that are added are written into a directory inside the set's, and then moved.
So a set is complete, or is not there; only a SIGKILL leaves the directory ".….partial" behind.

Not here: which threads write the packs (shard_threads.py), what the set holds already
(existing.py). Concurrency: one thread; a set that is added to is locked against another
process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from functools import partial
from typing import Self

from ffrfs._native import Pack, folder_files
from ffrfs.errors import PackError
from ffrfs.files.staged_file import staged_folder, sync_folder
from ffrfs.packing.pack_file import Run, ShardOf, write_pack
from ffrfs.packing.shard_threads import Write, write_in_turn, write_side_by_side
from ffrfs.packing.sources.contents import Contents, Tick
from ffrfs.packing.sources.existing_set import ExistingSet
from ffrfs.packing.sources.source import FolderIdentity

_SUFFIX = ".ffr"
_NAME_OF_MORE = "more"


class PackSetWriter:
    """The set in the directory `path`; it is there already if `append`.

    Raises PackError if something else is there, OSError.
    """

    def __init__(self, path: str, *, append: bool) -> None:
        self.path = path
        self.existing: ExistingSet | None = None
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
            # The directory that will be written to.
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
        set_id: bytes,
    ) -> None:
        """Write a pack of each run, all of them or none. Raises PackError, OSError."""
        if self._id is None:
            self._id = set_id
        above, name = os.path.split(self._folder) if self._is_new else (self._folder, _NAME_OF_MORE)
        with staged_folder(above, name, self.path) as staging:
            packs = self._packs(staging, contents, runs)
            if contents.is_stream:
                write_in_turn(packs, 1, tick)
            else:
                write_side_by_side(packs, jobs, tick)
            self._publish(staging)

    def _packs(self, staging: str, contents: Contents, runs: list[Run]) -> list[Write]:
        assert self._id is not None
        return [
            partial(
                write_pack,
                contents,
                os.path.join(staging, shard_name(number)),
                run,
                shard=(self._id, number, self._first_number + len(runs)),
            )
            for number, run in enumerate(runs, self._first_number)
        ]

    def _open(self) -> None:
        """Take over the set that is there, to add to it."""
        self._lock = self._opened_folder()
        lock_set(self._lock, self.path)
        packs = [os.fsdecode(pack) for pack in folder_files(os.fsencode(self.path))[0]]
        if not packs:
            raise PackError(f"{self.path}: holds no packs to add to; leave out --append")
        shards = [Pack(os.fsencode(pack)).shard for pack in packs]
        self._id, self._first_number = identity_of(packs, shards)
        self.existing = ExistingSet(packs)

    def _opened_folder(self) -> int:
        try:
            return os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise PackError(
                f"{self.path}: does not exist; make the set first: ffrfs pack --shards N SRC "
                f"{self.path}"
            ) from None
        except NotADirectoryError:
            raise PackError(
                f"{self.path}: is a single file; --append adds to pack sets, which are directories "
                "of packs"
            ) from None

    def _refuse_content(self, but: str = "") -> None:
        with os.scandir(self._folder) as entries:
            if any(entry.name != but for entry in entries):
                raise PackError(
                    f"{self.path}: is not empty; write the shards elsewhere, or add to a set "
                    "with --append"
                )

    def _publish(self, staging: str) -> None:
        if self._is_new:
            os.rename(staging, self._folder)
            sync_folder(os.path.dirname(self._folder))
            return
        if self.existing is None:  # another command may have begun there
            self._refuse_content(but=os.path.basename(staging))
        moved: list[str] = []
        try:
            for name in sorted(os.listdir(staging)):
                place = os.path.join(self._folder, name)
                if os.path.lexists(place):
                    raise PackError(f"{place}: exists already; nothing was added")
                os.rename(os.path.join(staging, name), place)
                moved.append(place)
        except BaseException:
            for place in moved:
                os.unlink(place)
            raise
        sync_folder(self._folder)

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


@contextlib.contextmanager
def locked_set(path: str) -> Iterator[None]:
    """Nothing else adds to the set meanwhile. Raises PackError if something does, OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lock_set(fd, path)
        yield
    finally:
        os.close(fd)


def lock_set(fd: int, path: str) -> None:
    """Lock the directory that is open as `fd`, until that is closed. Raises PackError."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PackError(f"{path}: another process is adding to it; try again") from None
    except OSError:
        pass  # a file system without locks


def shard_name(number: int) -> str:
    return f"part_{number:05}{_SUFFIX}"


def identity_of(packs: list[str], shards: list[ShardOf | None]) -> tuple[bytes, int]:
    """Return the id of the set that `packs` are, and how many it has; `shards`: what each says.

    Raises PackError if they are no set, or some are missing.
    """
    numbers = []
    ids = set()
    for pack, shard in zip(packs, shards, strict=True):
        if shard is None:
            raise PackError(
                f"{pack}: is not a shard of a pack set; --append adds to pack sets only"
            )
        ids.add(shard[0])
        numbers.append(shard[1])
        if len(ids) > 1:
            raise PackError(f"{pack}: belongs to another set than {packs[0]}; keep them apart")
    missing = sorted(set(range(len(packs))).difference(numbers))
    if missing:
        raise PackError(
            f"{os.path.dirname(packs[0])}: shard {missing[0]} of the set is missing; restore it"
        )
    return ids.pop(), len(packs)
