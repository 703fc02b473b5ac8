"""A model of RecordDataset, with lists: slow, plain, and written from tf.data's documentation."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any


def interleaved(files: list[list[Any]], cycle_length: int, block_length: int) -> list[Any]:
    """tf.data's interleave: a block of each open file in turn; a new file replaces an ended one."""
    waiting = iter(map(iter, files))
    open_files: list[Iterator[Any] | None] = [None] * cycle_length
    given: list[Any] = []
    for slot in itertools.cycle(range(cycle_length)):
        if open_files[slot] is None:
            open_files[slot] = next(waiting, None)
        file = open_files[slot]
        if file is None:
            if not any(open_files):
                return given
            continue
        block = list(itertools.islice(file, block_length))
        given += block
        if len(block) < block_length:
            open_files[slot] = None
    raise AssertionError("an endless loop has ended")


def apply(elements: list[Any], call: tuple[str, Any]) -> list[Any]:
    """Apply one call that does not change the order."""
    name, argument = call
    calls: dict[str, Callable[[], list[Any]]] = {
        "take": lambda: elements[:argument],
        "skip": lambda: elements[argument:],
        "shard": lambda: elements[argument[1] :: argument[0]],
        "batch": lambda: [elements[at : at + argument] for at in range(0, len(elements), argument)],
        "repeat": lambda: elements * argument,
        "map": lambda: [argument(element) for element in elements],
        "filter": lambda: [element for element in elements if argument(element)],
        "prefetch": lambda: elements,
    }
    return calls[name]()


def flat(element: Any) -> Iterator[bytes]:
    """Yield the records in nested batches."""
    if isinstance(element, bytes):
        yield element
    else:
        with contextlib.suppress(TypeError):
            for part in element:
                yield from flat(part)
