"""Functions of a module in a process of its own, by name: pytest's own imports no Dask, no Ray."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

# Calls a function by its name, with what it takes.
Run = Callable[..., Any]


def _call(module: str, name: str, *arguments: Any, **options: Any) -> Any:
    return getattr(importlib.import_module(module), name)(*arguments, **options)


@contextlib.contextmanager
def other_process(module: str, needed: str, how: str) -> Iterator[Run]:
    """It begins with start() of the module, and ends with stop(); skips if `needed` is not here."""
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"there is no {needed} here (pip install {how})")
    call = functools.partial(_call, module)
    spawn = multiprocessing.get_context("spawn")
    start = functools.partial(call, "start")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=start) as process:

        def run(name: str, *arguments: Any, **options: Any) -> Any:
            return process.submit(call, name, *arguments, **options).result()

        yield run
        run("stop")


def numbers_after(code: str, folder: str) -> dict[str, int]:
    """Run code in that directory; return its variables that are numbers."""
    os.chdir(folder)
    variables: dict[str, Any] = {}
    exec(code, variables)
    return {name: value for name, value in variables.items() if isinstance(value, int)}
