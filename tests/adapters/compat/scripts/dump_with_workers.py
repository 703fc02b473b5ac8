"""Images serialised by the workers of torch's DataLoader, and written as they come."""

import os
import pickle
from pathlib import Path
from typing import Union

import ffrecord
import numpy as np
import torch
from ffrecord import FileWriter
from ffrecord.torch import DataLoader, Dataset
from PIL import Image

COUNT, BATCH_SIZE = 50, 8


class Pictures(torch.utils.data.Dataset):
    def __init__(self, root):
        self.paths = sorted(Path(root).iterdir())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        return pickle.dumps((image, index % 10))


def convert(dataset, out_file: Union[str, os.PathLike]):  # noqa: UP007 - as people wrote it
    assert not os.path.exists(out_file)
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_size=BATCH_SIZE,
        shuffle=False,
        drop_last=False,
        collate_fn=lambda samples: samples,
        num_workers=2,
        multiprocessing_context="fork",
    )
    writer = FileWriter(out_file, len(dataset))
    for samples in loader:
        for sample in samples:
            writer.write_one(sample)
    writer.close()
    assert (writer.count, writer.n) == (COUNT, COUNT)


class Converted(Dataset):
    def __init__(self, fname, transform=None):
        super(Converted, self).__init__(fname, check_data=False)  # noqa: UP008
        self.transform = transform

    def process(self, indexes, data):
        samples = []
        for bytes_ in data:
            image, label = pickle.loads(bytes_)
            samples.append((self.transform(image), label))
        return samples


def to_tensor(image):
    return torch.from_numpy(np.asarray(image)).permute(2, 0, 1).float() / 255


if __name__ == "__main__":
    print(ffrecord.FileReader.validate)
    os.mkdir("pictures")
    for number in range(COUNT):
        pixels = np.full((6, 8, 3), number, np.uint8)
        Image.fromarray(pixels).save(f"pictures/{number:03}.png")
    convert(Pictures("pictures"), Path("train.ffr"))

    dataset = Converted("train.ffr", to_tensor)
    assert len(dataset) == COUNT
    assert dataset.fnames == "train.ffr"
    loader = DataLoader(dataset, batch_size=10, shuffle=True, num_workers=2)
    seen = []
    for images, labels in loader:
        assert images.is_shared() and labels.is_shared()
        assert images.shape == (10, 3, 6, 8)
        seen += (images[:, 0, 0, 0] * 255).round().int().tolist()
    assert sorted(seen) == list(range(COUNT))
