"""Packs and TFRecord files as sources and sinks of Apache Beam. Only this room imports it.

Not here: cutting files into ranges and reading one (ffrfs.folder), making shards (ffrfs.cluster).
Concurrency: transforms hold names and numbers only; a worker opens its files itself.
"""

from __future__ import annotations

from ffrfs.errors import MissingPackageError

with MissingPackageError.instead("apache_beam", "ffrfs.beam needs Apache Beam", "beam"):
    import apache_beam  # noqa: F401

from ffrfs.adapters.beam.reading import ReadFromPack, ReadFromTFRecord
from ffrfs.adapters.beam.writing import WriteToPack, WriteToTFRecord

__all__ = ["ReadFromPack", "ReadFromTFRecord", "WriteToPack", "WriteToTFRecord"]
