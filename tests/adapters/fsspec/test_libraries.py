"""Libraries that read through fsspec, or files as objects, on members of one pack."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ffrfs
from ffrfs.errors import ChecksumError
from tests.adapters.needed import needed
from tests.ffrecord_file import flip_byte, record_extents

fsspec = needed("fsspec")
needed("ffrfs.fsspec")
pd = needed("pandas")
pa = needed("pyarrow")
pq = needed("pyarrow.parquet")
ds = needed("pyarrow.dataset")
zarr = needed("zarr")
h5py = needed("h5py")
safetensors = needed("safetensors.numpy")

TABLE = {"x": [*range(1000)], "part": ["a"] * 500 + ["b"] * 500}
CUBE = np.arange(24.0).reshape(2, 3, 4)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("libraries")
    source = place / "source"
    source.mkdir()
    pd.DataFrame(TABLE).to_csv(source / "table.csv", index=False)
    for part in ("a", "b"):
        rows = [x for x, one in zip(TABLE["x"], TABLE["part"], strict=True) if one == part]
        (source / f"table/part={part}").mkdir(parents=True)
        pq.write_table(pa.table({"x": rows}), source / f"table/part={part}/0.parquet")
    with h5py.File(source / "cube.h5", "w") as file:
        file["cube"] = CUBE
    safetensors.save_file({"cube": CUBE}, source / "cube.safetensors")
    zarr.save(str(source / "array.zarr"), CUBE)
    ffrfs.pack_folder(source, place / "x.ffr")
    return str(place / "x.ffr")


@pytest.fixture
def fs(pack: str) -> Any:
    return fsspec.filesystem("ffr", fo=pack)


def test_pandas(pack: str) -> None:
    assert pd.read_csv(f"ffr://table.csv::{pack}").to_dict("list") == TABLE
    assert pd.read_csv("ffr://table.csv", storage_options={"fo": pack}).x.sum() == 499_500
    assert pd.read_parquet(f"ffr://table::{pack}").to_dict("list") == TABLE


@pytest.mark.parametrize("name", ["x.csv", "table/x.csv"])
def test_writing_by_pandas_fails_and_names_the_file(pack: str, name: str) -> None:
    """pandas first asks for the directory, which exists."""
    with pytest.raises(OSError, match=f"packs are read-only: '{name}'"):
        pd.DataFrame(TABLE).to_csv(f"ffr://{name}", storage_options={"fo": pack})


def test_pyarrow(fs: Any) -> None:
    found = ds.dataset("table", filesystem=fs, partitioning="hive")
    assert found.to_table().to_pydict() == TABLE
    assert found.to_table(filter=ds.field("part") == "b")["x"].to_pylist() == TABLE["x"][500:]


def test_xarray(pack: str, tmp_path: Path) -> None:
    xarray = needed("xarray")
    made = xarray.Dataset({"cube": (("i", "j", "k"), CUBE)})
    made.to_zarr(tmp_path / "source" / "cube.zarr", zarr_format=2)
    ffrfs.pack_folder(tmp_path / "source", tmp_path / "x.ffr")
    with xarray.open_dataset(
        "ffr://cube.zarr", engine="zarr", storage_options={"fo": str(tmp_path / "x.ffr")}
    ) as read:
        assert (read.cube.values == CUBE).all()


def test_zarr(pack: str) -> None:
    assert (zarr.open_array(f"ffr://array.zarr::{pack}", mode="r")[:] == CUBE).all()


def test_duckdb(fs: Any) -> None:
    duckdb = needed("duckdb")
    with duckdb.connect() as database:
        database.register_filesystem(fs)
        assert database.sql("SELECT sum(x) FROM 'ffr://table.csv'").fetchall() == [(499_500,)]
        by_part = "SELECT part, count(*) FROM 'ffr://table/*/*.parquet' GROUP BY part ORDER BY part"
        assert database.sql(by_part).fetchall() == [("a", 500), ("b", 500)]


def test_polars(fs: Any) -> None:
    polars = needed("polars")
    with fs.open("table/part=a/0.parquet") as file:
        assert polars.read_parquet(file)["x"].to_list() == TABLE["x"][:500]
    table = ds.dataset("table", filesystem=fs, partitioning="hive")
    total = polars.scan_pyarrow_dataset(table).select(polars.col("x").sum()).collect()
    assert total.item() == 499_500


def test_errors_of_polars_and_duckdb_name_the_damaged_file(tmp_path: Path) -> None:
    """Both raise their own error around ours; `except Exception` does not catch that of polars."""
    polars, duckdb = needed("polars"), needed("duckdb")
    (tmp_path / "source").mkdir()
    pq.write_table(pa.table(TABLE), tmp_path / "source" / "x.parquet")
    ffrfs.pack_folder(tmp_path / "source", tmp_path / "x.ffr")
    flip_byte(tmp_path / "x.ffr", record_extents(tmp_path / "x.ffr")[0][0] + 100)
    fs = fsspec.filesystem("ffr", fo=str(tmp_path / "x.ffr"))
    with pytest.raises(BaseException, match=r"ChecksumError.*'x\.parquet'") as raised:
        polars.read_parquet(fs.open("x.parquet"))
    assert type(raised.value).__name__ == "PanicException"
    with pytest.raises(ChecksumError, match=r"'x\.parquet'"):
        polars.read_parquet(io.BytesIO(fs.cat("x.parquet")))
    with duckdb.connect() as database:
        database.register_filesystem(fs)
        with pytest.raises(duckdb.Error, match=r"ChecksumError.*'x\.parquet'"):
            database.sql("FROM 'ffr://x.parquet'")


def test_hdf5(pack: str) -> None:
    """h5py seeks, so only parts of the file are read."""
    folder = ffrfs.PackedFolder(pack)
    with folder.open("cube.h5") as raw, h5py.File(raw, "r") as file:
        assert (file["cube"][1, :, 2] == CUBE[1, :, 2]).all()


def test_safetensors(pack: str) -> None:
    folder = ffrfs.PackedFolder(pack)
    assert (safetensors.load(folder["cube.safetensors"])["cube"] == CUBE).all()
