"""DataLoader.resume_at() and set_step(): the batches are those of torch's own loader."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)
from torch.utils.data import DataLoader as TorchDataLoader

from ffrfs.torch import DataLoader, Dataset
from tests.adapters.torch.batches import same
from tests.ffrecord_file import write_records

COUNT = 23
TIMEOUT_S = 60
EPOCHS = 3

pytestmark = pytest.mark.usefixtures("workers_end")


class Numbers:
    """A plain data set that notes which items are read (in this process)."""

    def __init__(self, count: int = COUNT) -> None:
        self.count = count
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        self.read.append(index)
        return index


class Seeds(Numbers):
    """An item shows its worker's seed, and a random number that the worker draws."""

    def __getitem__(self, index: int) -> Any:
        worker = get_worker_info()
        return index, worker.id, worker.seed, torch.rand(()).item()


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(COUNT))


class EagerBatchSampler:
    """Draws its order when it is iterated, not when its first batch is taken."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(COUNT, generator=self.generator).tolist()
        return iter([order[first : first + 4] for first in range(0, COUNT, 4)])

    def __len__(self) -> int:
        return 6


def seeded(seed: int = 7) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def epochs(loader: TorchDataLoader[Any], count: int = EPOCHS) -> list[list[Any]]:
    return [list(loader) for _ in range(count)]


def resume(loader: DataLoader[Any], epoch: int, step: int) -> None:
    """Go to a step of an epoch, as the docstring of resume_at() says."""
    count = len(loader)
    for _ in range(epoch):
        loader.resume_at(count)
        assert list(loader) == []
    loader.resume_at(step)


@given(st.data())
def test_resume_at_gives_the_rest_of_the_run(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40), "count")
    batch_size = data.draw(st.integers(1, 12), "batch size")
    drop_last = data.draw(st.booleans(), "drop_last")
    seed = data.draw(st.none() | st.integers(0, 2**32 - 1), "seed")
    epoch = data.draw(st.integers(0, EPOCHS - 1), "epoch")

    def loader(kind: type[TorchDataLoader[Any]]) -> tuple[Any, Numbers]:
        options: dict[str, Any] = {"batch_size": batch_size, "drop_last": drop_last}
        if seed is not None:
            options |= {"shuffle": True, "generator": seeded(seed)}
        dataset = Numbers(count)
        return kind(dataset, collate_fn=list, **options), dataset  # type: ignore[arg-type]

    uninterrupted = epochs(loader(TorchDataLoader)[0])
    if seed is None:  # torch is trusted only for random orders
        batches = [list(range(count))[i : i + batch_size] for i in range(0, count, batch_size)]
        whole = [batch for batch in batches if len(batch) == batch_size or not drop_last]
        assert uninterrupted == [whole] * EPOCHS
    step = data.draw(st.integers(0, len(uninterrupted[0])), "step")
    ours, dataset = loader(DataLoader)
    resume(ours, epoch, step)
    expected = [uninterrupted[epoch][step:], *uninterrupted[epoch + 1 :]]
    assert epochs(ours, EPOCHS - epoch) == expected
    assert dataset.read == [number for batches in expected for batch in batches for number in batch]


SOURCES: dict[str, Callable[[], dict[str, Any]]] = {
    "in order": lambda: {"batch_size": 4},
    "shuffle": lambda: {"batch_size": 4, "shuffle": True, "generator": seeded()},
    "drop_last": lambda: {
        **{"batch_size": 4, "shuffle": True, "drop_last": True, "generator": seeded()}
    },
    "sampler": lambda: {
        "batch_size": 4,
        "sampler": SubsetRandomSampler(range(3, 19), generator := seeded()),
        "generator": generator,
    },
    "sampler that draws as it goes": lambda: {
        "batch_size": 3,
        "sampler": RandomSampler(range(COUNT), True, 100, generator := seeded()),
        "generator": generator,
    },
    "sampler of its own generator": lambda: {
        "batch_size": 4,
        "sampler": WeightedRandomSampler([1.0] * COUNT, 30, generator=seeded(1)),
    },
    "list as sampler": lambda: {"batch_size": 4, "sampler": [5, 3, 3, 8, 1]},
    "batch_sampler": lambda: {
        "batch_sampler": BatchSampler(
            RandomSampler(range(COUNT), generator=(generator := seeded())), 4, False
        ),
        "generator": generator,
    },
    "eager batch_sampler": lambda: {
        "batch_sampler": EagerBatchSampler(generator := seeded()),
        "generator": generator,
    },
    "lists as batch_sampler": lambda: {"batch_sampler": [[1, 2], [3], [4, 5, 6]]},
    "no batches": lambda: {"batch_size": None, "shuffle": True, "generator": seeded()},
}
FORKED: dict[str, Any] = {"multiprocessing_context": "fork", "timeout": TIMEOUT_S}
TWO_FORKED: dict[str, Any] = FORKED | {"num_workers": 2}
WORKERS: dict[str, dict[str, Any]] = {
    "here": {},
    "workers": {"num_workers": 2},
    "persistent workers": {"num_workers": 2, "persistent_workers": True},
}


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        *(("here", kind) for kind in SOURCES),
        # Sources that draw before the workers begin, meanwhile, or not at all; and single items.
        *(("workers", kind) for kind in ("drop_last", "eager batch_sampler", "list as sampler")),
        *(("workers", kind) for kind in ("sampler that draws as it goes", "no batches")),
        *(("persistent workers", kind) for kind in ("shuffle", "eager batch_sampler")),
        *(("persistent workers", kind) for kind in ("sampler that draws as it goes", "no batches")),
    ],
)
def test_batches_are_those_of_an_uninterrupted_run(how: str, kind: str) -> None:
    source, workers = SOURCES[kind], WORKERS[how]
    options = dict(workers, collate_fn=same)
    resumed = [(1, 1)]  # it passes over the first epoch
    if workers:
        options |= FORKED | {"prefetch_factor": 1}
    else:
        resumed += [(0, 0), (0, 2)]
    expected = epochs(TorchDataLoader(Numbers(), **source(), **options))  # type: ignore[arg-type]
    for epoch, step in resumed:
        loader = DataLoader(Numbers(), **source(), **options)
        resume(loader, epoch, step)
        assert epochs(loader, EPOCHS - epoch) == [expected[epoch][step:], *expected[epoch + 1 :]]


def test_resuming_a_later_epoch_from_the_generators_state() -> None:
    def loader(kind: Any, generator: torch.Generator) -> Any:
        return kind(Numbers(), 4, True, generator=generator, **TWO_FORKED)

    generator = seeded()
    uninterrupted = loader(TorchDataLoader, generator)
    list(uninterrupted)
    state = generator.get_state()
    expected = [[batch.tolist() for batch in uninterrupted] for _ in range(2)]
    generator = torch.Generator()
    generator.set_state(state)
    resumed = loader(DataLoader, generator)
    resumed.resume_at(3)
    found = [[batch.tolist() for batch in resumed] for _ in range(2)]
    assert found == [expected[0][3:], expected[1]]


def test_without_a_generator_torchs_global_one_gives_the_order() -> None:
    loader = DataLoader(Numbers(), 4, shuffle=True, collate_fn=same)  # type: ignore[arg-type]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        expected = epochs(loader, 2)
        torch.manual_seed(3)
        loader.resume_at(4)
        assert epochs(loader, 2) == [expected[0][4:], expected[1]]


def numbers(epoch: list[Any]) -> list[list[int]]:
    return [[number for number, *_ in batch] for batch in epoch]


def worker_seeds(epoch: list[Any]) -> set[Any]:
    return {(worker, seed) for batch in epoch for _, worker, seed, _ in batch}


def test_the_seeds_of_workers() -> None:
    def loader(kind: Any) -> Any:
        return kind(Seeds(), 4, True, generator=seeded(), collate_fn=same, **TWO_FORKED)

    expected = epochs(loader(TorchDataLoader), 2)
    resumed = loader(DataLoader)
    resumed.resume_at(3)
    found = epochs(resumed, 2)
    assert numbers(found[0]) == numbers(expected[0])[3:]
    assert worker_seeds(found[0]) == worker_seeds(expected[0])
    # Workers draw the same numbers again only from the next epoch on.
    assert found[0] != expected[0][3:]
    assert found[1] == expected[1]


def test_batches_out_of_order() -> None:
    loader = DataLoader(Numbers(), 4, in_order=False, collate_fn=tuple, **TWO_FORKED)
    loader.resume_at(2)
    assert set(loader) == {tuple(range(i, min(i + 4, COUNT))) for i in range(8, COUNT, 4)}
    assert len(list(loader)) == 6


def test_records_that_are_skipped_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Sizes(Dataset):
        def process(self, indices: Sequence[Any], data: list[Any]) -> list[int]:
            return [len(record) for record in data]

    dataset = Sizes(write_records(tmp_path / "a.ffr", [b"x" * number for number in range(COUNT)]))
    reads = []
    read = dataset.reader.read
    monkeypatch.setattr(dataset.reader, "read", lambda some: reads.append(some) or read(some))
    loader = DataLoader(dataset, 8)
    loader.resume_at(1)
    assert [batch.tolist() for batch in loader] == [[*range(8, 16)], [*range(16, 23)]]
    assert reads == [[*range(8, 16)], [*range(16, 23)]]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_length_excludes_skipped_batches(workers: int) -> None:
    loader = DataLoader(Numbers(), 4, num_workers=workers, **(FORKED if workers else {}))
    assert len(loader) == 6
    loader.resume_at(2)
    assert len(loader) == 4
    batches = iter(loader)
    assert len(loader) == len(batches) == 4
    for _ in range(4):
        next(batches)
        assert len(loader) == 4
    assert next(batches, None) is None
    batches = iter(loader)
    assert len(loader) == len(list(batches)) == 6
    loader.resume_at(2)
    loader.resume_at(0)
    assert len(loader) == len(list(loader)) == 6


def test_resume_at_affects_only_the_next_epoch() -> None:
    loader = DataLoader(Numbers(), 4, collate_fn=same)  # type: ignore[arg-type]
    under_way = iter(loader)
    loader.resume_at(4)
    assert [batch[0] for batch in under_way] == [0, 4, 8, 12, 16, 20]
    abandoned = iter(loader)
    assert [batch[0] for batch in loader] == [0, 4, 8, 12, 16, 20]
    assert [batch[0] for batch in abandoned] == [16, 20]


def test_resume_at_survives_an_epoch_that_fails_to_begin() -> None:
    class Failing(list[int]):
        fails = True

        def __iter__(self) -> Iterator[int]:
            if self.fails:
                raise OSError("no process")
            return super().__iter__()

    sampler = Failing(range(8))
    loader = DataLoader(Numbers(), None, sampler=sampler)  # type: ignore[arg-type]
    loader.resume_at(6)
    with pytest.raises(OSError, match="no process"):
        list(loader)
    sampler.fails = False
    assert list(loader) == [6, 7]
    assert len(list(loader)) == 8


@pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS.keys())
def test_set_step_skips_in_every_epoch_until_it_is_reset(workers: dict[str, Any]) -> None:
    options = {"collate_fn": same} | workers | (FORKED if workers else {})
    expected = epochs(
        TorchDataLoader(Numbers(), 4, True, generator=seeded(), **options),  # type: ignore[arg-type]
        4,
    )
    loader = DataLoader(Numbers(), 4, True, generator=seeded(), **options)
    loader.set_step(2)
    found = []
    for _ in range(3):
        assert len(loader) == 4
        found.append(list(loader))
    assert len(loader) == 4
    loader.set_step(0)
    assert len(loader) == 6
    found.append(list(loader))
    assert found == [*(epoch[2:] for epoch in expected[:3]), expected[3]]


def test_the_later_of_set_step_and_resume_at_counts() -> None:
    loader = DataLoader(Numbers(), 4, collate_fn=same)  # type: ignore[arg-type]
    loader.set_step(2)
    loader.resume_at(5)
    assert [len(loader), *map(len, epochs(loader)), len(loader)] == [1, 1, 6, 6, 6]
    loader.resume_at(5)
    loader.set_step(2)
    assert [len(loader), *map(len, epochs(loader)), len(loader)] == [4, 4, 4, 4, 4]
    under_way = iter(loader)
    loader.set_step(0)
    assert (len(list(under_way)), len(list(loader))) == (4, 6)


@pytest.mark.parametrize("name", ["set_step", "resume_at"])
@pytest.mark.parametrize("step", [-1, 7])
def test_a_step_out_of_range(step: int, name: str) -> None:
    loader = DataLoader(Numbers(), 4)  # type: ignore[arg-type]
    skip = getattr(loader, name)
    with pytest.raises(ValueError, match=f"step {step} "):
        skip(step)
    assert [len(epoch) for epoch in epochs(loader, 2)] == [6, 6]
    with pytest.raises(TypeError):
        skip(1.0)


def test_a_sampler_without_a_length() -> None:
    loader = DataLoader(Numbers(), batch_sampler=([i, i + 1] for i in range(0, 8, 2)))
    loader.resume_at(3)
    assert [batch.tolist() for batch in loader] == [[6, 7]]
    with pytest.raises(TypeError, match="len"):
        len(loader)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_an_iterable_data_set_cannot_skip(batch_size: int | None) -> None:
    loader = DataLoader(Stream(), batch_size)
    for step in (0, 1):
        for skip in (loader.resume_at, loader.set_step):
            with pytest.raises(TypeError, match="Stream is iterable: it cannot skip without read"):
                skip(step)
    assert len(list(loader)) == (6 if batch_size else COUNT)


def test_a_data_set_with_unrelated_dataset_attributes() -> None:
    data = Numbers()
    parts = iter([1, 2])
    for name, value in {"dataset": data, "datasets": parts}.items():
        setattr(data, name, value)
    assert len(list(DataLoader(data, 4))) == 6  # type: ignore[arg-type]
    assert list(parts) == [1, 2]
    data.datasets = None  # type: ignore[attr-defined]
    assert len(list(DataLoader(data, 4))) == 6  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["bad_samples", "dataset", "datasets"])
def test_the_main_process_reads_no_properties_of_a_data_set(name: str) -> None:
    """A property may open a file, which forked workers would share."""

    def opened(_: object) -> None:
        raise AssertionError("in the main process")

    kind = type("Lazy", (Numbers,), {name: property(opened)})
    assert len(list(DataLoader(kind(), 4))) == 6


def test_a_loader_that_is_not_skippable() -> None:
    loader = DataLoader(Numbers(), 4, skippable=False)  # type: ignore[arg-type]
    assert type(loader.batch_sampler) is BatchSampler
    assert loader.skippable is False
    for name in ("set_step", "resume_at"):
        with pytest.raises(ValueError, match=rf"^{name}\(\) .*skippable=True"):
            getattr(loader, name)(0)
    assert len(list(loader)) == len(loader) == 6
    batches = [[1], [2, 3]]
    assert DataLoader(Numbers(), batch_sampler=batches, skippable=False).batch_sampler is batches


def test_every_argument_of_torch_is_passed_on() -> None:
    def collate(items: list[int]) -> list[int]:
        return items

    def begin(worker: int) -> None: ...

    options = {
        **{"dataset": Numbers(), "batch_size": 3, "sampler": [2, 1, 0, 5], "num_workers": 1},
        **{"collate_fn": collate, "drop_last": True, "timeout": TIMEOUT_S},
        **{"worker_init_fn": begin, "generator": seeded(), "prefetch_factor": 3},
        **{"persistent_workers": True, "in_order": False, "shuffle": None, "pin_memory": False},
        **{"batch_sampler": None, "pin_memory_device": ""},
        "multiprocessing_context": multiprocessing.get_context("fork"),
    }
    options = {name: options[name] for name in inspect.signature(TorchDataLoader).parameters}
    loader = DataLoader(**options)
    for name in options.keys() - {"batch_sampler", "shuffle"}:
        assert getattr(loader, name, options[name]) is options[name]
    assert list(loader) == [[2, 1, 0]]
    in_order = DataLoader(options["dataset"], 3, None, [2, 1], None, 0, collate, False, True)
    assert (in_order.batch_size, in_order.drop_last, list(in_order)) == (3, True, [])


def test_samplers_keep_their_names_and_attributes() -> None:
    sampler = DistributedSampler(range(COUNT), 2, 1, seed=5)  # type: ignore[arg-type]
    loader = DataLoader(Numbers(), 4, sampler=sampler, collate_fn=same)  # type: ignore[arg-type]
    assert loader.sampler is loader.batch_sampler.sampler is sampler
    assert (loader.batch_size, loader.batch_sampler.batch_size) == (4, 4)
    first = list(loader)
    loader.batch_sampler.sampler.set_epoch(1)
    loader.resume_at(1)
    second = list(loader)
    loader.sampler.set_epoch(0)
    assert list(loader) == first != second
    loader.batch_sampler.batch_size = 5
    assert [len(batch) for batch in loader] == [5, 5, 2]
    with pytest.raises(AttributeError, match=r"BatchSampler.*set_epoch"):
        loader.batch_sampler.set_epoch(1)
    for name in ("sampler", "batch_sampler"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after"):
            setattr(loader, name, sampler)
    items = DataLoader(Numbers(), None, sampler=sampler)  # type: ignore[arg-type]
    items.sampler.set_epoch(3)
    assert (items.batch_sampler, sampler.epoch) == (None, 3)


class Copied(BatchSampler):
    """A batch sampler with its own way to be copied."""

    def __deepcopy__(self, _: object) -> Copied:
        return Copied(self.sampler, self.batch_size, self.drop_last)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_of_a_loader(copied: Callable[[Any], Any]) -> None:
    batches = Copied(SequentialSampler(range(COUNT)), 4, False)
    loader = DataLoader(Numbers(), batch_sampler=batches, collate_fn=same)  # type: ignore[arg-type]
    loader.resume_at(4)
    again = copied(loader)
    assert [[batch[0] for batch in each] for each in (again, loader, again)] == [
        *([16, 20], [16, 20], [0, 4, 8, 12, 16, 20])
    ]
