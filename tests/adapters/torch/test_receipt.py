"""DataLoader.receipt(): which samples an epoch gave once, more often and never, and the order."""

from __future__ import annotations

import copy
import hashlib
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import DistributedSampler, IterableDataset, RandomSampler, Subset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ffrfs import mounted, pack_folder, prefetch
from ffrfs.mount.client import control_client
from ffrfs.torch import DataLoader, PackedFolderDataset
from tests.adapters.program_run import TORCH_PROGRAMS, run
from tests.adapters.torch.batches import flat, same
from tests.adapters.torch.hint_mount import wait_until
from tests.ffrecord_file import flip_byte, record_extents
from tests.folder.folder_model import make_folder

COUNT = 20
BATCH = 3
FORKED = {"num_workers": 2, "multiprocessing_context": "fork", "timeout": 60}
WORKERS: dict[str, dict[str, Any]] = {
    "alone": {},
    "fork": FORKED,
    "persistent": FORKED | {"persistent_workers": True},
}
how = pytest.mark.parametrize("how", WORKERS.values(), ids=WORKERS.keys())


class Numbers:
    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> int:
        return range(COUNT)[index]


def digest(names: Iterable[object]) -> str:
    return hashlib.sha256(b"".join(f"{name}\0".encode() for name in names)).hexdigest()


def numbers(kind: Callable[..., Any] = DataLoader, **options: Any) -> Any:
    return kind(Numbers(), BATCH, collate_fn=same, **options)


@how
def test_receipt_of_whole_epochs(how: dict[str, Any]) -> None:
    def seeded() -> torch.Generator:
        return torch.Generator().manual_seed(3)

    plain = numbers(TorchLoader, shuffle=True, generator=seeded(), **how)
    loader = numbers(shuffle=True, generator=seeded(), **how)
    assert loader.receipt() is None
    orders = []
    for _ in range(2):
        torch.manual_seed(1)
        expected = flat(plain), torch.rand(())
        torch.manual_seed(1)
        order = flat(loader)
        assert (order, torch.rand(())) == expected
        receipt = loader.receipt()
        assert receipt == (COUNT, COUNT, 0, 0, [], COUNT, digest(order), True, 0)
        assert str(receipt) == (
            "20 samples, 100.00 % given: 20 once, 0 more often, 0 never; "
            f"order of 20, sha256 {digest(order)}"
        )
        orders.append(order)
    assert orders[0] != orders[1]


@how
def test_an_epoch_that_ends_early(how: dict[str, Any]) -> None:
    """Samples that workers have only read ahead do not count as given."""
    loader = numbers(**how)
    for batch in loader:
        if batch[0] == BATCH:
            break
    never = [*range(2 * BATCH, COUNT)]
    expected = (COUNT, 2 * BATCH, 0, len(never), never, 2 * BATCH, digest(range(2 * BATCH)))
    assert loader.receipt() == (*expected, False, 0)
    assert "14 never; order of 6, left before its end, sha256 " in str(loader.receipt())
    again = iter(loader)
    assert loader.receipt().given == 0
    assert len(list(again)) == 7
    assert loader.receipt()[:5] == (COUNT, COUNT, 0, 0, [])


def test_repeated_missing_and_resumed_samples() -> None:
    loader = numbers(sampler=[5, 5, 5, 7, 7, -1])
    list(loader)
    never = [i for i in range(COUNT) if i not in (5, 7, 19)]
    order = [5, 5, 5, 7, 7, 19]
    assert loader.receipt() == (COUNT, 1, 2, 17, never, 6, digest(order), True, 0)
    loader.resume_at(1)
    list(loader)
    assert loader.receipt()[-3:] == (digest(order[3:]), True, 0)
    drawn = numbers(sampler=RandomSampler(range(COUNT), replacement=True, num_samples=200))
    list(drawn)
    found = drawn.receipt()
    assert (found.once + found.more + found.never, found.given) == (COUNT, 200)
    assert found.more > 0


def test_ranks() -> None:
    """Each rank has a receipt of its own share."""
    never = []
    for rank in (0, 1):
        sampler = DistributedSampler(range(COUNT), 2, rank, seed=4)  # type: ignore[arg-type]
        sampler.set_epoch(2)
        loader = numbers(sampler=sampler)
        order = flat(loader)
        receipt = loader.receipt()
        assert receipt[:4] == (COUNT, 10, 0, 10)
        assert receipt.sha256 == digest(order)
        never.append(set(receipt.never_samples))
    assert never[0].isdisjoint(never[1])


def test_single_samples_and_batches_out_of_order() -> None:
    loader = DataLoader(Numbers(), None, collate_fn=same)  # type: ignore[arg-type]
    list(loader)
    assert loader.receipt() == (COUNT, COUNT, 0, 0, [], COUNT, digest(range(COUNT)), True, 0)
    unordered = numbers(in_order=False, **FORKED)
    list(unordered)
    assert unordered.receipt() == loader.receipt()


@how
def test_files_of_a_pack(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: dict[str, Any]
) -> None:
    """The digest equals that of a mount's hints; damaged files are counted."""
    files = [{f"{i}.é": b"%d" % i * 2000 for i in range(first, 6, 2)} for first in (0, 1)]
    make_folder(tmp_path / "s", {"c0": files[0], "c1": files[1]})
    pack = tmp_path / "x.ffr"
    pack_folder(tmp_path / "s", pack)
    flip_byte(pack, record_extents(pack)[2][0])
    dataset = PackedFolderDataset(pack, loader=lambda path, data: path, on_error="skip")
    loader = DataLoader(dataset, 2, collate_fn=same, **how)
    for _ in range(2):
        caplog.clear()
        assert len(flat(loader)) == 5
        order = digest(f"/{path}" for path in dataset.paths)
        assert loader.receipt() == (6, 6, 0, 0, [], 6, order, True, 1)
        assert [text[:30] for text in caplog.messages if "1 sample" in text] == [
            "ffrfs: 1 sample could not be r"
        ]
        assert ", 0 never, 1 could not be read; " in str(loader.receipt())
    some = DataLoader(Subset(dataset, [5, 0]), collate_fn=same)
    list(some)
    found = some.receipt()
    assert found is not None
    assert found.sha256 == digest(f"/{dataset.paths[i]}" for i in (5, 0))


def test_the_digest_equals_that_of_a_mount(fuse: None, tmp_path: Path) -> None:
    make_folder(tmp_path / "s", {"a": {f"{i}": b"%d" % i for i in range(9)}})
    pack_folder(tmp_path / "s", tmp_path / "x.ffr")
    dataset = PackedFolderDataset(tmp_path / "x.ffr", loader=lambda path, data: path)
    loader = DataLoader(dataset, 4, True, collate_fn=same)
    order = [path for path, _ in flat(loader)]
    receipt = loader.receipt()
    assert receipt is not None

    def digests() -> list[str]:
        answer: Any = control_client.ask(str(root), "coverage", mark=0)
        return [each["sha256"] for each in answer["orders"]]

    with mounted(tmp_path / "x.ffr") as root:
        with prefetch([root / path for path in order]) as hints:
            hints.wait()
        wait_until(lambda: digests() != [])
        assert digests() == [receipt.sha256]


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A pack of six files, the first of which cannot be read."""
    make_folder(tmp_path / "s", {f"{i}": b"%d" % i * 2000 for i in range(6)})
    pack = tmp_path / "x.ffr"
    pack_folder(tmp_path / "s", pack)
    flip_byte(pack, record_extents(pack)[0][0])
    return pack


def test_an_epoch_that_ends_early_reports_bad_samples(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in DataLoader(PackedFolderDataset(damaged, on_error="skip"), 3, collate_fn=same):
        break
    assert [text for text in caplog.messages if "1 sample could not be read: " in text]


ENDS = """
import sys
from ffrfs.torch import DataLoader, PackedFolderDataset
loader = DataLoader(PackedFolderDataset(sys.argv[1], on_error="skip"), 3, collate_fn=list)
batches = iter(loader)
next(batches)
"""


@TORCH_PROGRAMS
def test_a_program_that_ends_in_an_epoch_reports_bad_samples(damaged: Path) -> None:
    """It runs a program of its own, which loads torch."""
    words = [sys.executable, "-c", ENDS, str(damaged)]
    said = run("sh", "-c", 'exec "$@" 2>&1', "sh", *words)
    assert "1 sample could not be read: " in said
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@how
def test_an_epoch_that_goes_on_after_an_error(how: dict[str, Any]) -> None:
    class Failing(Numbers):
        def __getitem__(self, index: int) -> int:
            if index == 4:
                raise KeyError(index)
            return index

    loader = DataLoader(Failing(), BATCH, collate_fn=same, **how)  # type: ignore[arg-type]
    batches = iter(loader)
    given = next(batches)
    with pytest.raises(KeyError):
        next(batches)
    given += flat(batches)
    receipt = loader.receipt()
    assert receipt is not None
    assert (receipt.sha256, receipt.never_samples) == (digest(given), [3, 4, 5])


def test_an_epoch_that_goes_on_after_an_interruption() -> None:
    class Interrupted(Numbers):
        is_over = False

        def __getitem__(self, index: int) -> int:
            if index == 4 and not self.is_over:
                self.is_over = True
                raise KeyboardInterrupt
            return index

    loader = DataLoader(Interrupted(), BATCH, collate_fn=same)  # type: ignore[arg-type]
    batches = iter(loader)
    given = next(batches)
    with pytest.raises(KeyboardInterrupt):
        next(batches)
    given += flat(batches)
    receipt = loader.receipt()
    assert receipt is not None
    assert given == [0, 1, 2, *range(6, COUNT)]
    assert (receipt.sha256, receipt.never_samples) == (digest(given), [3, 4, 5])
    assert receipt.is_complete


def test_the_iterator_is_of_torchs_class() -> None:
    loader = numbers()
    batches = iter(loader)
    assert isinstance(batches, _BaseDataLoaderIter)
    next(batches)
    for copied in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert copied.receipt() is None
        assert len(list(copied)) == 7
    assert len(list(batches)) == 6
    assert loader.receipt().is_complete


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(COUNT))


class Named:
    def __getitem__(self, name: str) -> str:
        return name


@pytest.mark.parametrize(
    ("dataset", "options", "reason"),
    [
        (Stream(), {}, "Stream is iterable"),
        (Named(), {"sampler": ["ab", "c"]}, "Named does not say which samples it has"),
        (Numbers(), {"sampler": [1, 20]}, "IndexError"),
        (Numbers(), {"sampler": [1], "skippable": False}, "skippable=True"),
    ],
)
def test_loaders_without_a_receipt(dataset: Any, options: dict[str, Any], reason: str) -> None:
    loader = DataLoader(dataset, BATCH, collate_fn=same, **options)
    try:
        assert flat(loader)
    except IndexError:
        assert reason == "IndexError"
        receipt = loader.receipt()
        assert receipt is not None
        assert receipt.given == 0
        return
    with pytest.raises(ValueError, match=reason):
        loader.receipt()


def test_a_sampler_whose_keys_are_no_numbers() -> None:
    class Both(Named):
        def __len__(self) -> int:
            return COUNT

    keys: Sequence[str] = ["ab", "c"]
    loader = DataLoader(Both(), BATCH, sampler=keys, collate_fn=same)  # type: ignore[arg-type]
    assert flat(loader) == keys
    with pytest.raises(ValueError, match=r"its sampler gave \['ab', 'c'\], not numbers"):
        loader.receipt()
