"""`make demo-train`: a folder, a pack, a mount, a training that is stopped and resumed.

    python train.py [--images N] [--epochs N] [--workers N]

Draws pictures of three classes, packs their folder, mounts the pack, and trains a small
network on the CPU. The data set opens plain paths, as it would in the folder itself; only the
PrefetchSampler around its sampler comes from ffrfs. In the middle of an epoch everything is
saved, and at the end the rest is trained once more from there, with set_step(). Ends with
status 1 if the batches then differ. Leaves nothing behind.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import sample_folder
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, RandomSampler

import ffrfs
from ffrfs.torch import DataLoader, PrefetchSampler

BATCH_SIZE = 32
SIDE = 64  # pixels of the network's input
SEED = 7
JPEG = [cv2.IMWRITE_JPEG_QUALITY, 80]

# Each worker uses one core. And locks of OpenCV's threads would stay locked in a forked worker.
cv2.setNumThreads(0)

Batches = dict[tuple[int, int], list[int]]  # the pictures' numbers, by epoch and step


class Pictures(Dataset[tuple[Tensor, int, int]]):
    """Yields (picture, its class, its number) of the files; each class has a folder."""

    def __init__(self, root: Path) -> None:
        self.classes = sorted(path.name for path in root.iterdir())
        # Listing also makes the kernel know all the files, so that its page cache can take
        # files that are read ahead.
        found = sorted(root.glob("*/*.jpg"))
        self.paths = [str(path) for path in found]
        self.labels = [self.classes.index(path.parent.name) for path in found]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int, int]:
        image = cv2.imread(self.paths[index])
        if image is None:
            raise OSError(f"{self.paths[index]}: no picture")
        image = cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        return torch.from_numpy(image).permute(2, 0, 1) / 255, self.labels[index], index


class Checkpoint(NamedTuple):
    """Where to save, and when: before this step of this epoch, both counted from 0."""

    path: Path
    epoch: int
    step: int


class Training:
    """The state that a checkpoint restores, and the loop of the training."""

    def __init__(self, root: Path, workers: int) -> None:
        torch.manual_seed(SEED)
        self.pictures = Pictures(root)
        self.model = nn.Sequential(
            *(nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(4)),
            *(nn.Flatten(), nn.Linear(32 * 4 * 4, len(self.pictures.classes))),
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        # Only this generator decides the order of every epoch.
        self.generator = torch.Generator().manual_seed(SEED)
        order = RandomSampler(self.pictures, generator=self.generator)
        self.loader = DataLoader(
            self.pictures,
            batch_size=BATCH_SIZE,
            sampler=PrefetchSampler(order, self.pictures.paths, mountpoint=root),
            num_workers=workers,
            generator=self.generator,
        )
        self.epoch = 0
        self.step = 0

    def run(self, epochs: int, checkpoint: Checkpoint | None = None) -> Batches:
        """Train to the end; return the pictures' numbers of each batch."""
        seen: Batches = {}
        while self.epoch < epochs:
            self.run_epoch(checkpoint, seen)
            self.epoch, self.step = self.epoch + 1, 0
        return seen

    def run_epoch(self, checkpoint: Checkpoint | None, seen: Batches) -> None:
        before = self.generator.get_state()  # the order is drawn when the epoch begins
        self.loader.set_step(self.step)  # earlier steps are not read
        progress = Progress()
        for images, labels, indices in self.loader:
            if checkpoint and (self.epoch, self.step) == checkpoint[1:]:
                self.save(checkpoint.path, before)
            scores = self.model(images)
            loss = nn.functional.cross_entropy(scores, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            progress.add(loss, scores, labels)
            seen[self.epoch, self.step] = indices.tolist()
            self.step += 1
        print(f"   epoch {self.epoch}: {progress}")

    def save(self, path: Path, generator_state: Tensor) -> None:
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": generator_state,  # the state at the beginning of the epoch
            "epoch": self.epoch,
            "step": self.step,
        }
        torch.save(state, path)

    def load(self, path: Path) -> None:
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.epoch, self.step = state["epoch"], state["step"]


class Progress:
    """The figures of one epoch, for people."""

    def __init__(self) -> None:
        self.start_s = time.perf_counter()
        self.count = self.right = 0
        self.loss = 0.0

    def add(self, loss: Tensor, scores: Tensor, labels: Tensor) -> None:
        self.count += len(labels)
        self.loss += loss.item() * len(labels)
        self.right += int((scores.argmax(1) == labels).sum())

    def __str__(self) -> str:
        speed = self.count / (time.perf_counter() - self.start_s)
        loss, accuracy = self.loss / self.count, 100 * self.right / self.count
        return f"loss {loss:.3f}, accuracy {accuracy:.1f} %, {speed:,.0f} images/s"


def draw_pictures(folder: Path, count: int) -> None:
    random = np.random.default_rng(SEED)
    for kind in sample_folder.CLASSES:
        (folder / kind).mkdir(parents=True)
    for number in range(count):
        kind = sample_folder.CLASSES[number % len(sample_folder.CLASSES)]
        path = folder / kind / f"{number:05}.jpg"
        if not cv2.imwrite(str(path), sample_folder.draw(kind, random), JPEG):
            raise OSError(f"cv2.imwrite could not write {path}")


def show_stats(root: Path) -> None:
    """Print the lines of `ffrfs stats` about hints."""
    command = [sys.executable, "-m", "ffrfs", "stats", root]
    stats = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(*(f"   {line}" for line in stats.splitlines() if line.startswith("prefetch")), sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Train on a mounted pack, stop, go on.")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ffrfs-train-") as work:
        return show(Path(work), args.images, args.epochs, args.workers)


def show(work: Path, images: int, epochs: int, workers: int) -> int:
    folder, pack = work / "pictures", work / "pictures.ffr"
    print(f"Drawing {images} pictures")
    draw_pictures(folder, images)
    ffrfs.pack_folder(folder, pack)
    print(f"Packed: {pack.stat().st_size / 1e6:.0f} MB in one file")
    steps = -(-images // BATCH_SIZE)
    checkpoint = Checkpoint(work / "checkpoint.pt", epochs // 2, steps // 2)
    with ffrfs.mounted(pack) as root:
        print(f"Training from the mount at {root}")
        seen = Training(root, workers).run(epochs, checkpoint)
        print(f"Once more, from epoch {checkpoint.epoch}, step {checkpoint.step} of {steps}")
        resumed = Training(root, workers)
        resumed.load(checkpoint.path)
        seen_again = resumed.run(epochs)
        print("What became of the hints")
        show_stats(root)
    expected = {at: batch for at, batch in seen.items() if at >= checkpoint[1:]}
    if seen_again != expected:
        print("The batches were NOT those of the uninterrupted training.")
        return 1
    print(f"All {len(expected)} batches were those of the uninterrupted training.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
