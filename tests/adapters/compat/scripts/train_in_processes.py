"""Like the original's examples: pickled images, a process for each rank, distributed samplers."""

import pickle
import sys
from pathlib import Path

import numpy as np
import torch
from ffrecord import FileWriter
from ffrecord.torch import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

COUNT, RANKS = 24, 2


class Images(Dataset):
    def __init__(self, fname, transform=None):
        super().__init__(fname, check_data=True)
        self.transform = transform

    def process(self, indexes, data):
        samples = []
        for bytes_ in data:
            image, label = pickle.loads(bytes_)
            samples.append((self.transform(image), label))
        return samples


def scaled(image):
    return torch.from_numpy(image).float() / 255


def collate(batch):
    images, labels = zip(*batch, strict=True)
    return torch.stack(images), labels


def train(rank, data_dir):
    dataset = Images(Path(data_dir) / "train.ffr", scaled)
    sampler = DistributedSampler(dataset, num_replicas=RANKS, rank=rank)
    loader = DataLoader(
        dataset, 4, sampler=sampler, num_workers=1, pin_memory=False, collate_fn=collate
    )
    model = torch.nn.Linear(3 * 8 * 8, 2)
    seen = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            outputs = model(images.flatten(1))
            loss = torch.nn.functional.cross_entropy(outputs, torch.tensor(labels) % 2)
            model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.sub_(0.1 * parameter.grad)
            seen += labels
    Path(f"seen{rank}").write_text(" ".join(map(str, seen)))


if __name__ == "__main__":
    data_dir = sys.argv[1]
    with FileWriter(Path(data_dir) / "train.ffr", COUNT) as writer:
        for number in range(COUNT):
            image = np.full((3, 8, 8), number, np.uint8)
            writer.write_one(pickle.dumps((image, number)))
    torch.multiprocessing.spawn(train, args=(data_dir,), nprocs=1)
    train(1, data_dir)
    seen = " ".join(Path(f"seen{rank}").read_text() for rank in range(RANKS)).split()
    assert sorted(map(int, seen)) == sorted([*range(COUNT)] * 2)
