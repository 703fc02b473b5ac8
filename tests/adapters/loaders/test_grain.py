"""ffrfs.grain.PackSource, with grain's own data sets and loader."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from ffrfs.errors import ChecksumError, PathNotFoundError
from ffrfs.grain import PackSource
from tests.adapters.needed import needed

grain = needed("grain")

DATA = {f"{n % 3}/{n:02}": bytes([n]) * (n * 1000) for n in range(30)}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    for name, data in DATA.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_bytes(data)
    ffrfs.pack_folder(tmp_path / "tree", tmp_path / "x.ffr")
    return tmp_path / "x.ffr"


def content(files: Any) -> dict[str, bytes]:
    return {file["path"]: file["data"] for file in files}


def test_a_map_data_set(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = PackSource(pack)
    assert isinstance(source, grain.sources.RandomAccessDataSource)
    files = grain.MapDataset.source(source)
    assert content(files.shuffle(seed=1)) == DATA
    batches = []
    monkeypatch.setattr(
        PackSource,
        "_getitems",
        lambda self, numbers, read=PackSource._getitems: (
            batches.append([*numbers]) or read(self, numbers)
        ),
    )
    assert content(files._getitems([3, 29, 3])) == content([source[3], source[29]])
    assert batches[0] == [3, 29, 3]


def test_workers(pack: Path) -> None:
    loader = grain.DataLoader(
        data_source=PackSource(pack, root="/1/"),
        sampler=grain.samplers.IndexSampler(10, shuffle=True, num_epochs=1, seed=0),
        worker_count=0,
    )
    assert content(loader) == {name: data for name, data in DATA.items() if name[0] == "1"}


def test_values(pack: Path) -> None:
    source = PackSource(pack, root="2")
    copy = pickle.loads(pickle.dumps(source))
    assert repr(copy) == repr(source) == f"PackSource({str(pack)!r}, root='2')"
    assert copy[-1] == source[9] == {"path": "2/29", "data": DATA["2/29"]}
    for spelled in ("./2", "//2//", "2/."):
        assert PackSource(pack, root=spelled)[9]["path"] == "2/29"
    with pytest.raises(IndexError):
        source[10]
    with pytest.raises(PathNotFoundError):
        PackSource(pack, root="missing")
    pack.write_bytes(pack.read_bytes().replace(DATA["2/29"], DATA["2/29"][:-1] + b"x"))
    with pytest.raises(ChecksumError, match="2/29"):
        PackSource(pack)[29]


def test_damaged_files_are_left_out(pack: Path) -> None:
    pack.write_bytes(pack.read_bytes().replace(DATA["2/29"], DATA["2/29"][:-1] + b"x"))
    source = PackSource(pack, on_error="skip")
    assert source[29] is None
    files = grain.MapDataset.source(source).to_iter_dataset()
    assert content(files) == {name: data for name, data in DATA.items() if name != "2/29"}
    assert PackSource(pack, on_error=lambda error, path: path)._getitems([29, 29]) == ["2/29"] * 2
    assert "2/29" in str(source.bad_samples.report())
