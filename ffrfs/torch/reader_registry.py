"""ReaderRegistry: which FileReaders an object holds, however deep.

Nothing is noted when an attribute is set; who asks, looks. Concurrency: of the object.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType

from ffrfs.record.reader import FileReader

# Hold nothing; there may be a million of them in a list of samples.
_ATOMS = (str, bytes, int, float, type(None))
# Their attributes are a program's, not an object's.
_PROGRAM = (type, FunctionType, ModuleType)


class ReaderRegistry:
    """Base of objects that can tell their FileReaders."""

    def ffreaders(self) -> list[FileReader]:
        """Return the FileReaders that this object holds, each once, in order of attributes.

        They are found in attributes, in lists, tuples, sets and the values of dicts, and in
        the attributes of what is there: another registry, a data set of torch's own
        that wraps one of ours, any object that has a `__dict__`.
        """
        found: list[FileReader] = []
        seen: set[int] = set()  # by id(): all that is walked through stays alive in `self`
        stack: list[Iterator[object]] = [iter([self])]  # not recursion: nothing is too deep
        while stack:
            for thing in stack[-1]:
                if isinstance(thing, _ATOMS) or id(thing) in seen:
                    continue
                seen.add(id(thing))
                if isinstance(thing, FileReader):
                    found.append(thing)
                else:
                    stack.append(_held(thing))
                    break
            else:
                stack.pop()
        return found


def _held(thing: object) -> Iterator[object]:
    parts: list[Iterable[object]] = []
    if isinstance(thing, dict):
        parts.append(thing.values())
    elif isinstance(thing, list | tuple | set | frozenset):
        parts.append(thing)
    if not isinstance(thing, _PROGRAM):
        parts.append(getattr(thing, "__dict__", {}).values())
    return itertools.chain.from_iterable(parts)
