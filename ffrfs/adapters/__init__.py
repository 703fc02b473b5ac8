"""Adapters: ffrfs for PyTorch, Ray, Dask, fsspec …, and for scripts written for other libraries.

Each is a package or a file of its own, and needs its library only when it is imported.
Users import them as `ffrfs.torch`, `ffrfs.ray` and so on.
"""

from __future__ import annotations

import sys


def import_as(name: str, package: str) -> None:
    """Let the imported `package` and its modules also have the name `name`.

    Both names give the same objects, so pickles that have either name can be read.
    """
    for module in [*sys.modules]:
        if module == package or module.startswith(f"{package}."):
            sys.modules[name + module.removeprefix(package)] = sys.modules[module]
