"""The actions of `ffrfs cache`: list, check, remove and pin objects, while mounts use them.

It does not enforce a limit or fill blocks, and leaves blocks alone that another process is
filling.

Concurrency: one thread; processes that fill and evict meanwhile do no harm.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ffrfs.cache.directory import Store, open_usage
from ffrfs.cache.eviction import evict, evict_blocks, survey
from ffrfs.cache.files import Files
from ffrfs.cache.locks import is_locked, locked, try_lock
from ffrfs.cache.place import CachePlace
from ffrfs.cache.quota import count
from ffrfs.cache.state_file import USE_AT
from ffrfs.cache.usage import EVICTION_AT
from ffrfs.errors import CacheError
from ffrfs.printable import shown_name

_NAME_PART = re.compile(r"[0-9a-f]{6,64}")
_STAGED = re.compile(r"\.[0-9a-f]{64}\.state\.[0-9a-f]{16}\.partial")
_STAGED_S = 3600  # no process takes so long to make a state file
_EVICTION_S = 30.0
_BATCH = 4096


@dataclass(frozen=True)
class ObjectFacts:
    """An object. `cached`: bytes of the blocks present; `held`: disk space of its files."""

    name: str
    url: str
    size: int
    cached: int
    held: int
    blocks: int
    block_count: int
    pinned: bool
    in_use: bool
    used_s: float  # when a block was last read or filled, by time(); 0: never
    pin: str  # as the fetcher writes it; empty: it was too long


class Inventory:
    """A cache directory. Every method may raise CacheError."""

    def __init__(self, path: str) -> None:
        self.path = path
        with contextlib.ExitStack() as ends:
            self.place = CachePlace(path, make=False, shared=True)  # no reader gets bytes from it
            ends.callback(self.place.close)
            if not self.place.exists("usage"):
                raise CacheError.at(path, "not a cache directory of ffrfs")
            self._usage = open_usage(self.place)
            ends.callback(os.close, self._usage.fd)
            self._ends = ends.pop_all()
        self.store = Store(self.place)

    def close(self) -> None:
        self._ends.close()

    def objects(self) -> Iterator[ObjectFacts]:
        for name in self.store.names():
            with self.store.opened(name) as files:
                if files is not None:
                    yield _facts(name, files)

    def unreadable(self) -> Iterator[tuple[str, str]]:
        """Yield the names of objects that are damaged, or of other users, and the fault."""
        for name in self.store.names():
            if reason := self._reason(name):
                yield name, reason

    def find(self, wanted: Sequence[str]) -> list[ObjectFacts]:
        """Return objects by URL, or by the beginning of the name. Raises CacheError if absent."""
        everything = list(self.objects())
        found: dict[str, ObjectFacts] = {}
        for each in map(shown_name, wanted):  # the cache knows no signature
            is_name = bool(_NAME_PART.fullmatch(each))
            those = [
                one
                for one in everything
                if one.url == each or (is_name and one.name.startswith(each))
            ]
            if not those:
                raise CacheError.at(self.path, f"has no object {each}; `ffrfs cache ls` lists them")
            found.update((one.name, one) for one in those)
        return list(found.values())

    def remove(self, name: str) -> int:
        """Remove all blocks, and the files unless in use; return the number of bytes freed."""
        freed = 0
        with self._alone():
            self.place.unlink(self.place.relative(name, "pin"))
            with self.store.opened(name) as files:
                if files is None:
                    pass
                elif try_lock(files.state.fd, USE_AT):  # unused: its blocks go with the files
                    freed = files.size()
                    self.store.unlink(name)
                else:
                    freed = sum(evict_blocks(files, part) for part in files.present())
            self._usage.add(-freed)
        return freed

    def prune(self, size: int | None) -> int:
        """Remove the remains of killed processes, then the oldest blocks until `size` is held.

        Pinned objects stay. Return the number of bytes freed.
        """
        freed = self._remove_staged()
        with self._alone():
            before = self._usage.read()
            held = count(self.store)
            freed += max(before - held, 0)
            while size is not None and held > size:
                found = survey(self.store, _BATCH)
                gone = evict(self.store, found, held - size, found.unpinned_count)
                freed += gone
                if gone == 0:
                    break
                held = count(self.store)
            self._usage.change(lambda _: held)
        return freed

    def pin(self, name: str, pinned: bool) -> None:
        relative = self.place.relative(name, "pin")
        if pinned:
            os.close(self.place.open_file(relative, os.O_CREAT))
        else:
            self.place.unlink(relative)

    def _reason(self, name: str) -> str:
        """Return why an object cannot be read; "": it can, or another process has it locked."""
        try:
            with contextlib.ExitStack() as ends:
                self.store.open(name, ends)
        except FileNotFoundError:
            pass
        except CacheError as error:
            return str(error)
        except ValueError as error:
            return f"{self.place.shown(name, 'state')}: {error}; remove it and its data file"
        return ""

    def _remove_staged(self) -> int:
        """Remove unfinished state files, which remain on file systems without O_TMPFILE."""
        freed = 0
        for folder in self.place.folders():
            with contextlib.suppress(OSError), self.place.opened_folder(folder) as fd:
                freed += sum(_remove_old(fd, name) for name in os.listdir(fd))
        return freed

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with locked(self._usage.fd, EVICTION_AT, _EVICTION_S) as taken:
            if not taken:
                raise CacheError.at(self.path, "another process is removing blocks; try again")
            yield


def _facts(name: str, files: Files) -> ObjectFacts:
    state = files.state
    label, _ = state.read_header(name)
    blocks = used_us = 0
    for part in filter(len, files.present()):
        blocks += len(part)
        used_us = max(used_us, int(state.used(part).max()))
    return ObjectFacts(
        name=name,
        url=label.url,
        size=state.size,
        cached=files.size(),
        held=files.allocated(),
        blocks=blocks,
        block_count=state.block_count,
        pinned=files.pinned,
        in_use=is_locked(state.fd, USE_AT),
        used_s=used_us / 1e6,
        pin=label.pin,
    )


def _remove_old(folder: int, name: str) -> int:
    if not _STAGED.fullmatch(name):
        return 0
    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if time.time() - info.st_mtime < _STAGED_S:
        return 0
    os.unlink(name, dir_fd=folder)
    return info.st_blocks * 512
