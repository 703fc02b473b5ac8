"""`ffrecord.fileio`: FFRecord files, from ffrfs.record."""

from __future__ import annotations

from ffrfs.record.alignment import checkFsAlign
from ffrfs.record.reader import FileReader
from ffrfs.record.writer import FileWriter

__all__ = ["FileReader", "FileWriter", "checkFsAlign"]
