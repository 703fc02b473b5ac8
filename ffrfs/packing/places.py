"""The places of packs: a file, or a directory of a set, which is whole or absent.

    data/part_00000.ffr, data/part_00001.ffr, …

Each pack can be read by itself; its index has the id of its set, its number and the number of
shards. A new set is written into a directory beside its own name, which is then renamed; shards
that are added are written into a directory inside the set's, and then moved.
Only a SIGKILL leaves the directory ".….partial" behind, or one of shards that are not all moved:
the next command that changes the set moves the rest.

Not here: places in a bucket (bucket_place.py), writing (pack.py).
Concurrency: place_of() and give() are for any thread; a set that is added to is locked against
another process.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from ffrfs.errors import PackError, naming
from ffrfs.files.closing import Closing, closing_fd
from ffrfs.files.leftovers import hold, is_at, remove_leftovers, take_lock
from ffrfs.files.own_folder import open_own, refused
from ffrfs.files.replacing import may_replace, not_empty, refuse_standard_output
from ffrfs.files.staged_file import staged_folder, sync_folder
from ffrfs.packing.sources.existing_set import ExistingSet, ShardOf
from ffrfs.packing.sources.folder_lister import FolderIdentity
from ffrfs.packing.sources.options import PackOptions

MANIFEST_NAME = ".ffrfs-manifest.jsonl"  # of a set that was made by a plan (ffrfs.cluster)
PRIVATE = 0o700  # of a directory in which a pack may still have too open permissions
_TURN_S = 0.02
_NAME_OF_MORE = "more"
# The directory of new shards, all whole, that are being moved. native/open/ knows the name.
_NAME_OF_WHOLE = ".ffrfs-added"
SHARD_NAME = re.compile(r"part_[0-9]{5,}\.ffr")

# Called with the number of bytes that were sent, and of all bytes.
Sent: TypeAlias = Callable[[int, int], object]


class Place(Closing):
    """A file, for one pack. Raises PackError if a file exists that must not be replaced."""

    existing: ExistingSet | None = None
    at_a_time: int | None = None  # None: there is room for any number of packs
    uploads = False  # whether finished packs are uploaded

    def __init__(self, path: str, options: PackOptions) -> None:
        self.path = path
        self.force = options.force  # replace files that have the name of a pack
        self.say: Callable[[str], object] = lambda _: None  # gets a line for each pack that is sent
        self._ends = contextlib.ExitStack()  # closed by close(), the last first

    @property
    def identity(self) -> FolderIdentity:
        """Return the identity of the directory that is written to."""
        return FolderIdentity.of(os.stat(os.path.dirname(os.path.realpath(self.path))))

    @property
    def spool(self) -> str:
        """Return a path beside which there is room for a copy of a pipe."""
        return self.path

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make packs in the block: they appear when it ends well, else none is left."""
        yield

    def shard(self, set_id: bytes, number: int, count: int) -> ShardOf | None:
        """Return the entry about its set in the index of pack `number` of `count`."""
        return None

    def place_of(self, number: int) -> str:
        """Return the path at which that pack is made."""
        return self.path

    def give(self, number: int, sent: Sent) -> None:
        """Take a finished pack; `sent` is called while its bytes are sent."""

    def close(self) -> None:
        self._ends.close()


class FilePlace(Place):
    def __init__(self, path: str, options: PackOptions) -> None:
        super().__init__(path, options)
        may_replace(path, options.force)


class SamePlace(Place):
    """The place of the pack that is read: the new pack has its owner and permissions at once.

    The pack is locked: a change after it was read would be lost.
    """

    def __init__(self, path: str, options: PackOptions) -> None:
        super().__init__(path, options)
        self._refuse_replaced = self._ends.enter_context(locked_pack(path))

    @contextmanager
    def writing(self) -> Iterator[None]:
        target = os.path.realpath(self.path)
        above, name = os.path.split(target)
        shown = os.path.dirname(self.path) or "."
        with staged_folder(above, name, shown, mode=PRIVATE) as staging:
            self._made = os.path.join(staging, name)
            yield
            copy_owner_and_mode(target, self._made)
            self._refuse_replaced()
            os.rename(self._made, target)
            sync_folder(above)

    def place_of(self, number: int) -> str:
        return self._made


class FolderPlace(Place):
    """The set in a directory, which exists if packs are appended.

    Raises PackError if the directory holds anything else, OSError.
    """

    def __init__(self, path: str, options: PackOptions) -> None:
        super().__init__(path, options)
        refuse_standard_output(path)
        self._folder = os.path.realpath(path)
        self._is_new = not os.path.lexists(self._folder)
        self._staging = ""
        lock = locked_set(path, mends=not options.dry_run)
        try:
            if options.append:
                _refuse_no_folder(path, self._folder)
                self._ends.enter_context(lock)
                self.existing = self._ends.enter_context(ExistingSet(path))
            elif not self._is_new:
                self._ends.enter_context(lock)
                remove_leftovers(self._folder, again=True)
                self._refuse_content()
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> FolderIdentity:
        within = os.path.dirname(self._folder) if self._is_new else self._folder
        return FolderIdentity.of(os.stat(within))

    @property
    def spool(self) -> str:
        return self._folder if self._is_new else os.path.join(self._folder, "spool")

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
        if self.existing is None:  # another command may have begun a set there
            self._refuse_content(but=os.path.basename(self._staging))
        add_shards(self._staging, self._folder)

    def _refuse_content(self, but: str = "") -> None:
        with os.scandir(self._folder) as entries:
            if any(entry.name != but for entry in entries):
                raise not_empty(self.path)


def copy_owner_and_mode(old: str, new: str) -> None:
    """Give the new pack the old one's owner and mode; in no case let further users read it."""
    info = os.stat(old)
    mode = stat.S_IMODE(info.st_mode)
    try:
        os.chown(new, info.st_uid, info.st_gid)
    except OSError:  # no right to, or a file system without owners
        mode &= ~stat.S_IRWXG  # its group is another one
    os.chmod(new, mode)


def add_shards(staging: str, folder: str) -> None:
    """Move all of a directory into the set in another, which is locked; all, or none.

    Raises PackError, OSError.
    """
    refuse_existing(os.listdir(staging), folder)
    os.rename(staging, os.path.join(folder, _NAME_OF_WHOLE))
    try:
        _move_whole(folder)
    except BaseException:
        _move_whole(folder)  # a signal came: a set that lacks shards cannot be opened
        raise


def mend_set(folder: str) -> None:
    """Move the shards that a killed command has begun to move. Raises PackError, OSError."""
    if os.path.lexists(os.path.join(folder, _NAME_OF_WHOLE)):
        with locked_set(folder):
            pass


def _move_whole(folder: str) -> None:
    added = os.path.join(folder, _NAME_OF_WHOLE)
    try:
        whole = open_own(added)
    except FileNotFoundError:
        return
    with closing_fd(whole):
        names = sorted(os.listdir(whole))
        if not all(map(SHARD_NAME.fullmatch, names)):
            raise refused(added)
        refuse_existing(names, folder)
        for name in names:
            with naming(place := os.path.join(folder, name)):
                os.rename(name, place, src_dir_fd=whole)
    os.rmdir(added)
    sync_folder(folder)


def refuse_existing(names: Sequence[str], folder: str) -> None:
    for name in names:
        if os.path.lexists(place := os.path.join(folder, name)):
            raise taken_by_other(place)


def taken_by_other(place: str) -> PackError:
    return PackError(f"{place}: exists already; nothing was added")


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
def locked_set(path: str, *, wait_s: float = 0, mends: bool = True) -> Iterator[None]:
    """Lock the set against other commands; if `mends`, finish the move of a killed one.

    Raises PackError if another command still has the lock after `wait_s`, OSError.
    """
    until = time.monotonic() + wait_s
    with closing_fd(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as fd:
        while not take_lock(fd):
            if time.monotonic() < until:
                time.sleep(_TURN_S)
                continue
            raise PackError(f"{path}: another process is adding to it; try again")
        if mends:
            _move_whole(path)
        yield


@contextmanager
def locked_pack(path: str) -> Iterator[Callable[[], None]]:
    """Lock a pack or set that will change. Raises PackError if another has the lock, OSError.

    Yields a function that raises PackError if others, without the lock, replaced or removed it.
    """
    place = os.path.realpath(path)

    def refuse_replaced() -> None:
        if not is_at(fd, place):
            raise PackError(f"{path}: was replaced meanwhile; nothing was changed")

    with closing_fd(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)) as fd:
        if not hold(fd, place):
            raise PackError(f"{path}: another process is changing it; try again")
        yield refuse_replaced


def shard_name(number: int) -> str:
    return f"part_{number:05}.ffr"
