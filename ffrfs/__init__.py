"""ffrfs: a data-set directory packed into one verified FFRecord file, read or mounted.

The names of HFAiLab/ffrecord's API are kept, so `import ffrfs as ffrecord` runs a script
that was written for it. Nothing is imported before it is used.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # without `typing`: Ctrl-C is a traceback until the command begins
if TYPE_CHECKING:
    from ffrfs import errors
    from ffrfs.convert.convert import convert
    from ffrfs.errors import (
        CacheError,
        ChangedAtOriginError,
        ChecksumError,
        CompleteError,
        FfrfsError,
        FileSystemHangsError,
        FormatError,
        InstallError,
        IsAFolderError,
        LostWorkerError,
        MissingPackageError,
        MountError,
        NotAFolderError,
        OptionError,
        PackError,
        PackWarning,
        PathNotFoundError,
        RecordCountError,
        RemoteDeniedError,
        RemoteError,
        RemoteNotFoundError,
        RemoteTimeoutError,
        SeekError,
        TooLargeError,
        TruncatedError,
        UnfinishedError,
        UnsafeIndexError,
        UnverifiedHeaderWarning,
    )
    from ffrfs.folder.extract import extract
    from ffrfs.folder.info import info
    from ffrfs.folder.packed import PackedFolder
    from ffrfs.folder.verify import verify
    from ffrfs.mount.client.control_client import stats
    from ffrfs.mount.client.hints import prefetch
    from ffrfs.mount.client.mounted import mount, mounted
    from ffrfs.mount.client.unmount import unmount
    from ffrfs.packing.pack import pack_archive, pack_folder, repack
    from ffrfs.packing.pack_writer import PackWriter
    from ffrfs.record.alignment import checkFsAlign
    from ffrfs.record.dump import dump
    from ffrfs.record.reader import FileReader
    from ffrfs.record.writer import FileWriter
    from ffrfs.view.view import view

__version__: str  # of the installed package: pyproject.toml has it

__all__ = [
    "CacheError",
    "ChangedAtOriginError",
    "ChecksumError",
    "CompleteError",
    "FfrfsError",
    "FileReader",
    "FileSystemHangsError",
    "FileWriter",
    "FormatError",
    "InstallError",
    "IsAFolderError",
    "LostWorkerError",
    "MissingPackageError",
    "MountError",
    "NotAFolderError",
    "OptionError",
    "PackError",
    "PackWarning",
    "PackWriter",
    "PackedFolder",
    "PathNotFoundError",
    "RecordCountError",
    "RemoteDeniedError",
    "RemoteError",
    "RemoteNotFoundError",
    "RemoteTimeoutError",
    "SeekError",
    "TooLargeError",
    "TruncatedError",
    "UnfinishedError",
    "UnsafeIndexError",
    "UnverifiedHeaderWarning",
    "__version__",
    "checkFsAlign",
    "convert",
    "dump",
    "errors",
    "extract",
    "info",
    "mount",
    "mounted",
    "pack_archive",
    "pack_folder",
    "prefetch",
    "repack",
    "stats",
    "unmount",
    "verify",
    "view",
]

# The other names are exceptions, in ffrfs.errors.
_MODULE_OF = {
    "FileReader": "ffrfs.record.reader",
    "FileWriter": "ffrfs.record.writer",
    "PackWriter": "ffrfs.packing.pack_writer",
    "PackedFolder": "ffrfs.folder.packed",
    "checkFsAlign": "ffrfs.record.alignment",
    "convert": "ffrfs.convert.convert",
    "dump": "ffrfs.record.dump",
    "extract": "ffrfs.folder.extract",
    "info": "ffrfs.folder.info",
    "mount": "ffrfs.mount.client.mounted",
    "mounted": "ffrfs.mount.client.mounted",
    "pack_archive": "ffrfs.packing.pack",
    "pack_folder": "ffrfs.packing.pack",
    "prefetch": "ffrfs.mount.client.hints",
    "repack": "ffrfs.packing.pack",
    "stats": "ffrfs.mount.client.control_client",
    "unmount": "ffrfs.mount.client.unmount",
    "verify": "ffrfs.folder.verify",
    "view": "ffrfs.view.view",
}

# Subpackages that users import; dir() leaves out the others.
_PACKAGES = {"cluster", "dask", "ray", "tfrecord", "torch"}

# These packages have the name of a function. A first import would put the package in the
# function's place, so they, which are empty, are imported now.
for _name in ("convert", "mount", "view"):
    importlib.import_module(f"ffrfs.{_name}")
    del globals()[_name]


def __getattr__(name: str) -> object:
    if name == "errors":
        return importlib.import_module("ffrfs.errors")
    value: object
    if name == "__version__":
        value = importlib.import_module("importlib.metadata").version("ffrfs")
    elif name in __all__:
        value = getattr(importlib.import_module(_MODULE_OF.get(name, "ffrfs.errors")), name)
    else:
        raise AttributeError(f"module 'ffrfs' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(_PACKAGES & globals().keys())})
