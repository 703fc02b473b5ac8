"""A Ctrl-C at any line of chosen modules, for tests of what it leaves behind.

This raises KeyboardInterrupt, and sends no real signal.
"""

from __future__ import annotations

import itertools
import sys
from types import FrameType, ModuleType
from typing import Any


class Interruption:
    """In its block, raises KeyboardInterrupt after `step` lines have run in `modules`."""

    def __init__(self, step: int, *modules: ModuleType) -> None:
        self._left = itertools.count(step, -1)
        self._files = [module.__file__ for module in modules]

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line" and not next(self._left):
            raise KeyboardInterrupt
        return self._trace

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
