"""set_step() as the original documents it: it skips until it is reset."""

import pickle

import torch
from ffrecord import FileWriter
from ffrecord.torch import DataLoader, Dataset

STEPS, BATCH_SIZE, START_STEP = 25, 4, 5


class Numbers(Dataset):
    def process(self, indices, data):
        return [pickle.loads(each) for each in data]


with FileWriter("train.ffr", STEPS * BATCH_SIZE) as writer:
    for number in range(STEPS * BATCH_SIZE):
        writer.write_one(pickle.dumps(number))


def loaders(shuffle, num_workers):
    for kind in (torch.utils.data.DataLoader, DataLoader):
        generator = torch.Generator().manual_seed(12345)
        yield kind(
            Numbers("train.ffr"),
            batch_size=BATCH_SIZE,
            shuffle=shuffle,
            num_workers=num_workers,
            generator=generator,
            **({"multiprocessing_context": "fork"} if num_workers else {}),
        )


for shuffle, num_workers in ((True, 2), (False, 0)):
    whole, loader = loaders(shuffle, num_workers)
    loader.set_step(START_STEP)
    assert len(loader) == STEPS - START_STEP
    expected = [batch.tolist() for batch in whole][START_STEP:]
    assert [batch.tolist() for batch in loader] == expected
    assert len(loader) == STEPS - START_STEP
    assert len(list(loader)) == STEPS - START_STEP  # not reset
    loader.set_step(0)  # before the next epoch
    assert len(list(loader)) == len(loader) == STEPS

    epochs = 0
    loader.set_step(START_STEP)
    for epoch in range(5, 7):
        steps = [step for step, _ in enumerate(loader)]
        assert len(steps) == (STEPS - START_STEP if epoch == 5 else STEPS)
        loader.set_step(0)
