"""PrefetchSampler: the order stays as it is, and the hints run ahead of it."""

from __future__ import annotations

import gc
import pickle
import socket
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler, Subset
from torch.utils.data.distributed import DistributedSampler

from ffrfs.errors import MountError
from ffrfs.mount.client import control_client, hint_paths
from ffrfs.torch import PrefetchSampler
from tests.adapters.torch.hint_mount import TIMEOUT_S, Mount

pytestmark = pytest.mark.usefixtures("workers_end")

COUNT = 1000
PLACE = "/no/such/mount"
PATHS = [f"{PLACE}/d/{i}.jpg" for i in range(COUNT)]


@pytest.fixture
def mount(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mount]:
    with Mount.at(PLACE, monkeypatch) as mount:
        yield mount


def shuffled(seed: int = 0) -> RandomSampler:
    return RandomSampler(range(COUNT), generator=torch.Generator().manual_seed(seed))


def batched(seed: int = 0) -> BatchSampler:
    return BatchSampler(shuffled(seed), batch_size=32, drop_last=False)


def flat(items: list[Any]) -> list[int]:
    return [int(i) for item in items for i in (item if isinstance(item, list) else [item])]


def check_hints(hinted: list[int], order: list[int], ahead: int) -> None:
    """Hints are in the order of reading. Those that would come too late may be missing."""
    left = iter(order)
    assert all(index in left for index in hinted)
    assert hinted[-ahead:] == order[-ahead:]


SAMPLERS: dict[str, Callable[[], Any]] = {
    "in order": lambda: SequentialSampler(range(COUNT)),
    "shuffled": shuffled,
    "batches": batched,
    "a list": lambda: [5, 3, 3, 999, 0],
    "batches of unequal size": lambda: [[1], [], [2, 3, 4], list(range(500)), [7]],
    "tensors": lambda: list(torch.arange(10)),
    "nothing": list,
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("ahead", [1, 7, 10_000])
def test_items_are_those_of_the_wrapped_sampler(mount: Mount, name: str, ahead: int) -> None:
    expected = list(SAMPLERS[name]())
    sampler = PrefetchSampler(SAMPLERS[name](), PATHS, PLACE, ahead)
    assert list(sampler) == expected
    assert len(sampler) == len(expected)
    del sampler
    hinted = mount.indices_to_end(0)
    check_hints(hinted, flat(expected), ahead)


@pytest.mark.parametrize("make", [shuffled, batched])
def test_hints_run_ahead_of_the_items(mount: Mount, make: Callable[[], Any]) -> None:
    order = flat(list(make()))
    ahead = 100
    items = iter(PrefetchSampler(make(), PATHS, PLACE, ahead))
    yielded: list[int] = []
    hinted: list[int] = []
    while len(yielded) < COUNT - 2 * ahead:
        yielded += flat([next(items)])
        hinted += mount.indices(0, len(yielded) + ahead - len(hinted))
        assert len(yielded) + ahead <= len(hinted) <= len(yielded) + ahead + 32
        assert hinted == order[: len(hinted)]
    assert yielded == order[: len(yielded)]
    items.close()


def test_new_iteration_drops_the_old_hints(mount: Mount) -> None:
    sampler = PrefetchSampler(shuffled(), PATHS, PLACE, 10)
    first = iter(sampler)
    next(first)
    second = iter(sampler)
    next(second)
    assert not mount.rest(0).endswith(b"\0\0")
    assert len(mount.indices(1, 11)) == 11
    assert len(mount.clients) == 2
    del first
    gc.collect()
    next(second)
    assert len(mount.indices(1, 1)) == 1  # the second iteration goes on
    second.close()


def test_abandoned_epoch_drops_its_hints(mount: Mount) -> None:
    for _ in PrefetchSampler(shuffled(), PATHS, PLACE, 10):
        break
    gc.collect()
    assert not mount.rest(0).endswith(b"\0\0")


def test_mount_that_reads_no_hints_does_not_block_the_epoch(mount: Mount) -> None:
    paths = [f"{PLACE}/{'x' * 4000}/{i}" for i in range(COUNT)]
    sampler = PrefetchSampler(shuffled(), paths, PLACE, 10)
    begin_s = time.monotonic()
    assert list(sampler) == list(shuffled())
    assert time.monotonic() - begin_s < TIMEOUT_S
    del sampler
    *texts, _, _ = mount.rest(0).split(b"\0")
    hinted = [int(text.rpartition(b"/")[2]) for text in texts]
    check_hints(hinted, list(shuffled()), 10)
    assert len(hinted) < COUNT  # items that had been read by then got no hint


def test_mount_that_ends_does_not_end_the_epoch(
    mount: Mount, caplog: pytest.LogCaptureFixture
) -> None:
    sampler = PrefetchSampler(shuffled(), PATHS, PLACE, 10)
    items = iter(sampler)
    found = [next(items)]
    mount.clients[0].close()
    found += items
    assert found == list(shuffled())
    assert "Traceback" not in caplog.text


def refuse(place: str, command: str) -> socket.socket:
    raise MountError(f"{place}: not mounted")


def test_without_a_mount_there_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_client, "connect", refuse)
    sampler = PrefetchSampler(shuffled(), PATHS, PLACE)
    with pytest.warns(RuntimeWarning, match=f"nothing is read ahead: {PLACE}: not mounted") as told:
        assert list(sampler) == list(shuffled())
    assert len(told) == 1
    assert list(sampler)  # no second warning


def test_without_any_mount_there_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hint_paths, "read_mount_table", list)
    sampler = PrefetchSampler(batched(), PATHS)
    with pytest.warns(RuntimeWarning, match="none of the paths is in an ffrfs mount"):
        assert list(sampler) == list(batched())


@pytest.mark.parametrize(
    ("every", "said"),
    [
        (1, "nothing is read ahead: none of the paths is in an ffrfs mount"),
        (2, "only the files of one mount are read ahead: others are in another one, or in none"),
    ],
)
def test_paths_outside_of_the_mount_give_one_warning(mount: Mount, every: int, said: str) -> None:
    paths = ["/usr/x" if i % every == 0 else path for i, path in enumerate(PATHS)]
    sampler = PrefetchSampler(BatchSampler(SequentialSampler(range(COUNT)), 2, False), paths, PLACE)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            assert len(list(sampler)) == COUNT // 2
    assert [str(each.message) for each in told] == [said]


def test_attributes_are_those_of_the_wrapped_sampler(mount: Mount) -> None:
    wrapped = DistributedSampler(range(COUNT), num_replicas=2, rank=0, seed=1)  # type: ignore[arg-type]
    sampler = PrefetchSampler(wrapped, PATHS, PLACE)
    first = list(sampler)
    sampler.set_epoch(3)
    assert wrapped.epoch == 3
    assert list(sampler) == list(wrapped) != first
    assert len(sampler) == COUNT // 2
    batches = PrefetchSampler(batched(), PATHS, PLACE)
    assert (batches.batch_size, batches.drop_last) == (32, False)
    assert isinstance(batches.sampler, RandomSampler)
    assert not hasattr(batches, "set_epoch")
    with pytest.raises(TypeError):
        len(PrefetchSampler(iter([1]), PATHS, PLACE))


@pytest.mark.parametrize("ahead", [0, -1])
def test_ahead_is_at_least_one(ahead: int) -> None:
    with pytest.raises(ValueError, match=f"ahead={ahead}"):
        PrefetchSampler([], PATHS, PLACE, ahead)


def test_path_that_is_missing_is_an_error(mount: Mount) -> None:
    with pytest.raises(IndexError):
        list(PrefetchSampler([0, COUNT], PATHS, PLACE))


def test_sampler_can_be_pickled_while_it_hints(mount: Mount) -> None:
    sampler = PrefetchSampler([1, 2], PATHS, PLACE)
    assert list(sampler) == [1, 2]
    again = pickle.loads(pickle.dumps(sampler))
    assert list(again) == [1, 2]
    del again, sampler


class Numbers(torch.utils.data.Dataset[int]):
    """Item i is i."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> int:
        return index


@pytest.mark.parametrize(
    ("method", "by_batches"),
    [("fork", False), ("fork", True), ("forkserver", False)],
)
def test_data_loader_with_workers(mount: Mount, method: str, by_batches: bool) -> None:
    order = flat(list(batched()))
    wrapped: Any = batched() if by_batches else shuffled()
    sampler = PrefetchSampler(wrapped, PATHS, PLACE, 100)
    how: dict[str, Any] = {"batch_sampler": sampler} if by_batches else {"sampler": sampler}
    how |= {} if by_batches else {"batch_size": 32}
    loader = DataLoader(
        Numbers(), num_workers=2, multiprocessing_context=method, timeout=TIMEOUT_S, **how
    )
    assert len(loader) == 32
    for epoch in range(2):
        found = [int(i) for numbers in loader for i in numbers]
        if epoch == 0:
            assert found == order
        assert sorted(found) == list(range(COUNT))
        hinted = mount.indices_up_to(epoch, found[-1])
        check_hints(hinted, found, 100)


class Images:
    """Has `samples`, like torchvision's ImageFolder."""

    def __init__(self, paths: list[str]) -> None:
        self.samples = [(path, len(path)) for path in paths]

    def __len__(self) -> int:
        return len(self.samples)


def test_paths_of_a_data_set(mount: Mount) -> None:
    images = Images(PATHS)
    sampler = PrefetchSampler.for_dataset(images, SequentialSampler(images), PLACE, ahead=4)
    items = iter(sampler)
    assert [next(items), next(items)] == [0, 1]
    assert mount.indices(0, 5) == [0, 1, 2, 3, 4]
    items.close()
    part = Subset(images, [7, 3, 5])
    items = iter(PrefetchSampler.for_dataset(part, SequentialSampler(part), PLACE))
    assert next(items) == 0
    assert mount.indices(1, 3) == [7, 3, 5]
    items.close()
    assert sorted(PrefetchSampler.for_dataset(part, mountpoint=PLACE)) == [0, 1, 2]


def test_data_sets_without_paths() -> None:
    with pytest.raises(TypeError, match=r"^list has no list of paths \(samples, imgs"):
        PrefetchSampler.for_dataset([1, 2])


@pytest.mark.parametrize(
    "wrap", [lambda sampler: sampler, lambda sampler: BatchSampler(sampler, 2, False)]
)
def test_fewer_paths_than_samples(wrap: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match=r"^999 paths for 1,000 samples: paths\[index\]"):
        PrefetchSampler(wrap(RandomSampler(range(1000))), PATHS[:999])
    PrefetchSampler(wrap(RandomSampler(range(999))), PATHS)
