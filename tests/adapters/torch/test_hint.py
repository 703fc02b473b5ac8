"""hint(): a loader's batches stay as they are, and hints run ahead of them."""

from __future__ import annotations

import logging
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from ffrfs.adapters.torch import hinted_epoch
from ffrfs.mount.client import hint_paths
from ffrfs.torch import DataLoader as OurLoader
from ffrfs.torch import hint
from tests.adapters.torch.batches import same
from tests.adapters.torch.hint_mount import TIMEOUT_S, Mount, wait_until

pytestmark = pytest.mark.usefixtures("workers_end")

COUNT = 60
BATCH_SIZE = 4


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("files")
    (folder / "d").mkdir()
    for i in range(COUNT):
        (folder / "d" / f"{i}.jpg").write_bytes(b"%d" % i)
    return str(folder)


@pytest.fixture
def mount(root: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mount]:
    monkeypatch.setattr(hinted_epoch, "_told", set())
    with Mount.at(root, monkeypatch) as mount:
        yield mount


class Hidden(Dataset[Any]):
    """Item i is i, as read from its file, and a random number of each kind."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        with open(f"{self._root}/d/{index}.jpg", "rb") as file:
            return int(file.read()), float(torch.rand(())), random.random()


class Shown(Hidden):
    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.samples = [(f"{root}/d/{i}.jpg", 0) for i in range(COUNT)]


class Named(Hidden):
    """Its `files` are not paths in the mount."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.files = [f"/elsewhere/{i}" for i in range(COUNT)]


class Batched(Hidden):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def numbers(batches: Iterable[Any]) -> list[int]:
    return [number for batch in batches for number, _, _ in batch]


class Custom(Sampler[int]):
    """When it begins, it draws from its own generator or torch's global one, and from `random`."""

    def __init__(self, data: Any, generator: torch.Generator | None) -> None:
        self.data = data
        self.generator = generator
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        order = torch.randperm(len(self.data), generator=self.generator).tolist()
        random.shuffle(order)
        yield from order[self.epoch :]


SAMPLERS: dict[str, Callable[[Any, torch.Generator | None], Any]] = {
    "random": lambda data, generator: RandomSampler(data, generator=generator),
    "repeating": lambda data, generator: RandomSampler(
        data, replacement=True, num_samples=90, generator=generator
    ),
    "weighted": lambda data, generator: WeightedRandomSampler(
        [1.0 + i for i in range(COUNT)], COUNT, generator=generator
    ),
    "subset": lambda data, generator: SubsetRandomSampler(range(10, 50), generator=generator),
    "sequential": lambda data, _: SequentialSampler(data),
    "list": lambda data, _: list(range(0, COUNT, 2)),
    "custom": Custom,
}


def run(
    loader: DataLoader[Any], left_at: int | None = None, epochs: int = 3
) -> tuple[list[list[Any]], list[float]]:
    """Return the batches of epochs (the second is left early) and what a training loop draws."""
    torch.manual_seed(1)
    random.seed(1)
    found: list[list[Any]] = []
    draws: list[float] = []
    for epoch in range(epochs):
        found.append([])
        for step, batch in enumerate(loader):
            found[-1].append(batch)
            draws += [float(torch.rand(())), random.random()]
            if epoch == 1 and step == left_at:
                break
        draws.append(float(torch.rand(())))
    return found, draws


WORKERS = {"num_workers": 2}


@pytest.mark.parametrize(
    ("kind", "has_generator", "how"),
    [
        *((kind, has_generator, {}) for kind in SAMPLERS for has_generator in (False, True)),
        ("random", False, {"num_workers": 1}),
        ("custom", True, {"num_workers": 1}),
        ("random", True, WORKERS | {"persistent_workers": True}),
        ("custom", False, WORKERS | {"persistent_workers": True}),
    ],
)
def test_hints_do_not_change_the_batches(
    mount: Mount, root: str, kind: str, has_generator: bool, how: dict[str, Any]
) -> None:
    def made(dataset: Dataset[Any]) -> DataLoader[Any]:
        generator = torch.Generator().manual_seed(5) if has_generator else None
        sampler = SAMPLERS[kind](dataset, generator)
        return DataLoader(
            dataset, BATCH_SIZE, sampler=sampler, collate_fn=same, generator=generator, **how
        )

    for dataset in (Shown(root), Hidden(root)):
        loader = made(dataset)
        assert run(hint(loader, 8, root), left_at=3) == run(made(dataset), left_at=3)


@pytest.mark.parametrize("workers", [0, 2])
def test_hints_have_the_order_of_the_samples(mount: Mount, root: str, workers: int) -> None:
    loader = DataLoader(Shown(root), BATCH_SIZE, shuffle=True, collate_fn=same, num_workers=workers)
    assert hint(loader, COUNT, root) is loader
    for epoch in range(3):
        found = numbers(loader)
        assert sorted(found) == list(range(COUNT))
        assert mount.indices(epoch, COUNT) == found


def test_hints_of_an_abandoned_epoch_are_dropped(mount: Mount, root: str) -> None:
    loader = hint(DataLoader(Shown(root), 1, collate_fn=same), 3, root)
    items = iter(loader)
    next(items)
    assert mount.indices(0, 4) == [0, 1, 2, 3]
    next(items)
    assert mount.indices(0, 1) == [4]
    del items
    assert mount.rest(0) == b""  # no mark that these hints hold
    assert numbers(loader) == list(range(COUNT))
    assert mount.indices_up_to(1, COUNT - 1)  # hints that came too late were dropped


def test_each_way_to_give_an_order(mount: Mount, root: str) -> None:
    shown = Shown(root)
    both: ConcatDataset[Any] = ConcatDataset([Subset(shown, range(50, 60)), Subset(shown, [7])])
    distributed: DistributedSampler[Any] = DistributedSampler(shown, num_replicas=2, rank=1)
    distributed.set_epoch(3)
    loaders: list[DataLoader[Any]] = [
        DataLoader(shown, batch_sampler=BatchSampler(distributed, 4, True), collate_fn=same),
        DataLoader(shown, 5, sampler=distributed, collate_fn=same),
        DataLoader(Subset(shown, [9, 3, 5, 9, 1]), collate_fn=same),
        DataLoader(both, collate_fn=same),
        DataLoader(shown, batch_size=None, sampler=[4, 2, 9], collate_fn=lambda one: [one]),
    ]
    ours: OurLoader[Any] = OurLoader(shown, 4, shuffle=True, collate_fn=same)
    ours.resume_at(9)
    for number, loader in enumerate([*loaders, ours]):
        found = numbers(hint(loader, 200, root))
        assert found, loader
        assert mount.indices(number, len(found)) == found


@pytest.mark.filterwarnings("ignore:.*set_vital:UserWarning")
def test_stateful_loader_resumes(mount: Mount, root: str) -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    makers: list[Callable[[], Any]] = [
        lambda: torchdata.StatefulDataLoader(Shown(root), 4, shuffle=True, collate_fn=same),
        lambda: torchdata.StatefulDataLoader(
            Shown(root), batch_sampler=[[i, i + 1] for i in range(20)], collate_fn=same
        ),
    ]
    for number, make in enumerate(makers):
        loader = hint(make(), 200, root)
        batches = []
        for step, batch in enumerate(loader):
            batches.append(batch)
            if step == 2:
                state = loader.state_dict()
        again = hint(make(), 200, root)
        again.load_state_dict(state)
        found = numbers(again)
        assert found == numbers(batches[3:])
        for which, expected in enumerate((numbers(batches), found), 2 * number):
            assert mount.indices(which, len(expected)) == expected


@pytest.mark.parametrize("kind", [Hidden, Batched])
@pytest.mark.parametrize("how", [{}, {"num_workers": 2, "timeout": TIMEOUT_S}])
def test_paths_are_learned_in_the_first_epoch(
    mount: Mount,
    root: str,
    caplog: pytest.LogCaptureFixture,
    kind: type[Hidden],
    how: dict[str, Any],
) -> None:
    loader = hint(DataLoader(kind(root), 4, shuffle=True, collate_fn=same, **how), 200, root)
    list(loader)
    for epoch in (1, 2):
        found = numbers(loader)
        assert mount.indices(epoch, COUNT) == found
    assert caplog.messages == [
        f"ffrfs: {kind.__name__} shows no paths (samples, imgs, paths, files); its files are "
        "learned in the first epoch, and read ahead from the second on"
    ]


def test_paths_are_learned_if_the_shown_ones_are_not_mounted(
    mount: Mount, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    loader = hint(DataLoader(Named(root), 4, shuffle=True, collate_fn=same), 200, root)
    list(loader)
    assert numbers(loader) == mount.indices(1, COUNT)
    assert caplog.messages == [
        "ffrfs: Named shows no paths of an ffrfs mount (samples, imgs, paths, files); its files "
        "are learned in the first epoch, and read ahead from the second on"
    ]


def test_only_files_of_one_mount_are_hinted(
    mount: Mount, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = ConcatDataset([Named(root), Shown(root)])
    mixed = [index for i in range(COUNT) for index in (i, COUNT + i)]
    for epoch in range(2):
        loader = hint(DataLoader(parts, 4, sampler=mixed, collate_fn=same), 200, root)
        assert numbers(loader) == [i % COUNT for i in mixed]
        assert mount.indices(epoch, COUNT) == list(range(COUNT))
    assert caplog.messages == [
        "ffrfs: only the files of one mount are read ahead: others are in another one, or in none"
    ]


GENERATOR = torch.Generator()


class Drawing(Sampler[int]):
    def __init__(self, data: Any) -> None:
        self.data = data

    def __iter__(self) -> Iterator[int]:
        for _ in range(20):
            yield random.randrange(len(self.data))


class OfAnother(Drawing):
    def __iter__(self) -> Iterator[int]:
        yield from torch.randperm(len(self.data), generator=GENERATOR).tolist()


class InComprehension(Drawing):
    def __iter__(self) -> Iterator[int]:
        return iter([int(torch.randint(9, (), generator=GENERATOR)) for _ in range(20)])


def permuted(count: int) -> list[int]:
    return torch.randperm(count, generator=GENERATOR).tolist()


class ByHelper(Drawing):
    def __iter__(self) -> Iterator[int]:
        return iter(permuted(len(self.data)))


class ByStatic(Drawing):
    @staticmethod
    def order(count: int, generator: torch.Generator = GENERATOR) -> list[int]:
        return torch.randperm(count, generator=generator).tolist()

    def __iter__(self) -> Iterator[int]:
        return iter(self.order(len(self.data)))


class ByClass(Drawing):
    own = GENERATOR

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(len(self.data), generator=self.own).tolist())


GENERATORS = {"of": [GENERATOR]}
NUMBERS = random.Random()
DRAW = NUMBERS.sample


class ByDict(Drawing):
    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(len(self.data), generator=GENERATORS["of"][0]).tolist())


class ByMethod(Drawing):
    def __iter__(self) -> Iterator[int]:
        return iter(DRAW(range(len(self.data)), 20))


class ByOwnMethod(Drawing):
    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.draws = {"one": [NUMBERS.getrandbits]}

    def __iter__(self) -> Iterator[int]:
        return iter([self.draws["one"][0](3) for _ in range(20)])


class ByOwnPartial(ByOwnMethod):
    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.draws = {"one": [partial(lambda bits, one: one(bits), one=NUMBERS.getrandbits)]}


class ByGlobalGenerators(Drawing):
    """It draws from global generators, whose states hint() puts back."""

    def __iter__(self) -> Iterator[int]:
        numpys = np.random.permutation(20).tolist()
        return iter([*random.sample(range(20), 20), *numpys, *torch.randperm(20).tolist()])


class Changing(Drawing):
    number = 0

    def __iter__(self) -> Iterator[int]:
        type(self).number += 7
        yield from range(type(self).number, COUNT)


class Uncopied(Drawing):
    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.lock = threading.Lock()

    def __iter__(self) -> Iterator[int]:
        yield from range(10)


class Talking(Drawing):
    def __iter__(self) -> Iterator[int]:
        if len(self.data) < 3:
            torch.distributed.barrier()
        yield from range(10)


def agreed(count: int) -> int:
    if count < 3:
        torch.distributed.reduce(torch.zeros(count), 0)
    return count


class TalkingByHelper(Drawing):
    def __iter__(self) -> Iterator[int]:
        yield from range(agreed(len(self.data)))


class Made(Drawing):
    """It talks to other processes only when it is made; its gather() is that of a tensor."""

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.count = agreed(len(data))

    def __iter__(self) -> Iterator[int]:
        yield from torch.arange(COUNT).gather(0, torch.arange(self.count)).tolist()


@pytest.mark.parametrize(
    ("sampler", "reason"),
    [
        (Drawing, "its sampler draws random numbers as it goes, as the training may do in between"),
        (OfAnother, "its sampler draws from a generator that is not among its attributes"),
        *(
            (kind, "its sampler draws from a generator that is not among its attributes")
            for kind in (InComprehension, ByHelper, ByStatic, ByClass)
        ),
        *(
            (kind, "its sampler draws from a generator that is not among its attributes")
            for kind in (ByDict, ByMethod, ByOwnMethod, ByOwnPartial)
        ),
        (Uncopied, "its sampler cannot be copied: cannot pickle '_thread.lock' object"),
        (Talking, "its sampler talks to other processes"),
        (TalkingByHelper, "its sampler talks to other processes"),
    ],
)
def test_samplers_with_an_unpredictable_order(
    mount: Mount,
    root: str,
    caplog: pytest.LogCaptureFixture,
    sampler: type[Drawing],
    reason: str,
) -> None:
    def found(given: Callable[[DataLoader[Any]], DataLoader[Any]]) -> Any:
        GENERATOR.manual_seed(3)
        NUMBERS.seed(3)
        dataset = Shown(root)
        loader = DataLoader(dataset, 4, sampler=sampler(dataset), collate_fn=same)
        return run(given(loader), epochs=2)

    assert found(lambda loader: hint(loader, 8, root)) == found(lambda loader: loader)
    assert caplog.messages == [f"ffrfs: nothing is read ahead: {reason}"]


@pytest.mark.parametrize("sampler", [Made, ByGlobalGenerators])
def test_samplers_with_a_predictable_order(mount: Mount, root: str, sampler: type[Drawing]) -> None:
    """hint() does not call the constructor of a sampler again."""
    dataset = Shown(root)
    loader = DataLoader(dataset, 4, sampler=sampler(dataset), collate_fn=same)
    assert numbers(hint(loader, COUNT, root)) == mount.indices(0, COUNT)


class Listing(Drawing):
    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.weights = [0.5 * i for i in range(10_000)]
        self.classes = {"a": list(range(10_000)), "b": [["x"] * 10_000, self.weights]}

    def __iter__(self) -> Iterator[int]:
        self.weights.pop()
        yield from (len(self.weights), len(self.classes["b"][1]), self.classes["a"].pop())


def test_long_lists_of_a_sampler_are_copied_as_a_whole() -> None:
    sampler = Listing([])
    calls: list[str] = []
    sys.setprofile(lambda _, event, __: calls.append(event))
    try:
        ahead = hinted_epoch.upcoming(sampler, iter(sampler), None)
    finally:
        sys.setprofile(None)
    assert len(calls) < 10_000
    assert list(ahead) == list(sampler) == [9_999, 9_999, 9_999]


def test_hints_end_if_a_copy_of_the_sampler_has_another_order(
    mount: Mount, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = Shown(root)
    batches = BatchSampler(Changing(dataset), 4, False)
    list(hint(DataLoader(dataset, batch_sampler=batches, collate_fn=same), 8, root))
    assert caplog.messages == [
        "ffrfs: nothing is read ahead: its sampler gave another order than a copy of it"
    ]


class FailingCopy(Drawing):
    def __deepcopy__(self, memo: object) -> FailingCopy:
        return FailingCopy({})

    def __iter__(self) -> Iterator[int]:
        yield from [1] if self.data else self.data["fails"]


def test_hints_that_fail_at_once_end_their_thread(mount: Mount, root: str) -> None:
    dataset = Shown(root)
    loader = hint(DataLoader(dataset, 4, sampler=FailingCopy(dataset), collate_fn=same), 8, root)
    for _ in range(2):
        assert numbers(loader) == [1]
    wait_until(lambda: all(thread.name != "ffrfs-hints" for thread in threading.enumerate()))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        yield from range(5)


def test_a_data_set_without_paths_is_reported_once(
    mount: Mount, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert len(list(hint(DataLoader(Stream()), mountpoint=root))) == 5
        assert len(list(hint(DataLoader([1, 2]), mountpoint=root))) == 2
    tensors = torch.utils.data.TensorDataset(torch.arange(5))
    loader = hint(DataLoader(tensors), mountpoint=root)
    for _ in range(3):
        assert len(list(loader)) == 5
    assert [text.removeprefix("ffrfs: ") for text in caplog.messages] == [
        "nothing is read ahead: an iterable data set does not say what it will read",
        "nothing is read ahead: a list shows no paths, and none can be learned of it",
        "TensorDataset shows no paths (samples, imgs, paths, files); its files are learned in the "
        "first epoch, and read ahead from the second on",
        "nothing is read ahead: its items opened no file of a mount that Python sees, in this "
        "process or in forked workers",
    ]


def test_without_a_mount(
    root: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hint_paths, "read_mount_table", list)
    monkeypatch.setattr(hinted_epoch, "_told", set())
    loader = hint(DataLoader(Shown(root), 4, collate_fn=same))
    for _ in range(2):
        assert numbers(loader) == list(range(COUNT))
    said = "ffrfs: nothing is read ahead: none of the paths is in an ffrfs mount"
    assert caplog.messages == [said]


def test_errors_of_the_data_loader_are_unchanged(
    mount: Mount, root: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    dataset = Shown(root)
    with pytest.raises(IndexError):
        list(hint(DataLoader(Subset(dataset, [1]), sampler=[0, 3], collate_fn=same), 8, root))
    with pytest.raises(FileNotFoundError):
        list(hint(DataLoader(Hidden(root), sampler=[0, 99], collate_fn=same), 8, root))


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="hint\\(\\) takes a DataLoader of torch, not list"):
        hint([])  # type: ignore[type-var]
    with pytest.raises(ValueError, match="ahead=0: must be at least 1"):
        hint(DataLoader([1]), 0)


def test_image_folder_of_hugging_face(mount: Mount, root: str) -> None:
    datasets = pytest.importorskip("datasets")
    paths = [f"{root}/d/{i}.jpg" for i in range(COUNT)]
    images = datasets.Dataset.from_dict({"label": list(range(COUNT)), "image": paths})
    images = images.cast_column("image", datasets.Image()).shuffle(seed=3).select(range(20))
    order = images["label"]
    stored = images.cast_column("image", datasets.Image(decode=False))
    loader = hint(DataLoader(stored, collate_fn=same), 99, root)
    assert [item["label"] for (item,) in loader] == list(order)
    assert mount.indices(0, 20) == list(order)
    assert hinted_epoch.shown_paths(images.remove_columns("image")) is None


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_embedded_images_are_not_copied(is_shuffled: bool) -> None:
    datasets = pytest.importorskip("datasets")
    stored = {"image": [{"bytes": b"%d" % i * 100_000, "path": None} for i in range(3)]}
    images = datasets.Dataset.from_dict(stored).cast_column("image", datasets.Image())
    pool = datasets.table.pa.default_memory_pool()
    peak = pool.max_memory()
    images = datasets.concatenate_datasets([images] * (peak // 300_000 + 1))  # larger than the peak
    if is_shuffled:
        images = images.shuffle(seed=3)
    assert hinted_epoch.shown_paths(images) is None
    assert pool.max_memory() == peak
