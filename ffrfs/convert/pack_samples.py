"""The files of a pack as samples of WebDataset: those of one directory with one key are a sample.

    cat/1.jpg, cat/1.json  →  an Example with __key__ "cat/1", jpg and json

A file that would belong to no sample is an error. Not here: the rules for names (webdataset.py),
each file as an Example (source.py). Concurrency: one thread at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ffrfs.convert.source import PackedSource, Record, bytes_example, in_batches, read_all
from ffrfs.convert.webdataset import (
    KEY,
    MEMBERS_MAX,
    SAMPLE_LIMIT,
    name_fault,
    split_name,
)
from ffrfs.errors import PackError
from ffrfs.folder.tree import Entry
from ffrfs.printable import quoted


class _Sample(NamedTuple):
    key: str
    inos: dict[str, int]  # by the field: "jpg"
    size: int


class PackSampleSource(PackedSource):
    """The samples, directory by directory: a directory's own come before those below it.

    A sample with a damaged file raises ChecksumError, or with "skip" is left out and counted.
    """

    def _sound_count(self) -> int:
        return sum(1 for _ in self._samples())

    def records(self) -> Iterator[Record]:
        self.skipped_count = 0
        for batch in in_batches(self._samples()):
            inos = [ino for sample in batch for ino in sample.inos.values()]
            contents = read_all(self._read, inos, self._on_error)
            for sample in batch:
                found = {
                    field: bytes(content.data)
                    for field, content in zip(sample.inos, contents, strict=False)
                    if content is not None
                }
                if len(found) < len(sample.inos):
                    self.skipped_count += 1
                else:
                    self._last = next(iter(sample.inos.values()))
                    yield bytes_example({KEY: os.fsencode(sample.key), **found})

    def _samples(self) -> Iterator[_Sample]:
        root = self._tree.folder_ino("")
        self._tree.check_depth(root)
        folders = [("", root)]
        while folders:
            above, folder = folders.pop()
            below: list[tuple[str, int]] = []
            sample = _Sample("", {}, 0)
            for found in self._tree.entries(folder):
                entry = Entry(above + found.path, found.attributes)
                self.refuse(entry)
                if entry.is_folder:
                    below.append((f"{entry.path}/", entry.attributes.ino))
                    continue
                key, field = self._split(entry.path)
                if key != sample.key:
                    if sample.inos:
                        yield self._checked(sample)
                    sample = _Sample(key, {}, 0)
                sample.inos[field] = entry.attributes.ino
                sample = sample._replace(size=sample.size + entry.attributes.size)
            if sample.inos:
                yield self._checked(sample)
            folders += reversed(below)

    def _split(self, path: str) -> tuple[str, str]:
        key, field = split_name(path) or (path, "")
        fault = name_fault(key, field)
        if fault is not None:
            raise self._refused(f"{quoted(path)} {fault}")
        return key, field

    def _checked(self, sample: _Sample) -> _Sample:
        """Return the sample. Raises PackError if it cannot be one Example."""
        names: dict[str, str] = {}
        for field in sample.inos:
            other = names.setdefault(field.lower(), field)
            if other != field:
                pair = " and ".join(quoted(f"{sample.key}.{each}") for each in (other, field))
                raise self._refused(f"{pair} differ in case only, and WebDataset reads one of them")
        if len(names) >= MEMBERS_MAX or sample.size > SAMPLE_LIMIT:
            raise self._refused(f"the files {quoted(sample.key)}.* are too large for one sample")
        return sample

    def _refused(self, reason: str) -> PackError:
        return PackError(
            f"{self.path}: {reason}; pack again without it: ffrfs pack --exclude PATTERN "
            f"{self.path} NEW.ffr"
        )
