"""Runs functions of a module in another process: pytest's own imports neither Dask nor Ray."""

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

# Calls a function by its name, with these arguments.
Run = Callable[..., Any]


def _call(module: str, name: str, *arguments: Any, **options: Any) -> Any:
    return getattr(importlib.import_module(module), name)(*arguments, **options)


@contextlib.contextmanager
def other_process(module: str, needed: str, how: str) -> Iterator[Run]:
    """Call start() of the module first, and stop() last; skip if `needed` is not installed."""
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
