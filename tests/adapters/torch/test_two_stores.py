"""Data sets of two stores in one process, in the workers of a DataLoader, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from ffrfs.tfrecord import from_dict
from ffrfs.torch import Dataset, MultiTFRecordDataset, PackedFolderDataset, TFRecordDataset
from tests.ffrecord_file import write_folder, write_records
from tests.remote.reading import reading_urls
from tests.remote.servers.nginx import nginx
from tests.tfrecord_file import write_tfrecord

STORES = (b"ours", b"them")  # of equal size, so that a cache could confuse them


class Records(Dataset):
    def process(self, indices: Any, data: list[np.ndarray]) -> list[bytes]:
        return [each.tobytes() for each in data]


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    roots = [tmp_path_factory.mktemp("store") for _ in STORES]
    for root, data in zip(roots, STORES, strict=True):
        (root / "b").mkdir()
        write_folder(root / "b" / "pack.ffr", {"class": {"a": data}})
        write_records(root / "b" / "plain.ffr", [data])
        record = from_dict({"x": data}).SerializeToString()
        write_tfrecord(root / "b" / "x.tfrecord", [record])
    with nginx(roots[0]) as ours, nginx(roots[1]) as theirs:
        yield [ours.url, theirs.url]


@pytest.mark.parametrize("workers", ["none", "fork"])
def test_each_store_gives_its_own_data(
    urls: list[str], workers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: dict[str, Any] = {"batch_size": None}
    if workers != "none":
        how |= {"num_workers": 1, "multiprocessing_context": workers}
    with reading_urls(monkeypatch, tmp_path, "http://127.0.0.1:9"):
        for url, data in zip(urls * 2, STORES * 2, strict=True):
            store: Any = {"endpoint_url": url, "anonymous": True}
            (packed,) = DataLoader(PackedFolderDataset("s3://b/pack.ffr", **store), **how)
            (record,) = DataLoader(TFRecordDataset("s3://b/x.tfrecord", **store), **how)
            mixed = MultiTFRecordDataset(
                "s3://b/{}.tfrecord", None, {"x": 1}, infinite=False, **store
            )
            (drawn,) = DataLoader(mixed, **how)
            (batch,) = DataLoader(Records("s3://b/plain.ffr", **store), **how | {"sampler": [[0]]})
            assert (packed, record["x"], drawn["x"], batch) == ([data, 0], data, data, [data])


def test_a_forkserver_worker_knows_the_store(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading_urls(monkeypatch, tmp_path, "http://127.0.0.1:9"):
        dataset = PackedFolderDataset("s3://b/pack.ffr", endpoint_url=urls[1], anonymous=True)
        loader = DataLoader(
            dataset, batch_size=None, num_workers=1, multiprocessing_context="forkserver"
        )
        assert [*loader] == [[STORES[1], 0]]
