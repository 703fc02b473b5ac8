"""`ffrecord.package`: packs, from ffrfs.folder and ffrfs.packing."""

from __future__ import annotations

from pathlib import Path

from ffrfs.folder.packed import PackedFolder as _PackedFolder
from ffrfs.folder.tree import PathType
from ffrfs.packing.pack import pack_folder
from ffrfs.record.reader import FileReader
from ffrfs.record.writer import FileWriter

__all__ = ["FileReader", "FileWriter", "PackedFolder", "pack_folder"]


class PackedFolder(_PackedFolder):
    """The PackedFolder of ffrfs; list() returns Paths below a directory, as the original does."""

    def list(  # type: ignore[override]
        self,
        path: PathType | None = None,
        list_file: bool = True,
        list_dir: bool = True,
        recursive: bool = False,
    ) -> list[str | Path]:
        found = super().list(path, list_file, list_dir, recursive)
        return [Path(name) if "/" in name else name for name in found]
