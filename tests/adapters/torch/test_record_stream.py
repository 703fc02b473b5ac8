"""RecordStream, TFRecordDataset as a stream and MultiTFRecordDataset, with workers and ranks."""

from __future__ import annotations

import gzip
import multiprocessing
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tfrecord.reader import multi_tfrecord_loader, tfrecord_loader
from tfrecord.tools.tfrecord2idx import create_index as package_index
from torch.utils.data import DataLoader, IterableDataset

from ffrfs.errors import FormatError
from ffrfs.tfrecord import RecordDataset, from_dict
from ffrfs.tfrecord.sidecar import create_index
from ffrfs.torch import MultiTFRecordDataset, RecordStream, TFRecordDataset
from tests.tfrecord_file import write_tfrecord

pytestmark = pytest.mark.usefixtures("workers_end")

COUNT = 30
RANKS = 2
TIMEOUT_S = 60


def example(number: int, name: bytes = b"n") -> bytes:
    return bytes(from_dict({"number": number, "name": name}).SerializeToString())


def number_of(item: dict[str, Any]) -> int:
    return int(item["number"].item())


def to_number(record: bytes) -> int:
    return int(record)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files of the numbers from 0 to 29 as text."""
    return [
        write_tfrecord(
            tmp_path / f"{at}.tfrecord", [b"%d" % n for n in range(at * 10, at * 10 + 10)]
        )
        for at in range(3)
    ]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", map(example, range(COUNT)))


def numbers(data: Any, workers: int, method: str = "fork") -> list[int]:
    options: dict[str, Any] = {}
    if workers:
        options = {"multiprocessing_context": method, "timeout": TIMEOUT_S, "num_workers": workers}
    return [int(n) for batch in DataLoader(data, batch_size=4, **options) for n in batch]


@pytest.mark.parametrize("by", ["auto", "record"])
@pytest.mark.parametrize("workers", [0, 2, 4])
def test_workers_give_every_record_once(files: list[Path], workers: int, by: Any) -> None:
    data = RecordStream(RecordDataset(files).shuffle(5).map(to_number), by)
    assert Counter(numbers(data, workers)) == Counter(range(COUNT))
    assert Counter(numbers(RecordStream(data.dataset.take(17)), workers)).total() == 17


def test_forkserver_workers_give_every_record_once(files: list[Path]) -> None:
    data = RecordStream(RecordDataset(files).map(to_number))
    assert Counter(numbers(data, 2, "forkserver")) == Counter(range(COUNT))


def run_rank(rank: int, meeting: str, files: list[Path], method: str, pipe: Any) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS
    )
    try:
        RecordStream(RecordDataset(files).shuffle(5).take(8)).__iter__()
    except ValueError as error:
        pipe.send(str(error))
    data = RecordStream(RecordDataset(files).shuffle(5).map(to_number), "record")
    pipe.send(numbers(data, 2 if method == "fork" else 1, method))
    torch.distributed.destroy_process_group()


def test_ranks_give_every_record_once(tmp_path: Path, files: list[Path]) -> None:
    context = multiprocessing.get_context("forkserver")
    pipes, ranks = [], []
    for rank, method in enumerate(["fork", "forkserver"]):  # how its workers start
        ours, theirs = context.Pipe()
        arguments = (rank, str(tmp_path / "meeting"), files, method, theirs)
        pipes.append(ours)
        ranks.append(context.Process(target=run_rank, args=arguments))
        ranks[-1].start()
    try:
        found: Counter[int] = Counter()
        for pipe in pipes:
            assert pipe.poll(TIMEOUT_S)
            assert "give shuffle() a seed" in pipe.recv()
            assert pipe.poll(TIMEOUT_S)
            part = pipe.recv()
            assert len(part) == COUNT // RANKS
            found.update(part)
        assert found == Counter(range(COUNT))
        for process in ranks:
            process.join(TIMEOUT_S)
            assert process.exitcode == 0
    finally:
        for process in ranks:
            process.kill()
            process.join()


def test_epochs_follow_the_seed_of_torch(files: list[Path]) -> None:
    def epochs(workers: int) -> list[list[int]]:
        torch.manual_seed(3)
        data = RecordStream(RecordDataset(files).shuffle(30).map(to_number))
        return [numbers(data, workers) for _ in range(2)]

    for workers in (0, 2):
        first, second = epochs(workers)
        assert first != second
        assert epochs(workers) == [first, second]
    seeded = RecordStream(RecordDataset(files).shuffle(30, seed=5).map(to_number))
    orders = []
    for epoch in (0, 1, 0):
        seeded.set_epoch(epoch)
        orders.append(numbers(seeded, 2))
    assert orders[0] == orders[2] != orders[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_all_workers_and_epochs_keep_one_order(files: list[Path], workers: int) -> None:
    data = RecordDataset(files).shuffle(30, reshuffle_each_iteration=False)
    parts = [RecordStream(part.map(to_number)) for part in (data.take(10), data.skip(10))]
    epochs = [[numbers(part, workers, "forkserver") for part in parts] for _ in range(2)]
    assert epochs[0] == epochs[1]
    assert sorted([*epochs[0][0], *epochs[0][1]]) == list(range(COUNT))


def test_epochs_of_one_stream_follow_the_seed_of_torch(files: list[Path]) -> None:
    """Neither earlier iterations nor the position of the caller's data set change the order."""
    dataset = RecordDataset(files).shuffle(30)
    seeded = RecordDataset(files).shuffle(30, seed=5)
    data, fixed = RecordStream(dataset), RecordStream(seeded)
    orders = []
    for _ in range(3):
        torch.manual_seed(3)
        orders.append([numbers(data, workers) for workers in (0, 0, 2)])
    assert orders == orders[:1] * 3
    assert orders[0][0] != orders[0][1]
    assert numbers(fixed, 0) == list(map(int, seeded))
    assert numbers(fixed, 0) == list(map(int, seeded)) != numbers(fixed, 0)


@pytest.mark.parametrize("shuffle", [(30,), (30, 5), (30, None, False)])
def test_persistent_workers_count_epochs(files: list[Path], shuffle: Any) -> None:
    data = RecordStream(RecordDataset(files).shuffle(*shuffle).map(to_number))

    def epochs(count: int) -> list[list[int]]:
        torch.manual_seed(1)
        loader = DataLoader(
            data,
            None,
            num_workers=1,
            timeout=TIMEOUT_S,
            persistent_workers=True,
            multiprocessing_context="forkserver",
        )
        return [[*map(int, loader)] for _ in range(count)]

    orders = epochs(3)
    assert len(set(map(tuple, orders))) == (1 if False in shuffle else 3)
    assert epochs(2) == orders[:2]


@pytest.mark.parametrize("shuffle", [(8,), (8, 5), (8, None, False)])
@pytest.mark.parametrize("given_first", [2, 10])
def test_a_stream_resumes_from_the_state_of_another(
    files: list[Path], shuffle: Any, given_first: int
) -> None:
    """The stream is in a later epoch. With the same seed of torch, the next epoch is equal, too."""

    def stream() -> RecordStream:
        return RecordStream(RecordDataset(files).shuffle(*shuffle).repeat(2).batch(4))

    data, other = stream(), stream()
    list(data)
    iterator = iter(data)
    for _ in range(given_first):
        next(iterator)
    other.load_state_dict(data.state_dict())
    assert list(other) == list(iterator)
    torch.manual_seed(1)
    following = list(data)
    torch.manual_seed(1)
    assert list(other) == following


def test_a_stream_resumes_in_mid_epoch(files: list[Path]) -> None:
    def stream() -> RecordStream:
        return RecordStream(RecordDataset(files).shuffle(8, seed=5).map(to_number).batch(4))

    whole = list(stream())
    data = stream()
    iterator = iter(data)
    first = [next(iterator) for _ in range(3)]
    other = stream()
    other.load_state_dict(data.state_dict())
    assert first + list(other) == whole
    assert len(list(other)) == len(whole)
    with pytest.raises(ValueError, match="no iterator"):
        stream().state_dict()


def described(item: Any) -> Any:
    return {name: getattr(value, "tolist", lambda v=value: v)() for name, value in item.items()}


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("description", [None, ["number"], {"number": "int", "name": "byte"}])
def test_items_are_those_of_the_tfrecord_package(
    file: Path, compression: str | None, description: Any
) -> None:
    if compression:
        file.write_bytes(gzip.compress(file.read_bytes()))
    theirs = tfrecord_loader(str(file), None, description, compression_type=compression)
    data = TFRecordDataset(str(file), None, description, compression_type=compression)
    assert isinstance(data, IterableDataset) == bool(compression)
    assert [described(item) for item in data] == [described(item) for item in theirs]


def test_arguments_are_those_of_the_tfrecord_package(file: Path) -> None:
    index = file.with_suffix(".tfindex")
    package_index(str(file), str(index))
    data = TFRecordDataset(str(file), str(index), ["number"], 10, number_of)
    assert isinstance(data, RecordStream)
    first = list(data)
    assert sorted(first) == list(range(COUNT)) != first
    assert sorted(numbers(data, 2)) == list(range(COUNT))
    plain = TFRecordDataset(str(file), str(index), ["number"], None, number_of)
    assert isinstance(plain, TFRecordDataset)
    assert numbers(plain, 2) == list(range(COUNT))
    named = TFRecordDataset(
        data_path=str(file), index_path=None, description={"number": "int"}, transform=number_of
    )
    assert list(named) == list(range(COUNT))
    with pytest.raises(ValueError, match="gzip"):
        TFRecordDataset(str(file), None, compression_type="bz2")
    with pytest.raises(TypeError, match="one description"):
        TFRecordDataset(str(file), ["number"], ["name"])  # type: ignore[call-overload]

    class Own(TFRecordDataset):
        pass

    assert len(Own(str(file))) == COUNT
    with pytest.raises(TypeError, match="derive from RecordStream"):
        Own(str(file), None, None, 10)


def test_the_index_equals_that_of_the_tfrecord_package(file: Path) -> None:
    theirs, ours = file.with_suffix(".theirs"), file.with_suffix(".ours")
    package_index(str(file), str(theirs))
    create_index(file, ours)
    assert ours.read_bytes() == theirs.read_bytes()
    for text in (b"0 20\n", b"no index", b"0 1\n", b"5 30\n", ours.read_bytes()[:-1] + b"0\n"):
        ours.write_bytes(text)
        for queue in (None, 5):
            with pytest.raises(FormatError, match=r"x\.ours: "):
                TFRecordDataset(file, ours, None, queue)
    with pytest.raises(FileNotFoundError):
        TFRecordDataset(file, file.with_suffix(".none"))


def test_an_index_of_a_file_at_a_url(file: Path) -> None:
    index = file.with_suffix(".idx")
    create_index(file.as_uri(), index)
    for queue in (None, 5):
        data = TFRecordDataset(file.as_uri(), index.as_uri(), None, queue)
        assert len(list(data)) == COUNT
    index.write_text(f"{index.read_text()}{file.stat().st_size} 20\n")
    with pytest.raises(FormatError, match="is not the index of file://"):
        TFRecordDataset(file.as_uri(), index)


@pytest.fixture
def splits(tmp_path: Path) -> str:
    for name, first in (("a", 0), ("b", 100), ("c", 200)):
        count = 0 if name == "c" else COUNT
        write_tfrecord(tmp_path / f"{name}.tfrecord", map(example, range(first, first + count)))
    return str(tmp_path / "{}.tfrecord")


def test_splits_are_those_of_the_tfrecord_package(splits: str) -> None:
    ratios = {"a": 0.7, "b": 0.3}
    theirs = multi_tfrecord_loader(splits, None, ratios, ["number"], infinite=False)
    expected = sorted(map(number_of, theirs))
    for queue in (None, 8):
        data = MultiTFRecordDataset(
            splits, None, ratios, ["number"], queue, number_of, infinite=False
        )
        for workers in (0, 2):
            assert sorted(numbers(data, workers)) == expected


def test_splits_are_mixed_by_their_ratios_without_end(splits: str) -> None:
    torch.manual_seed(1)
    data = MultiTFRecordDataset(
        splits, None, {"a": 3, "b": 1, "c": 1}, {"number": "int"}, transform=number_of
    )
    items = [item for item, _ in zip(data, range(4000), strict=False)]
    assert len(items) == 4000
    assert 0.7 < sum(item < 100 for item in items) / 4000 < 0.8
    assert set(items) == {*range(COUNT), *range(100, 100 + COUNT)}
    torch.manual_seed(1)
    assert [item for item, _ in zip(data, range(100), strict=False)] == items[:100]


def test_persistent_workers_mix_each_epoch_in_another_order(splits: str) -> None:
    data = MultiTFRecordDataset(
        splits, None, {"a": 0.5, "b": 0.5}, ["number"], 20, number_of, infinite=False
    )

    def epochs() -> list[list[int]]:
        torch.manual_seed(1)
        loader = DataLoader(
            data, None, num_workers=2, persistent_workers=True, multiprocessing_context="fork"
        )
        return [[*map(int, loader)] for _ in range(3)]

    orders = epochs()
    assert [sorted(order) for order in orders] == [sorted(orders[0])] * 3
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert epochs() == orders


@pytest.mark.parametrize("ratios", [{}, {"a": 0}, {"a": -1, "b": 2}, {"a": float("nan")}])
def test_invalid_ratios_are_refused(splits: str, ratios: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="ratios"):
        MultiTFRecordDataset(splits, None, ratios)
