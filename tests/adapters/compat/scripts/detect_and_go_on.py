"""Detection: samples of different sizes, a collate of its own, a checkpoint within an epoch."""

import pickle
import sys
from pathlib import Path
from typing import Any, List, Tuple  # noqa: UP035 - as people wrote it

import torch
import torch.utils.data
from ffrecord import FileWriter
from ffrecord.torch import DataLoader, Dataset

COUNTS = {"train": 40, "val": 12}
EPOCHS, BATCH_SIZE, STOP_AT = 2, 4, 6


class Detection(Dataset):
    def __init__(self, fname, transform=None):
        super().__init__(fname)
        self.transform = transform

    def process(self, indexes: List[int], data: List[bytes]) -> List[Any]:  # noqa: UP006
        samples = []
        for index, bytes_ in zip(indexes, data, strict=True):
            image, boxes, image_id = pickle.loads(bytes_)
            assert image_id == index
            if self.transform is not None:
                image = self.transform(image)
            samples.append((image, boxes))
        return samples


class Loaders(object):  # noqa: UP004
    def __init__(self, data_dir, batch_size, num_workers):
        self.train_loader, self.test_loader = (
            self.__loader(Path(data_dir) / f"{split}.ffr", batch_size, num_workers, split)
            for split in COUNTS
        )

    def __loader(self, path, batch_size, num_workers, split):
        data = Detection(path, lambda image: image / 255)
        sampler = torch.utils.data.distributed.DistributedSampler(
            data, num_replicas=2, rank=0, shuffle=split == "train"
        )
        return DataLoader(
            data,
            batch_size=batch_size,
            num_workers=num_workers,
            pin_memory=True,
            sampler=sampler,
            collate_fn=collate,
        )


def collate(batch) -> Tuple[Any, ...]:  # noqa: UP006
    images, boxes = tuple(zip(*batch, strict=True))
    counts = torch.tensor([len(each) for each in boxes])
    return torch.cat([image[None] for image in images]), [*boxes], counts


def train(loaders, model, checkpoint, stop):
    """Resumes as the examples do: iterates the epoch again, and skips the steps that were done."""
    state = torch.load(checkpoint) if checkpoint.exists() else {"epoch": 0, "step": 0, "seen": []}
    start_step, seen = state["step"], state["seen"]
    for epoch in range(state["epoch"], EPOCHS):
        loaders.train_loader.sampler.set_epoch(epoch)
        for step, (images, boxes, counts) in enumerate(loaders.train_loader):
            if step < start_step:
                continue
            model(images.flatten(1)).sum().backward()
            assert counts.tolist() == [len(each) for each in boxes]
            seen = [*seen, *(images[:, 0, 0] * 255).round().int().tolist()]
            if stop and step + 1 == STOP_AT - 2 and epoch == 1:
                torch.save({"epoch": epoch, "step": step + 1, "seen": seen}, checkpoint)
                return None
        start_step = 0
    return seen


if __name__ == "__main__":
    data_dir = Path(sys.argv[1])
    for split, count in COUNTS.items():
        with FileWriter(data_dir / f"{split}.ffr", count) as writer:
            for number in range(count):
                image = torch.full((6, 8), float(number))
                writer.write_one(pickle.dumps((image, torch.zeros(number % 3, 4), number)))
    model = torch.nn.Linear(6 * 8, 2)
    loaders = Loaders(data_dir, BATCH_SIZE, 2)
    assert len(loaders.train_loader) == COUNTS["train"] // 2 // BATCH_SIZE
    assert sum(len(images) for images, _, _ in loaders.test_loader) == COUNTS["val"] // 2
    whole = train(loaders, model, data_dir / "none.pt", stop=False)
    latest = data_dir / "latest.pt"
    assert train(loaders, model, latest, stop=True) is None
    assert train(Loaders(data_dir, BATCH_SIZE, 0), model, latest, stop=False) == whole
