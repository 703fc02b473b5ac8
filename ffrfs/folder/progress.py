"""A progress bar of bytes and files.

Only bars are here, and only tqdm draws them; whether there is a terminal is the caller's
question.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias

from ffrfs.remote.url import is_url

# Called with files done, files in all, bytes done, bytes in all, ten times a second or more
# often. What there is in all is 0 where it is unknown.
Progress: TypeAlias = Callable[[int, int, int, int], object]

_TICK_S = 0.1

# As many as tqdm needs to be told for one bar, however low the terminal is.
_ROWS = 20
# Of a terminal that does not know its size: that of `script`, of some containers.
_COLUMNS = 80


class ProgressBar:
    """A Progress that is shown on stderr until the end of its `with` block.

    `file`: what is read or written; the last part of its name is shown. `unit`: what is
    counted besides bytes.
    """

    def __init__(self, file: str, shown: bool = True, unit: str = "files") -> None:
        name = file.partition("?")[0] if is_url(file) else file  # what follows may be a secret
        title = os.path.basename(os.path.normpath(name))
        # A terminal must not take a name for commands.
        self._title = "".join(char if char.isprintable() else "?" for char in title)
        self._shown = shown
        self._unit = unit

    def __enter__(self) -> Self:
        if not self._shown:
            return self
        from tqdm import tqdm

        class Bar(tqdm):  # type: ignore[misc] # has no types
            # No thread that looks after bars that stand still: it would outlive the bar, and
            # a caller that forks workers then is warned of threads.
            monitor_interval = 0

        self._bar = Bar(
            desc=self._title,
            unit="B",
            unit_scale=True,
            leave=False,
            ncols=_columns(),
            nrows=_ROWS,
            # Else tqdm takes the fastest stretch for a measure, and shows no slower one.
            miniters=0,
            mininterval=0,
        )
        self._due = time.monotonic() + _TICK_S  # tqdm has just drawn it
        return self

    def __call__(self, files: int, files_total: int, size: int, size_total: int) -> None:
        if not self._shown:
            return
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _TICK_S
        self._bar.total = size_total or None
        of = f" of {files_total:,}" if files_total else ""
        self._bar.set_postfix_str(f"{files:,}{of} {self._unit}", refresh=False)
        self._bar.update(size - self._bar.n)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown:
            self._bar.close()


def _columns() -> int | None:
    """As many as a line on stderr may have; None: no terminal, so any number.

    tqdm would take a terminal of unknown size, which says 0, for one without room.
    """
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal, or not even a file
        return None
    return (columns or _COLUMNS) - 1
