"""torch data sets, defined in both ways that the original's documentation shows."""

import pickle

import ffrecord
import numpy as np
import torch
from ffrecord import FileReader, FileWriter
from ffrecord.torch import ConcatDataset, DataLoader, Subset
from ffrecord.torch.dataloader import DataLoader as TheSameLoader
from ffrecord.torch.dataset import Dataset, ReaderRegistry

assert TheSameLoader is DataLoader
assert ffrecord.torch.Dataset is Dataset


class ByProcess(ffrecord.torch.Dataset):
    def __init__(self, fname, check_data=True, transform=None):
        super().__init__(fname, check_data)
        self.transform = transform

    def process(self, indices, data):
        samples = [pickle.loads(b) for b in data]
        if self.transform:
            samples = [self.transform(s) for s in samples]
        return samples


class ByItems(Dataset):
    def __init__(self, fname, check_data=True):
        self.reader = FileReader(fname, check_data)

    def __len__(self):
        return self.reader.n

    def __getitem__(self, indices):
        assert isinstance(indices, list)
        return [pickle.loads(b) for b in self.reader.read(indices)]


class Holder(ReaderRegistry):
    def __init__(self, fname):
        self.first = FileReader(fname)
        self.second = FileReader(fname)


class Several(Dataset):
    def __init__(self, fname):
        self.reader = FileReader(fname)
        self.other = Holder(fname)


with FileWriter("train.ffr", 100) as writer:
    for number in range(100):
        writer.write_one(pickle.dumps((number * 2, number * 3)))

dataset = ByProcess("train.ffr", transform=lambda sample: (sample[0] + 1, sample[1]))
assert dataset[[3, 4, 1, 0]] == [(7, 9), (9, 12), (3, 3), (1, 0)]
plain = ByItems("train.ffr")
for num_workers in (0, 2):
    # A data set that holds a lambda cannot be pickled, so its workers are forked.
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=num_workers)
    assert len(loader) == 7
    assert sorted(int(a) for batch in loader for a in batch[0]) == list(range(1, 201, 2))
    (first, second), *_ = DataLoader(plain, 8, num_workers=num_workers)
    assert torch.equal(first, torch.arange(0, 16, 2))
    assert torch.equal(second, torch.arange(0, 24, 3))
    singles = DataLoader(plain, batch_size=None, num_workers=num_workers, collate_fn=list)
    singles.set_step(97)
    assert len(singles) == 3
    assert list(singles) == [[(194, 291)], [(196, 294)], [(198, 297)]]

both = ConcatDataset([plain, plain])
assert both[[0, 150, 99]] == plain[[0, 50, 99]]
assert (plain + plain)[[199]] == plain[[99]]
chosen = np.random.choice(100, 50)
subset = Subset(plain, chosen)
assert [subset[[i]] for i in range(50)] == [plain[[number]] for number in chosen]
assert len(Several("train.ffr").ffreaders()) == 3
