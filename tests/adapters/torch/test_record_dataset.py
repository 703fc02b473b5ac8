"""Dataset, Subset and ConcatDataset take lists of numbers, and give lists of samples."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, random_split
from torch.utils.data import Subset as TorchSubset

from ffrfs.errors import ChecksumError
from ffrfs.torch import ConcatDataset, Dataset, Subset
from tests.ffrecord_file import flip_byte, record_extents, write_records

COUNT = 20


class Texts(Dataset):
    """Notes the indices that it receives."""

    def process(self, indices: Sequence[Any], data: list[np.ndarray]) -> list[Any]:
        self.asked = indices
        return [record.tobytes().decode() for record in data]


class Squares(Dataset):
    """A data set without any file, which the reference allows."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[list[int]] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, indices: Sequence[int]) -> list[int]:
        self.asked.append(list(indices))
        return [index * index for index in indices]


def texts(name: str, count: int = COUNT) -> list[bytes]:
    return [f"{name} {number}".encode() for number in range(count)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_records(tmp_path / "a.ffr", texts("a"))


def test_a_list_of_numbers_gives_a_list_of_samples(file: Path) -> None:
    dataset = Texts(file)
    assert len(dataset) == COUNT
    assert (dataset.fnames, dataset.reader.n) == (file, COUNT)
    assert dataset[[3, 0, 3]] == ["a 3", "a 0", "a 3"]
    assert dataset[(1, np.int64(2), torch.tensor(4))] == ["a 1", "a 2", "a 4"]
    assert dataset[[]] == []
    numbers = [7, 5]
    assert dataset[numbers] == ["a 7", "a 5"]
    assert dataset.asked is numbers
    assert dataset.__getitems__([9]) == ["a 9"]


@pytest.mark.parametrize("index", [0, slice(2), range(2), np.arange(2), torch.tensor([1])])
def test_an_index_must_be_a_list(file: Path, index: Any) -> None:
    with pytest.raises(TypeError, match="takes a list of numbers, not"):
        Texts(file)[index]


@pytest.mark.parametrize("number", [-1, COUNT])
def test_a_number_out_of_range(file: Path, number: int) -> None:
    with pytest.raises(IndexError, match=str(number)):
        Texts(file)[[0, number]]


def test_process_must_be_defined(file: Path) -> None:
    with pytest.raises(NotImplementedError, match="Dataset defines no process"):
        Dataset(file)[[0]]


@pytest.mark.parametrize("shards", [list, tuple, lambda files: files[0].parent])
def test_several_files(tmp_path: Path, shards: Any) -> None:
    files = [write_records(tmp_path / f"{name}.ffr", texts(name, 3)) for name in "ab"]
    assert Texts(shards(files))[[5, 0, 3]] == ["b 2", "a 0", "b 0"]


def test_check_data(file: Path) -> None:
    flip_byte(file, record_extents(file)[7][0])
    with pytest.raises(ChecksumError, match="record 7"):
        Texts(file)[[6, 7]]
    with pytest.raises(UnicodeDecodeError):
        Texts(file, check_data=False)[[7]]


def test_a_pickle_holds_only_the_file_name(file: Path) -> None:
    dataset = Texts(file, check_data=False)
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 1000
    again = pickle.loads(pickled)
    assert again[[1]] == ["a 1"]
    assert again.reader.check_data is False


def test_torch_asks_for_whole_batches(file: Path) -> None:
    dataset = Texts(file)
    assert list(DataLoader(dataset, 8))[-1] == ["a 16", "a 17", "a 18", "a 19"]
    assert dataset.asked == [16, 17, 18, 19]
    assert list(DataLoader(TorchSubset(dataset, [4, 2, 9]), 2)) == [["a 4", "a 2"], ["a 9"]]
    assert dataset.asked == [9]
    one, other = random_split(dataset, [15, 5], torch.Generator().manual_seed(1))
    found = [text for part in (one, other) for batch in DataLoader(part, 4) for text in batch]
    assert sorted(found) == sorted(text.decode() for text in texts("a"))


def test_subset(file: Path) -> None:
    dataset = Texts(file)
    subset = Subset(dataset, np.array([5, 9, 5, 0]))
    assert isinstance(subset, Dataset)
    assert len(subset) == 4
    assert subset[[3, 0, 1]] == ["a 0", "a 5", "a 9"]
    assert dataset.asked == [0, 5, 9]
    assert Subset(subset, torch.tensor([1]))[[0]] == ["a 9"]
    assert list(DataLoader(subset, 3)) == [["a 5", "a 9", "a 5"], ["a 0"]]
    with pytest.raises(IndexError):
        subset[[4]]


def test_concat_dataset_reads_each_part_once(tmp_path: Path) -> None:
    parts = [Squares(3), Squares(0), Squares(5)]
    both = ConcatDataset(iter(parts))
    assert isinstance(both, Dataset)
    assert both.datasets == parts
    assert both.cumulative_sizes == [3, 3, 8]
    assert both[[7, 2, 3, 7, -1, -8, 0]] == [16, 4, 0, 16, 16, 0, 0]
    assert [part.asked for part in parts] == [[[2, 0, 0]], [], [[4, 0, 4, 4]]]


@given(st.data())
def test_concat_dataset_is_a_concatenation(data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    model = [(which, number) for which, count in enumerate(counts) for number in range(count)]

    class Part(Squares):
        def __init__(self, which: int, count: int) -> None:
            super().__init__(count)
            self.which = which

        def __getitem__(self, indices: Sequence[int]) -> list[Any]:
            return [(self.which, index) for index in indices]

    concatenated = ConcatDataset(map(Part, range(len(counts)), counts))
    assert len(concatenated) == len(model)
    indices = data.draw(st.lists(st.integers(-len(model), len(model) - 1))) if model else []
    assert concatenated[indices] == [model[index] for index in indices]


def test_concat_dataset_refuses_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="no data set"):
        ConcatDataset([])
    with pytest.raises(TypeError, match=r"not an ffrfs\.torch\.Dataset"):
        ConcatDataset([[1, 2]])  # type: ignore[list-item]
    for index in (3, -4):
        with pytest.raises(IndexError, match=f"sample {index} does not exist: there are 3"):
            ConcatDataset([Squares(3)])[[index]]


def test_a_sum_is_our_concat_dataset(tmp_path: Path, file: Path) -> None:
    first, second = Texts(file), Texts(write_records(tmp_path / "b.ffr", texts("b", 3)))
    both = first + second
    assert type(both) is ConcatDataset
    assert len(both) == COUNT + 3
    assert both[[COUNT, 1, -1]] == ["b 0", "a 1", "b 2"]
    assert (both + Squares(3))[[COUNT + 5, 0]] == [4, "a 0"]
    assert both.ffreaders() == [first.reader, second.reader]
    (batch,) = DataLoader(both, COUNT + 3, collate_fn=list)
    assert batch == both[range(COUNT + 3)]


@pytest.mark.parametrize("other", [[1], torch.utils.data.TensorDataset(torch.zeros(1)), 0])
def test_a_sum_with_another_type_is_refused(file: Path, other: Any) -> None:
    with pytest.raises(TypeError, match=r"is not an ffrfs\.torch\.Dataset"):
        Texts(file) + other
