"""A training script that was written for HFAiLab/ffrecord, with one line changed."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ffrfs as ffrecord  # was: import ffrecord
import ffrfs.torch

COUNT = 100
BATCH_SIZE = 16


def sample(number: int) -> tuple[np.ndarray, int]:
    return np.full(8, number / COUNT, np.float32), number % 3


def doubled(sample: tuple[np.ndarray, int]) -> tuple[np.ndarray, int]:
    return sample[0] * 2, sample[1]


class CustomDataset(ffrecord.torch.Dataset):
    def __init__(self, fname: Any, check_data: bool = True, transform: Any = None) -> None:
        super().__init__(fname, check_data)
        self.transform = transform

    def process(self, indices: Any, data: Any) -> Any:
        samples = [pickle.loads(b) for b in data]
        if self.transform:
            samples = [self.transform(s) for s in samples]
        return samples


@pytest.fixture
def fname(tmp_path: Path) -> str:
    path = str(tmp_path / "train.ffr")
    writer = ffrecord.FileWriter(path, COUNT)
    for number in range(COUNT):
        writer.write_one(pickle.dumps(sample(number)))
    writer.close()
    return path


def train(fname: str, save_path: Path, epochs: int, suspend: tuple[int, int] | None) -> list[Any]:
    """Train from where `save_path` says; at `suspend` (epoch, step) save that and stop."""
    torch.manual_seed(1)
    model = torch.nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    dataset = CustomDataset(fname, check_data=True, transform=doubled)
    generator = torch.Generator()
    dataloader = ffrecord.torch.DataLoader(
        dataset, batch_size=BATCH_SIZE, shuffle=True, num_workers=2, generator=generator
    )
    state: dict[str, Any] = {"epoch": 0, "step": 0}
    with contextlib.suppress(FileNotFoundError):
        state = torch.load(save_path)
        model.load_state_dict(state["model"])
    losses = []
    start_step = state["step"]
    for epoch in range(state["epoch"], epochs):
        generator.manual_seed(epoch)
        dataloader.set_step(start_step)
        for step, (vectors, labels) in enumerate(dataloader, start_step):
            loss = torch.nn.functional.cross_entropy(model(vectors), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append((epoch, step, loss.item()))
            if (epoch, step + 1) == suspend:
                here = {"model": model.state_dict(), "epoch": epoch, "step": step + 1}
                torch.save(here, save_path)
                return losses
        assert len(dataloader) == 7 - start_step
        start_step = 0  # reset
    return losses


def test_training_goes_on_where_it_was_suspended(fname: str, tmp_path: Path) -> None:
    whole = train(fname, tmp_path / "none.pt", 2, None)
    assert [each[:2] for each in whole] == [divmod(step, 7) for step in range(14)]
    first = train(fname, tmp_path / "latest.pt", 2, (0, 3))
    second = train(fname, tmp_path / "latest.pt", 2, None)
    assert first + second == whole


def test_reading_as_its_readme_shows(fname: str) -> None:
    dataset = CustomDataset(fname)
    samples = dataset[[3, 4, 1, 0]]
    assert [label for _, label in samples] == [0, 1, 1, 0]
    subset = ffrfs.torch.Subset(dataset, range(50, 60))
    both = ffrfs.torch.ConcatDataset([subset, dataset])
    assert [label for _, label in both[[9, 10, 0]]] == [59 % 3, 0, 50 % 3]
    assert both.ffreaders() == [dataset.reader]
    loader = ffrecord.torch.DataLoader(both, batch_size=110, skippable=False)
    (vectors, labels) = next(iter(loader))
    assert (vectors.shape, labels.shape) == ((110, 8), (110,))
