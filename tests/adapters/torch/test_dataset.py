"""TFRecordDataset: its items, in this process and in a DataLoader's workers."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tfrecord.reader import tfrecord_loader
from torch.utils.data import DataLoader, RandomSampler, Subset

from ffrfs.errors import ChecksumError, FormatError
from ffrfs.tfrecord import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseValue,
    VarLenFeature,
    from_dict,
)
from ffrfs.torch import TFRecordDataset
from tests.tfrecord_file import tfrecord_records, write_tfrecord

pytestmark = pytest.mark.usefixtures("workers_end")

COUNT = 50
TIMEOUT_S = 60
KINDS = {"image/encoded": "byte", "image/height": "int", "embedding": "float"}
FEATURES = {
    "number": FixedLenFeature((), np.int64),
    "vector": FixedLenFeature((3,), np.float32),
    "name": FixedLenFeature((), bytes),
    "absent": FixedLenFeature((), np.int64, -1),
}
METHODS = ["fork", "forkserver"]


def numbered(number: int) -> bytes:
    values = {
        "number": number,
        "vector": np.arange(number, number + 3, dtype=np.float32),
        "name": f"record {number}",
        "many": [b"a\0", b"b"],
        "none": None,
    }
    return bytes(from_dict(values).SerializeToString())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", map(numbered, range(COUNT)))


@pytest.fixture
def examples(golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(golden / "tf" / "examples.tfrecord", tmp_path))


def number_of(item: dict[str, Any]) -> int:
    return int(item["number"].item())


def same(ours: object, theirs: object) -> bool:
    """Return whether both are equal and of one type; ours may be a list, theirs an array."""
    if isinstance(ours, list):
        assert isinstance(theirs, np.ndarray)
        return ours == theirs.tolist()
    if isinstance(ours, np.ndarray):
        assert isinstance(theirs, np.ndarray)
        return ours.dtype == theirs.dtype and np.array_equal(ours, theirs)
    return type(ours) is type(theirs) and ours == theirs


@pytest.mark.parametrize("described", [list, dict])
def test_values_are_those_of_the_tfrecord_package(
    examples: Path, golden: Path, described: Callable[[Any], Any]
) -> None:
    known = json.loads((golden / "tf" / "examples.json").read_text())
    everywhere = set.intersection(*({k for k, v in each.items() if v} for each in known))
    words = {"bytes_list": "byte", "int64_list": "int", "float_list": "float"}
    kinds = {name: words[next(iter(known[0][name]))] for name in sorted(everywhere)}
    description = described(kinds)
    dataset = TFRecordDataset(examples, description)
    theirs = list(tfrecord_loader(str(examples), None, description))
    assert len(dataset) == len(theirs) == COUNT
    assert {"byte", "int", "float"} <= set(kinds.values())
    for item, expected in zip(dataset, theirs, strict=True):
        assert list(item) == list(expected) == list(kinds)
        assert all(same(item[name], expected[name]) for name in kinds)


@pytest.mark.parametrize("description", [None, [], {}])
def test_all_features_of_every_record(examples: Path, golden: Path, description: Any) -> None:
    known = json.loads((golden / "tf" / "examples.json").read_text())
    for item, expected in zip(TFRecordDataset(examples, description), known, strict=True):
        assert list(item) == sorted(name for name, value in expected.items() if value)
        for name, value in item.items():
            ((kind, values),) = expected[name].items()
            if kind == "bytes_list":
                found = [value] if isinstance(value, bytes) else value
                assert found == [bytes.fromhex(text) for text in values]
            else:
                assert value.dtype == (np.int64 if kind == "int64_list" else np.float32)
                assert np.array_equal(value, np.array(values, value.dtype))


def test_features_are_parsed_as_described(file: Path) -> None:
    item = TFRecordDataset(file, {**FEATURES, "many": VarLenFeature(bytes)})[7]
    assert list(item) == [*FEATURES, "many"]
    assert (item["number"].shape, item["number"].dtype, item["number"]) == ((), np.int64, 7)
    assert item["vector"].dtype == np.float32
    assert item["vector"].tolist() == [7, 8, 9]
    assert item["name"] == b"record 7"
    assert item["absent"] == -1
    assert isinstance(item["many"], SparseValue)
    assert item["many"].values.tolist() == [b"a\0", b"b"]


def test_several_values_of_bytes_are_a_list(file: Path) -> None:
    assert TFRecordDataset(file, ["many"])[0] == {"many": [b"a\0", b"b"]}


def test_indices(file: Path) -> None:
    dataset = TFRecordDataset(file, FEATURES, number_of)
    assert len(dataset) == COUNT
    assert [dataset[0], dataset[-1], dataset[np.int32(5)], dataset[torch.tensor(6)]] == [
        *(0, COUNT - 1, 5, 6)
    ]
    assert dataset.__getitems__([3, -2, 3]) == [3, COUNT - 2, 3]
    assert dataset.__getitems__([]) == []
    assert list(dataset) == list(range(COUNT))
    assert Subset(dataset, [9, 8]).__getitems__([1, 0]) == [8, 9]
    for index in (COUNT, -COUNT - 1):
        with pytest.raises(IndexError, match=f"record {index} does not exist"):
            dataset[index]
    with pytest.raises(TypeError):
        dataset[1.0]  # type: ignore[index]


def test_shards_are_one_data_set(tmp_path: Path) -> None:
    shards = [
        write_tfrecord(tmp_path / f"x.tfrecord-0000{i}-of-00002", map(numbered, numbers))
        for i, numbers in enumerate([range(3), range(3, 8)])
    ]
    for path in (tmp_path, shards, [str(shard) for shard in shards]):
        assert list(TFRecordDataset(path, FEATURES, number_of)) == list(range(8))
    with pytest.raises(FormatError, match=r'00001-of-00002: record 4: feature "x" is missing'):
        TFRecordDataset(shards, ["x"])[7]


@pytest.mark.parametrize(
    ("description", "text"),
    [
        (["absent"], 'feature "absent" is missing'),
        (["none"], 'feature "none" is missing'),
        ({"number": "float"}, 'feature "number" is of kind "int64", not "float"'),
        ({"vector": "bytes"}, 'feature "vector" is of kind "float", not "bytes"'),
        ({"name": "int64"}, 'feature "name" is of kind "bytes", not "int64"'),
        ({"absent": FixedLenFeature((), np.int64)}, 'feature "absent"'),
        ({"vector": FixedLenFeature((2,), np.float32)}, 'feature "vector"'),
    ],
)
def test_a_record_that_does_not_fit_the_description(
    file: Path, description: Any, text: str
) -> None:
    with pytest.raises(FormatError) as raised:
        TFRecordDataset(file, description)[4]
    assert str(raised.value).startswith(f"{file}: record 4: {text}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("description", "error"),
    [
        ("number", TypeError),
        ({"number": "double"}, ValueError),
        ({"number": np.int64}, ValueError),
        ({"number": "int", "vector": FixedLenFeature((3,), np.float32)}, ValueError),
    ],
)
def test_invalid_descriptions_are_refused(
    file: Path, description: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="descri"):
        TFRecordDataset(file, description=description)


@pytest.mark.parametrize("description", [None, FEATURES])
def test_a_record_that_is_no_example(tmp_path: Path, description: Any) -> None:
    path = write_tfrecord(tmp_path / "x.tfrecord", [numbered(0), b"\xff" * 9])
    dataset = TFRecordDataset(path, description)
    assert dataset[0]["name"] == b"record 0"
    with pytest.raises(FormatError, match=r"x\.tfrecord: record 1: .*not an Example"):
        dataset[1]


SEQUENCE = {"context": {"id": 7}, "feature_lists": {"words": [b"a", [b"b", b"c"]], "n": [[1, 2]]}}


@pytest.fixture
def sequences(tmp_path: Path) -> Path:
    record = bytes(from_dict(SEQUENCE).SerializeToString())
    return write_tfrecord(tmp_path / "s.tfrecord", [record] * 3)


@pytest.mark.parametrize("description", [None, [], {}])
def test_feature_lists_are_not_dropped_silently(sequences: Path, description: Any) -> None:
    with pytest.raises(FormatError, match=r's\.tfrecord: record 1: .*\("n", "words"\).*sequence_'):
        TFRecordDataset(sequences, description)[1]
    context, lists = TFRecordDataset(
        sequences, description, sequence_description=description or []
    )[1]
    assert context["id"].tolist() == [7]
    assert list(lists) == ["n", "words"]
    assert lists["n"][0].tolist() == [1, 2]
    assert lists["words"] == [b"a", [b"b", b"c"]]
    # A caller that names features gets no others.
    assert list(TFRecordDataset(sequences, ["id"])[2]) == ["id"]


@pytest.mark.parametrize(
    ("context", "lists"),
    [(["id"], ["n", "words"]), ({"id": "int"}, {"n": "int", "words": "byte"}), (None, ["n"])],
)
def test_feature_lists_are_those_of_the_tfrecord_package(
    sequences: Path, context: Any, lists: Any
) -> None:
    theirs = list(tfrecord_loader(str(sequences), None, context, sequence_description=lists))
    dataset = TFRecordDataset(sequences, context, sequence_description=lists)
    assert len(theirs) == len(dataset) == 3
    for ours, expected in zip(dataset, theirs, strict=True):
        for found, wanted in zip(ours[1].items(), expected[1].items(), strict=True):
            assert found[0] == wanted[0]
            assert all(map(same, found[1], wanted[1]))
        assert same(ours[0]["id"], expected[0]["id"])


def test_feature_lists_are_parsed_as_described(sequences: Path) -> None:
    context = {"id": FixedLenFeature((), np.int64)}
    lists = {"n": FixedLenSequenceFeature((2,), np.int64), "words": VarLenFeature(bytes)}
    item = TFRecordDataset(sequences, context, sequence_description=lists)[0]
    assert item[0] == {"id": 7}
    assert item[1]["n"].tolist() == [[1, 2]]
    assert item[1]["words"].values.tolist() == [b"a", b"b", b"c"]
    with pytest.raises(ValueError, match="both by"):
        TFRecordDataset(sequences, context, sequence_description=["n"])


@pytest.mark.parametrize(
    ("lists", "text"),
    [
        (["absent"], 'feature list "absent" is missing'),
        ({"n": "byte"}, 'feature list "n" is of kind "int64", not "bytes"'),
    ],
)
def test_feature_lists_that_do_not_fit_the_description(
    sequences: Path, lists: Any, text: str
) -> None:
    with pytest.raises(FormatError) as raised:
        TFRecordDataset(sequences, sequence_description=lists)[2]
    assert str(raised.value) == f"{sequences}: record 2: {text}"


def test_a_damaged_record_is_an_error(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data.replace(b"record 7", b"record 8"))
    assert tfrecord_records(file.read_bytes())[7] != numbered(7)
    with pytest.raises(ChecksumError, match="record 7"):
        TFRecordDataset(file).__getitems__([6, 7])


def test_pickling_sends_no_data(file: Path) -> None:
    dataset = TFRecordDataset(file, FEATURES, number_of)
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 2000
    assert list(pickle.loads(pickled)) == list(dataset)


def test_a_closed_data_set_raises_an_error(file: Path) -> None:
    dataset = TFRecordDataset(file)
    dataset.close()
    with pytest.raises(ValueError, match="closed"):
        dataset[0]


def loader(dataset: TFRecordDataset, method: str | None = None, **options: Any) -> DataLoader[Any]:
    if method is not None:
        options |= {"num_workers": 2, "multiprocessing_context": method, "timeout": TIMEOUT_S}
    return DataLoader(dataset, batch_size=8, **options)


@pytest.mark.parametrize("method", [None, *METHODS])
def test_data_loader(file: Path, method: str | None) -> None:
    dataset = TFRecordDataset(file, FEATURES)
    assert dataset[3]["number"] == 3  # threads and queues exist now
    batches = list(loader(dataset, method))
    assert [len(batch["name"]) for batch in batches] == [8] * 6 + [2]
    numbers = torch.cat([batch["number"] for batch in batches])
    assert torch.equal(numbers, torch.arange(COUNT))
    vectors = torch.cat([batch["vector"] for batch in batches])
    assert torch.equal(vectors, numbers[:, None] + torch.arange(3, dtype=torch.float32))
    assert [name for batch in batches for name in batch["name"]] == [
        f"record {number}".encode() for number in range(COUNT)
    ]


@pytest.mark.parametrize("method", [None, "fork"])
def test_data_loader_shuffles(file: Path, method: str | None) -> None:
    dataset = TFRecordDataset(file, FEATURES, number_of)
    order = RandomSampler(dataset, generator=torch.Generator().manual_seed(5))
    epochs = loader(dataset, method, sampler=order, persistent_workers=method is not None)
    first, second = ([number for batch in epochs for number in batch.tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert len({*map(tuple, (first, second, range(COUNT)))}) == 3


def test_a_workers_error_reaches_the_reader(file: Path) -> None:
    batches = iter(loader(TFRecordDataset(file, ["absent"]), "fork"))
    for first in range(0, COUNT, 8):
        with pytest.raises(FormatError, match=f'record {first}: feature "absent" is missing'):
            next(batches)
    assert list(batches) == []


def test_a_batch_is_one_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    dataset = TFRecordDataset(file, FEATURES)
    read = dataset._reader.read

    def noted(indices: list[int]) -> list[bytes]:
        reads.append(indices)
        return read(indices)

    monkeypatch.setattr(dataset._reader, "read", noted)
    list(loader(dataset))
    assert reads == [list(range(first, min(first + 8, COUNT))) for first in range(0, COUNT, 8)]
