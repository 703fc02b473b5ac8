"""PackPath: universal_pathlib's UPath for `ffr://`, as an entry point of it makes them.

    UPath("ffr://train/a.jpeg::/data/x.ffr"), UPath("ffr://train", fo="/data/x.ffr")

Not here: the file system (fsspec.py). Concurrency: no state.
"""

from __future__ import annotations

from typing import Any, NoReturn

import ffrfs.adapters.fsspec  # noqa: F401 - it registers ffr://
from ffrfs.errors import MissingPackageError

with MissingPackageError.instead("upath", "PackPath needs universal_pathlib", "fsspec"):
    from upath import UnsupportedOperation, UPath

__all__ = ["PackPath"]


class PackPath(UPath):
    """A path of a pack. Methods that write raise UnsupportedOperation."""

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401
        raise UnsupportedOperation(f"{self}: packs are read-only")

    mkdir = touch = unlink = rmdir = write_bytes = write_text = rename = replace = _refuse
