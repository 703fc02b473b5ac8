"""ReaderRegistry: finds the FileReaders of an object, at any depth.

Setting an attribute records nothing; ffreaders() searches. Concurrency: that of the object.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType

from ffrfs.record.reader import FileReader

# These contain nothing; a list of samples may have a million of them.
_ATOMS = (str, bytes, int, float, type(None))
# The attributes of these belong to the program, not to an object.
_PROGRAM = (type, FunctionType, ModuleType)


class ReaderRegistry:
    """Base of objects that can list their FileReaders."""

    def ffreaders(self) -> list[FileReader]:
        """Return the FileReaders that this object holds, each once, in order of attributes.

        They are found in attributes, in lists, tuples, sets and the values of dicts, and in
        the attributes of the objects there: another registry, a data set of torch's own
        that wraps one of ours, any object that has a `__dict__`.
        """
        found: list[FileReader] = []
        seen: set[int] = set()  # by id(): `self` keeps all visited objects alive
        stack: list[Iterator[object]] = [iter([self])]  # no recursion, so any depth works
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
