# ruff: noqa: ANN401 - objects of torch and of the import system
"""Runs at the start of each Python process of a program that `ffrfs run` has started.

This directory is the first in PYTHONPATH. Nothing of ffrfs or torch is imported here: when the
program has imported torch's DataLoader, the first iteration of a DataLoader calls hint_all().
Another sitecustomize of the program's Python still runs. Any version of Python 3 may run this file,
and every process waits for it; so it uses only modules that each Python has imported by now.
"""

import os
import sys

TYPE_CHECKING = False  # importing typing takes time
if TYPE_CHECKING:
    from typing import Any

_MODULE = "torch.utils.data.dataloader"


class _Finder:
    """Sees the import of torch's module, and leaves all others to those behind it."""

    @classmethod
    def find_spec(cls, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name != _MODULE:
            return None
        sys.meta_path.remove(cls)
        spec = _found(name, path)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def execute_and_prepare(module: "Any") -> None:
            execute(module)
            _prepare(module)

        spec.loader.exec_module = execute_and_prepare
        return spec


def _found(name: str, path: "Any") -> "Any":
    specs = (
        finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec")
    )
    return next((spec for spec in specs if spec is not None), None)


def _prepare(module: "Any") -> None:
    base = getattr(module, "_BaseDataLoaderIter", None)
    if base is None:
        return
    make = base.__init__

    def first(self: "Any", *arguments: "Any", **more: "Any") -> None:
        if base.__init__ is first:
            base.__init__ = make
            _hint_all()
        base.__init__(self, *arguments, **more)

    base.__init__ = first


def _hint_all() -> None:
    import logging

    try:
        from ffrfs.adapters.torch.hinted_loader import hint_all

        hint_all(int(os.environ["FFRFS_RUN_AHEAD"]))
    except Exception as error:
        why = str(error)
        if isinstance(error, ImportError) and str(error.name).startswith("ffrfs"):
            why = f"{sys.executable} has no ffrfs of this version: install it there"
        logging.getLogger("ffrfs").warning("ffrfs: nothing is read ahead: %s", why)


def _run_hidden() -> None:
    """Run the sitecustomize that is behind this one in the path."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [each for each in sys.path if os.path.abspath(each or ".") != here]
    spec = _found("sitecustomize", None)
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = type(sys)("sitecustomize")
        module.__file__, module.__spec__, module.__loader__ = spec.origin, spec, spec.loader
        spec.loader.exec_module(module)


sys.meta_path.insert(0, _Finder)  # first, because the hidden one may fail
_run_hidden()
