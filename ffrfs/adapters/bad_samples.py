"""BadSamples: `on_error`, the treatment of samples whose bytes are damaged.

Damage is an error of ffrfs about bytes: ChecksumError, FormatError (a record that is not an
Example), or EIO. Errors of the job's loader or transform are raised.

Not here: reading (the data sets). Concurrency: a process each; copies in workers, forked or
spawned, write to one file in memory, which the kernel frees with the last copy, however the
processes end.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from ffrfs.errors import describe, is_damage
from ffrfs.folder.ranges import check_on_error
from ffrfs.folder.read_each import Bad, read_each

__all__ = ["Bad", "BadSamples", "OnError"]

OnError: TypeAlias = Literal["raise", "skip"] | Callable[[Exception, Any], Any]

_SHOWN_MAX = 10
_NOTES_SIZE_MAX = 1 << 20
_TRIED_MAX = 100

log = logging.getLogger(__name__)


class BadSamples:
    """`on_error`: "raise"; "skip", which leaves them out; or a function of the error and the path
    or number of the sample, which returns what takes its place.
    """

    def __init__(self, on_error: OnError) -> None:
        check_on_error(on_error)
        self.on_error = on_error
        self._notes = self._name = ""  # the path of the file, and its unique name
        self._seen = 0  # bytes of the file that were read
        self._count = 0  # samples in these bytes
        self._unreported: list[str] = []
        self._has_told = False
        if on_error != "raise":
            self._name = f"ffrfs-bad-samples-{os.urandom(8).hex()}"
            self._hold(os.memfd_create(self._name))

    def _hold(self, number: int) -> None:
        """Let the path lead to a descriptor of this process, which is closed with this object."""
        from multiprocessing.util import Finalize  # its processes run no weakref.finalize

        self._notes = f"/proc/{os.getpid()}/fd/{number}"
        Finalize(self, os.close, (number,), exitpriority=0)

    def __deepcopy__(self, memo: dict[int, Any]) -> BadSamples:
        return BadSamples(copy.deepcopy(self.on_error, memo))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._notes:
            return
        try:
            if self._is_there():
                self._hold(os.open(self._notes, os.O_RDONLY))  # the original may end before this
                return
        except OSError:  # the original has just ended
            pass
        self.__init__(self.on_error)  # type: ignore[misc]

    def _is_there(self) -> bool:
        """Return whether the path still leads to the file: process numbers are reused."""
        try:
            return os.readlink(self._notes) == f"/memfd:{self._name} (deleted)"
        except OSError:
            return False

    def take(self, keys: Sequence[Any], read: Callable[[Sequence[Any]], list[Any]]) -> list[Any]:
        """Return read(keys), with a Bad for each key that cannot be read."""
        return read(keys) if self.on_error == "raise" else read_each(keys, read, is_damage)

    def items(
        self,
        numbers: Sequence[int],
        names: Sequence[object],
        read: Callable[[Sequence[int]], list[Any]],
        make: Callable[[int, Any], Any],
    ) -> list[Any]:
        """Return the samples for numbers of `names`: the results of `make`, without those left
        out.

        If none is left, the next good sample takes their place; if there is none, the error of
        the first is raised. Errors of `make` are always raised.
        """
        values = self.take(numbers, read)
        found = self.settle(numbers, values, names.__getitem__, make)
        for step in range(1, min(len(names), _TRIED_MAX) if numbers else 0):
            if found:
                break
            following = [(numbers[-1] + step) % len(names)]
            read_next = self.take(following, read)
            found = self.settle(following, read_next, names.__getitem__, make)
        if numbers and not found:
            raise values.pop(0).error
        return found

    def settle(
        self,
        keys: Sequence[Any],
        values: Sequence[Any],
        name: Callable[[Any], object],
        make: Callable[[Any, Any], Any] | None = None,
    ) -> list[Any]:
        """Return what `make` makes of the values; each Bad is left out, or replaced, and noted."""
        settled = []
        for key, value in zip(keys, values, strict=True):
            if not isinstance(value, Bad):
                settled.append(value if make is None else make(key, value))
                continue
            self._note(value.error)
            if callable(self.on_error):
                settled.append(self.on_error(value.error, name(key)))
        return settled

    def _note(self, error: Exception) -> None:
        if not self._has_told:
            self._has_told = True
            log.warning("ffrfs: a sample could not be read: %s", describe(error))
        try:
            if self._is_there():  # else the process that made the data set has ended
                with open(self._notes, "ab", buffering=0) as file:
                    if file.tell() < _NOTES_SIZE_MAX:
                        file.write(os.fsencode(describe(error)) + b"\n")
        except OSError:  # memory is full
            log.debug("not noted", exc_info=True)

    def count(self) -> int:
        """Return how many bad samples were noted in all workers since the beginning."""
        if not self._is_there():  # nothing is noted
            return self._count
        with open(self._notes, "rb") as file:
            file.seek(self._seen)
            text = file.read()
        self._seen += len(text)
        lines = os.fsdecode(text).splitlines()
        self._unreported += lines
        self._count += len(lines)
        return self._count

    def report(self) -> str | None:
        """Return a line about the bad samples since the last report, in all workers, or None."""
        self.count()
        lines, self._unreported = self._unreported, []
        if not lines:
            return None
        shown = list(dict.fromkeys(lines))
        more = f" (and {len(shown) - _SHOWN_MAX:,} more)" if len(shown) > _SHOWN_MAX else ""
        count = f"{len(lines):,} samples" if len(lines) > 1 else "1 sample"
        least = "at least " if self._seen >= _NOTES_SIZE_MAX else ""
        return f"{least}{count} could not be read: {'; '.join(shown[:_SHOWN_MAX])}{more}"
