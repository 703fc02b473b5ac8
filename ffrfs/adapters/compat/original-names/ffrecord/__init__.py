"""`ffrecord`, with the API of HFAiLab/ffrecord 1.4.0, over ffrfs (docs/compatibility.md).

Modules are loaded on first use: `ffrecord.torch` imports torch, the others do not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrecord import fileio as fileio
    from ffrecord import package as package
    from ffrecord import torch as torch
    from ffrecord import utils as utils
    from ffrecord.fileio import FileReader, FileWriter, checkFsAlign
    from ffrecord.package import PackedFolder, pack_folder

__version__ = "1.4.0"  # the version of the API

__all__ = ["FileReader", "FileWriter", "PackedFolder", "checkFsAlign", "pack_folder"]

_MODULES = ("fileio", "package", "torch", "utils")
_MODULE_OF = {
    "FileReader": "fileio",
    "FileWriter": "fileio",
    "PackedFolder": "package",
    "checkFsAlign": "fileio",
    "pack_folder": "package",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"ffrecord.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'ffrecord' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ffrecord.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__version__"})
