"""Where packs appear: a file, or a directory of a set, which is whole or not there.

    data/part_00000.ffr, data/part_00001.ffr, …

Each pack can be read by itself; the index of each says which set it is of, its number and
how many there are. A new set is written into a directory beside its own name, which it then
gets; shards that are added are written into a directory inside the set's, and then moved.
Only a SIGKILL leaves the directory ".….partial" behind.

Not here: places in a bucket (bucket_place.py), who writes (pack.py).
Concurrency: place_of() and give() are for any thread; a set that is added to is locked against
another process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeAlias

from ffrfs.errors import PackError
from ffrfs.files.leftovers import take_lock
from ffrfs.files.replacing import may_replace, not_empty
from ffrfs.files.staged_file import staged_folder, sync_folder
from ffrfs.packing.sources.existing_set import ExistingSet, ShardOf
from ffrfs.packing.sources.folder_lister import FolderIdentity
from ffrfs.packing.sources.options import PackOptions

_NAME_OF_MORE = "more"

# Called with the bytes that were sent, and how many there are.
Sent: TypeAlias = Callable[[int, int], object]


class Place:
    """A file, for one pack. Raises PackError if something is there that must not be replaced."""

    existing: ExistingSet | None = None
    at_a_time: int | None = None  # packs that there is room for
    uploads = False  # packs that were made

    def __init__(self, path: str, options: PackOptions) -> None:
        self.path = path
        self.force = options.force  # replace what has the name of a pack

    @property
    def identity(self) -> FolderIdentity:
        """Of the directory that is written to."""
        return FolderIdentity.of(os.stat(os.path.dirname(os.path.realpath(self.path))))

    @property
    def spool(self) -> str:
        """A path beside which there is room for what cannot be read twice."""
        return self.path

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Packs are made now: at a good end they appear, else none is left."""
        yield

    def shard(self, set_id: bytes, number: int, count: int) -> ShardOf | None:
        """What pack `number` of `count` says of its set."""
        return None

    def place_of(self, number: int) -> str:
        """Where that pack is made."""
        return self.path

    def give(self, number: int, sent: Sent) -> None:
        """That pack was made; `sent` is called as bytes of it are sent, and of how many."""

    def close(self) -> None:
        if self.existing is not None:
            self.existing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FilePlace(Place):
    def __init__(self, path: str, options: PackOptions) -> None:
        super().__init__(path, options)
        may_replace(path, options.force)


class FolderPlace(Place):
    """The set in a directory; it is there already if packs are appended.

    Raises PackError if something else is there, OSError.
    """

    def __init__(self, path: str, options: PackOptions) -> None:
        super().__init__(path, options)
        self._folder = os.path.realpath(path)
        self._is_new = not os.path.lexists(self._folder)
        self._staging = ""
        self._lock = contextlib.ExitStack()
        try:
            if options.append:
                _refuse_no_folder(path, self._folder)
                self._lock.enter_context(locked_set(path))
                self.existing = ExistingSet(path)
            elif not self._is_new:
                self._refuse_content()
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> FolderIdentity:
        within = os.path.dirname(self._folder) if self._is_new else self._folder
        return FolderIdentity.of(os.stat(within))

    @contextmanager
    def writing(self) -> Iterator[None]:
        above, name = os.path.split(self._folder) if self._is_new else (self._folder, _NAME_OF_MORE)
        with staged_folder(above, name, self.path) as self._staging:
            yield
            self._publish()

    def shard(self, set_id: bytes, number: int, count: int) -> ShardOf:
        if self.existing is None:
            return set_id, number, count
        return self.existing.id, self.existing.count + number, self.existing.count + count

    def place_of(self, number: int) -> str:
        first = self.existing.count if self.existing else 0
        return os.path.join(self._staging, shard_name(first + number))

    def _publish(self) -> None:
        if self._is_new:
            os.rename(self._staging, self._folder)
            sync_folder(os.path.dirname(self._folder))
            return
        if self.existing is None:  # another command may have begun there
            self._refuse_content(but=os.path.basename(self._staging))
        add_shards(self._staging, self._folder)

    def _refuse_content(self, but: str = "") -> None:
        with os.scandir(self._folder) as entries:
            if any(entry.name != but for entry in entries):
                raise not_empty(self.path)

    def close(self) -> None:
        super().close()
        self._lock.close()


def add_shards(staging: str, folder: str) -> None:
    """Move all of a directory into the set in another, which is locked; all, or none.

    Raises PackError, OSError.
    """
    moved: list[str] = []
    try:
        for name in sorted(os.listdir(staging)):
            place = os.path.join(folder, name)
            if os.path.lexists(place):
                raise PackError(f"{place}: exists already; nothing was added")
            os.rename(os.path.join(staging, name), place)
            moved.append(place)
    except BaseException:
        for place in moved:
            os.unlink(place)
        raise
    sync_folder(folder)


def _refuse_no_folder(path: str, folder: str) -> None:
    if not os.path.lexists(folder):
        raise PackError(
            f"{path}: does not exist; make the set first: ffrfs pack --shards N SRC {path}"
        )
    if not os.path.isdir(folder):
        raise PackError(
            f"{path}: is a single file; --append adds to pack sets, which are directories of packs"
        )


@contextmanager
def locked_set(path: str) -> Iterator[None]:
    """Nothing else adds to the set meanwhile. Raises PackError if something does, OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not take_lock(fd):
            raise PackError(f"{path}: another process is adding to it; try again")
        yield
    finally:
        os.close(fd)


def shard_name(number: int) -> str:
    return f"part_{number:05}.ffr"
