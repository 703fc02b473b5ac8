"""A progress bar of bytes and files.

Without the package tqdm, of the extra `terminal`, nothing is shown.
Not here: whether stderr is a terminal, which the caller decides.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Self, TypeAlias

from ffrfs.printable import printable
from ffrfs.remote.url import is_url

# Called with files done, files in all, bytes done, bytes in all, ten times a second or more
# often. A total is 0 if it is unknown.
Progress: TypeAlias = Callable[[int, int, int, int], object]

_TICK_S = 0.1

# tqdm needs this number to draw one bar, however few rows the terminal has.
_ROWS = 20
# For a terminal of unknown size, as that of `script`, or of some containers.
_COLUMNS = 80


class ProgressBar:
    """A Progress that is shown on stderr until the end of its `with` block.

    `file`: the file that is read or written; the bar shows its last part. `unit`: the name of
    the items that are counted besides bytes.
    """

    def __init__(self, file: str, shown: bool = True, unit: str = "files") -> None:
        name = file.partition("?")[0] if is_url(file) else file  # a query may be a secret
        title = os.path.basename(os.path.normpath(name))
        # Control characters in a name must not reach the terminal.
        self._title = "".join(char if char.isprintable() else "?" for char in title)
        self._shown = shown and find_spec("tqdm") is not None
        self._unit = unit

    @property
    def progress(self) -> Progress | None:
        """Itself, or None if no bar is shown: then callers need not count the totals."""
        return self if self._shown else None

    def __enter__(self) -> Self:
        if not self._shown:
            return self
        from tqdm import tqdm

        class Bar(tqdm):  # type: ignore[misc] # has no types
            # tqdm's monitor thread would outlive the bar, and a caller that forks workers then
            # gets a warning about threads.
            monitor_interval = 0

        self._bar = Bar(
            desc=self._title,
            unit="B",
            unit_scale=True,
            leave=False,
            ncols=_columns(),
            nrows=_ROWS,
            # Otherwise tqdm adapts to the fastest phase, and rarely draws in slower ones.
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

    def clear(self) -> None:
        """Take the bar off the terminal until the next call, so that a line can be printed."""
        if self._shown:
            self._bar.clear()

    def say(self, text: str) -> None:
        """Show a line above the bar; nothing, if the bar is not shown."""
        if self._shown:
            self._bar.write(printable(text), file=sys.stderr)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.close()


def _columns() -> int | None:
    """Return the usable columns of a line on stderr; None without a terminal.

    tqdm would treat a terminal of unknown size, which reports 0, as one without room.
    """
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):  # stderr is no terminal, or no file at all
        return None
    return (columns or _COLUMNS) - 1
