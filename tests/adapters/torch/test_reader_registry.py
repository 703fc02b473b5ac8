"""ReaderRegistry: every FileReader is found, wherever it is held."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import ConcatDataset as TorchConcatDataset
from torch.utils.data import Subset as TorchSubset

from ffrfs import FileReader
from ffrfs.torch import ConcatDataset, Dataset, ReaderRegistry, Subset
from tests.ffrecord_file import write_records


class Holder(ReaderRegistry):
    def __init__(self, **things: Any) -> None:
        for name, thing in things.items():
            setattr(self, name, thing)


class Plain:
    """Knows nothing of registries."""

    def __init__(self, thing: object) -> None:
        self.thing = thing


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_records(tmp_path / "a.ffr", [b"a", b"b"])


@pytest.fixture
def readers(file: Path) -> list[FileReader]:
    return [FileReader(file) for _ in range(4)]


def test_readers_in_attributes_are_found(readers: list[FileReader]) -> None:
    a, b, c, d = readers
    holder = Holder(first=a, more=Holder(one=b, other=c), last=d, name="x", number=7, none=None)
    assert holder.ffreaders() == [a, b, c, d]
    assert holder.first is a
    del holder.more
    holder.last = b
    assert holder.ffreaders() == [a, b]
    assert Holder().ffreaders() == []


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda reader: [1, ["x", (reader,)]],
        lambda reader: {"train": {"a": reader}, reader: 1},
        lambda reader: {reader},
        lambda reader: Plain(Plain([reader])),
        lambda reader: TorchSubset(Plain(reader), [0]),  # type: ignore[arg-type]
        lambda reader: TorchConcatDataset([TorchSubset(Plain(reader), [0])]),  # type: ignore[arg-type]
        lambda reader: Subset(Holder(reader=reader), []),  # type: ignore[arg-type]
    ],
)
def test_readers_in_containers_and_data_sets_are_found(
    readers: list[FileReader], wrapped: Any
) -> None:
    assert Holder(thing=wrapped(readers[0])).ffreaders() == readers[:1]


def test_readers_of_nested_data_sets_are_found(file: Path) -> None:
    datasets = [Dataset(file), Dataset([file, file])]
    both = ConcatDataset([Subset(datasets[0], [1]), datasets[1]])
    assert both.ffreaders() == [dataset.reader for dataset in datasets]
    assert datasets[0].ffreaders() == [datasets[0].reader]


def test_each_reader_is_found_once_despite_cycles(readers: list[FileReader]) -> None:
    holder = Holder(a=readers[0], b=[readers[0], readers[1]])
    holder.itself = [holder]
    holder.b.append(holder.b)
    assert holder.ffreaders() == readers[:2]


def test_readers_are_found_at_any_depth(readers: list[FileReader]) -> None:
    thing: Any = readers[0]
    for _ in range(10_000):
        thing = [thing]
    holder = Holder(thing=thing)
    assert holder.ffreaders() == readers[:1]
    while isinstance(thing, list):  # freed step by step
        holder.thing = thing = thing.pop()


def test_modules_functions_and_classes_are_not_searched(readers: list[FileReader]) -> None:
    def function() -> None: ...

    function.reader = readers[0]  # type: ignore[attr-defined]
    kind = type("Kind", (), {"reader": readers[0]})
    assert Holder(module=pytest, function=function, kind=kind).ffreaders() == []


def test_pickled_readers_are_found_again(readers: list[FileReader]) -> None:
    again = pickle.loads(pickle.dumps(Holder(things={"a": readers})))
    assert [reader.fnames for reader in again.ffreaders()] == [readers[0].fnames] * 4
