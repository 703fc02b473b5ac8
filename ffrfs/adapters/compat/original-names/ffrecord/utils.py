"""`ffrecord.utils`: dump(), from ffrfs.record."""

from __future__ import annotations

from ffrfs.record.dump import dump
from ffrfs.record.writer import FileWriter

__all__ = ["FileWriter", "dump"]
