"""`ffrecord.utils`: dump(), of ffrfs.record."""

from __future__ import annotations

from ffrfs.record.dump import dump
from ffrfs.record.writer import FileWriter

__all__ = ["FileWriter", "dump"]
