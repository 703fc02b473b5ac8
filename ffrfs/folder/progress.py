"""A progress bar of bytes and files, for whoever wants one.

Only bars are here, and only tqdm draws them; whether there is a terminal is the caller's
question.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias

# Called with files done, files in all, bytes done, bytes in all; about ten times a second.
Progress: TypeAlias = Callable[[int, int, int, int], object]


class ProgressBar:
    """A Progress that is shown on stderr until the end of its `with` block.

    `file`: what is read or written; the last part of its name is shown.
    """

    def __init__(self, file: str, shown: bool = True) -> None:
        self._title = os.path.basename(os.path.normpath(file))
        self._shown = shown

    def __enter__(self) -> Self:
        from tqdm import tqdm

        self._bar = tqdm(
            desc=self._title,
            unit="B",
            unit_scale=True,
            disable=not self._shown,
            leave=False,
        )
        return self

    def __call__(self, files: int, files_total: int, size: int, size_total: int) -> None:
        self._bar.total = size_total
        self._bar.set_postfix_str(f"{files:,} of {files_total:,} files", refresh=False)
        self._bar.update(size - self._bar.n)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()
