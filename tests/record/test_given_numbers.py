"""Record numbers that a sequence creates on access: the core keeps each while it reads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ffrfs import FileWriter, pack_folder
from ffrfs._native import Records, TFRecords, Volume
from ffrfs.tfrecord import TFRecordWriter

COUNT = 3


class Number:
    """Logs when it is used, and when it is freed."""

    def __init__(self, value: int, events: list[str]) -> None:
        self._value = value
        self._events = events

    def __index__(self) -> int:
        self._events.append("used")
        return self._value

    def __del__(self) -> None:
        self._events.append("gone")


class FreshNumbers(Sequence[Number]):
    """Keeps no reference to its numbers."""

    def __init__(self, first: int) -> None:
        self.events: list[str] = []
        self._first = first

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, place: Any) -> Any:
        if place >= COUNT:
            raise IndexError
        return Number(self._first + place, self.events)


def records(folder: Path) -> tuple[Callable[[Any], object], int]:
    path = folder / "a.ffr"
    with FileWriter(path, COUNT) as writer:
        for _ in range(COUNT):
            writer.write_one(b"record")
    return Records([os.fsencode(path)]).read, 0


def tfrecords(folder: Path) -> tuple[Callable[[Any], object], int]:
    path = folder / "a.tfrecord"
    with TFRecordWriter(str(path)) as writer:
        for _ in range(COUNT):
            writer.write(b"record")
    return TFRecords([os.fsencode(path)]).read, 0


def files(folder: Path) -> tuple[Callable[[Any], object], int]:
    (folder / "source").mkdir()
    for number in range(COUNT):
        (folder / "source" / str(number)).write_bytes(b"content")
    pack_folder(folder / "source", folder / "a.ffr")
    volume = Volume([os.fsencode(folder / "a.ffr")])
    return volume.read_files, volume.resolve(b"0")


@pytest.mark.parametrize("make", [records, tfrecords, files])
def test_given_numbers_are_referenced_while_they_are_used(
    make: Callable[[Path], tuple[Callable[[Any], object], int]], tmp_path: Path
) -> None:
    read, first = make(tmp_path)
    numbers = FreshNumbers(first)
    read(numbers)
    assert numbers.events == ["used", "gone"] * COUNT
