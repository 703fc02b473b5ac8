"""read_each: reads many things at once, and finds out which of them cannot be read.

Concurrency: a function without state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ffrfs.errors import ChecksumError


class Bad:
    """Takes the place of a value that could not be read. Takes the arguments of `on_error`."""

    def __init__(self, error: Exception, *_: object) -> None:
        self.error = error


def _is_changed(error: Exception) -> bool:
    return isinstance(error, ChecksumError)


def read_each(
    keys: Sequence[Any],
    read: Callable[[Sequence[Any]], Sequence[Any]],
    is_bad: Callable[[Exception], bool] = _is_changed,
) -> list[Any]:
    """Return read(keys), with a Bad for each key whose error is_bad() accepts.

    By default a ChecksumError is bad. Keys that fail are read again in halves, until the bad keys
    are alone. Other errors are raised.
    """
    try:
        return [*read(keys)]
    except Exception as error:
        if not (keys and is_bad(error)):
            raise
        if len(keys) == 1:  # tracebacks would keep frames, and so the iterator of an epoch
            error.__context__ = error.__cause__ = None
            return [Bad(error.with_traceback(None))]
    half = len(keys) // 2
    return [*read_each(keys[:half], read, is_bad), *read_each(keys[half:], read, is_bad)]
