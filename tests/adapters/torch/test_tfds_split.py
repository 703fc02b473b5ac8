"""A split of a TFDS directory as a data set for torch, with the features that it declares."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader

from ffrfs.tfrecord import RaggedValue, RecordDataset, open_tfds
from ffrfs.torch import RecordStream, TFRecordDataset
from tests.checkout import CHECKOUT

GOLDEN = CHECKOUT / "tests" / "golden" / "tfds" / "1.0.0"


def test_records_by_number() -> None:
    data = TFRecordDataset(GOLDEN / "train", open_tfds(GOLDEN).features)
    assert len(data) == 7
    item = data[3]
    assert item["image"].startswith(b"\x89PNG")
    assert isinstance(item["nested"], RaggedValue)
    wanted = {name: open_tfds(GOLDEN).features[name] for name in ("id", "box")}
    batch = next(iter(DataLoader(TFRecordDataset(GOLDEN / "train", wanted), 7)))
    assert sorted(batch["id"].tolist()) == list(range(7))
    assert batch["box"].dtype == torch.float32


def test_records_as_a_stream() -> None:
    split = open_tfds(GOLDEN).splits["test"]
    stream = RecordStream(RecordDataset(split.files))
    assert len(list(DataLoader(stream, batch_size=None, num_workers=2))) == split.num_examples
