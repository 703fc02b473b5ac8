"""ffrfs: a data-set folder packed into one verified FFRecord file, read or mounted.

The names of HFAiLab/ffrecord's API are kept, so `import ffrfs as ffrecord` runs a script
that was written for it. Nothing is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrfs import errors
    from ffrfs.folder.packed import PackedFolder
    from ffrfs.mount.client.hints import prefetch
    from ffrfs.mount.client.mounted import mounted
    from ffrfs.packing.pack import pack_archive, pack_folder
    from ffrfs.record.alignment import checkFsAlign
    from ffrfs.record.dump import dump
    from ffrfs.record.reader import FileReader
    from ffrfs.record.writer import FileWriter

__version__ = "0.1.0"

__all__ = [
    "FileReader",
    "FileWriter",
    "PackedFolder",
    "__version__",
    "checkFsAlign",
    "dump",
    "errors",
    "mounted",
    "pack_archive",
    "pack_folder",
    "prefetch",
]

_MODULE_OF = {
    "FileReader": "ffrfs.record.reader",
    "FileWriter": "ffrfs.record.writer",
    "PackedFolder": "ffrfs.folder.packed",
    "checkFsAlign": "ffrfs.record.alignment",
    "dump": "ffrfs.record.dump",
    "mounted": "ffrfs.mount.client.mounted",
    "pack_archive": "ffrfs.packing.pack",
    "pack_folder": "ffrfs.packing.pack",
    "prefetch": "ffrfs.mount.client.hints",
}


def __getattr__(name: str) -> object:
    if name == "errors":
        return importlib.import_module("ffrfs.errors")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'ffrfs' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
