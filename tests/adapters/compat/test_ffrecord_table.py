"""The table of ffrecord in docs/compatibility.md: every name exists, every difference is real."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest

import ffrfs
from ffrfs import compat
from tests.docs.compatibility import Check, Differences, Row, defaults, parameters, rows
from tests.ffrecord_file import flip_byte, record_extents, write_folder, write_records

if not os.environ.get("CI"):
    pytest.importorskip("torch.utils.data", reason="torch is not here: pip install ffrfs[torch]")

ROWS = rows("ffrecord", "ffrecord")
RECORDS = [b"one", b"two", b"three"]
difference = Differences()


@pytest.fixture(scope="module")
def ffrecord() -> Iterator[ModuleType]:
    path = compat.install("ffrecord")
    yield importlib.import_module("ffrecord")
    sys.path.remove(path)
    for name in [name for name in sys.modules if name.split(".")[0] == "ffrecord"]:
        del sys.modules[name]


def instances(root: ModuleType, folder: Path) -> dict[str, object]:
    """Return one instance of each class whose attributes the table names."""
    records = write_records(folder / "attributes.ffr", RECORDS)
    pack = write_folder(folder / "attributes-pack.ffr", {"a": b""})
    dataset = root.torch.Dataset(records)
    return {
        "FileReader": root.FileReader(records),
        "FileWriter": root.FileWriter(folder / "written.ffr", 1),
        "PackedFolder": root.PackedFolder(pack),
        "Dataset": dataset,
        "Subset": root.torch.Subset(dataset, [0]),
        "ConcatDataset": root.torch.ConcatDataset([dataset]),
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.original)
def test_name(ffrecord: ModuleType, tmp_path: Path, row: Row) -> None:
    importlib.import_module("ffrfs.torch")
    for name, root in ((row.original, ffrecord), (row.ours, ffrfs)):
        owner, _, attribute = name.rpartition(".")
        if not row.parameters and attribute != "__version__":
            thing = instances(root, tmp_path)[owner.rpartition(".")[2]]
            assert hasattr(thing, attribute)
            continue
        found = resolve_name(name)
        if row.parameters:
            check_parameters(found, parameters(eval(f"lambda {row.parameters[1:-1]}: None")))


def check_parameters(found: Any, expected: list[Any]) -> None:
    """`found` has the original's parameters, in the same order, and requires no others."""
    given = parameters(found)
    if found is resolve_name("ffrfs.torch.DataLoader"):  # it passes its arguments on to torch's
        given = parameters(found.__mro__[1])
    own, more = given[: len(expected)], given[len(expected) :]
    assert defaults(own) == defaults(expected)
    assert all(each.default is not each.empty or each.kind in (2, 4) for each in more)


def test_all_public_names_are_in_the_table(ffrecord: ModuleType) -> None:
    in_table = {row.original for row in ROWS}
    for module in ("", ".fileio", ".package", ".utils", ".torch", ".torch.dataset"):
        name = f"ffrecord{module}"
        public = set(importlib.import_module(name).__all__)
        # These modules have the two names only because they import them, as the original's do.
        public -= {"FileReader", "FileWriter"} if module not in ("", ".fileio") else set()
        assert {f"{name}.{each}" for each in public} <= in_table


@difference("ffrecord.__version__")
def version(ffrecord: Any, folder: Path) -> None:
    assert ffrecord.__version__ == "1.4.0"


@difference("ffrecord.FileReader")
def names_and_headers(ffrecord: Any, folder: Path) -> None:
    path = write_records(folder / "records.bin", RECORDS)
    assert ffrecord.FileReader(path).n == 3
    flip_byte(path, 12)  # a checksum in the header
    with pytest.raises(ffrfs.FfrfsError):
        ffrecord.FileReader(path, check_data=False)


@difference("ffrecord.FileReader.read", "ffrecord.FileReader.read_one")
def errors_of_reading(ffrecord: Any, folder: Path) -> None:
    path = write_records(folder / "records.ffr", RECORDS)
    flip_byte(path, record_extents(path)[1][0])
    reader = ffrecord.FileReader(path)
    assert [each.tobytes() for each in reader.read(iter([2, 0]))] == [b"three", b"one"]
    for index in (-1, 3):
        for read in (lambda index: reader.read([index]), reader.read_one):
            with pytest.raises(IndexError):
                read(index)
            with pytest.raises(ffrfs.ChecksumError):
                read(1)


@difference("ffrecord.FileReader.validate")
def validate(ffrecord: Any, folder: Path) -> None:
    path = write_records(folder / "records.ffr", RECORDS)
    flip_byte(path, record_extents(path)[2][0])
    with pytest.raises(ffrfs.ChecksumError, match="record 2"):
        ffrecord.FileReader(path).validate()


@difference("ffrecord.FileReader.get_offsets", "ffrecord.FileReader.get_checksums")
def arrays_outlive_the_reader(ffrecord: Any, folder: Path) -> None:
    path = write_records(folder / "records.ffr", RECORDS)
    reader = ffrecord.FileReader(path)
    offsets, checksums = reader.get_offsets(0), reader.get_checksums(0)
    before = (offsets.tolist(), checksums.tolist())
    reader.close()
    del reader
    assert (offsets.tolist(), checksums.tolist()) == before
    assert before[0][-1] == path.stat().st_size


@difference("ffrecord.FileWriter", "ffrecord.FileWriter.write_one", "ffrecord.FileWriter.close")
def a_file_is_whole(ffrecord: Any, folder: Path) -> None:
    path = folder / "written.bin"
    writer = ffrecord.FileWriter(path, 1)
    writer.write_one(b"1")
    assert not path.exists()
    with pytest.raises(ffrfs.RecordCountError):
        writer.write_one(b"2")
    writer.close()
    assert path.exists()
    with pytest.raises(ffrfs.RecordCountError):
        ffrecord.FileWriter(folder / "none.ffr", 1).close()
    assert not (folder / "none.ffr").exists()


@difference("ffrecord.PackedFolder", "ffrecord.PackedFolder.structure")
def packs(ffrecord: Any, folder: Path) -> None:
    hostile = write_records(folder / "hostile.ffr", [b"piouhjgbrcos\nabort\n(tR."])
    with pytest.raises(ffrfs.UnsafeIndexError):
        ffrecord.PackedFolder(hostile)
    names = [write_folder(folder / f"{name}.ffr", {name: name.encode()}) for name in "ab"]
    packed = ffrecord.PackedFolder(names)
    assert [packed.read_one(name).tobytes() for name in "ab"] == [b"a", b"b"]
    assert [*packed.structure] == ["a", "b"]
    assert packed.exists("/a")
    assert packed.read_one("/a").tobytes() == b"a"


@difference("ffrecord.PackedFolder.read", "ffrecord.PackedFolder.read_one")
def reading_a_path(ffrecord: Any, folder: Path) -> None:
    packed = ffrecord.PackedFolder(write_folder(folder / "pack.ffr", {"a": b"1"}))
    assert packed.read("a").tobytes() == b"1"
    with pytest.raises(ffrfs.PathNotFoundError):
        packed.read_one("b")


@difference("ffrecord.PackedFolder.list")
def listing(ffrecord: Any, folder: Path) -> None:
    path = write_folder(folder / "pack.ffr", {"a": b"", "d": {"b": b""}})
    assert ffrecord.PackedFolder(path).list(recursive=True) == ["a", "d", Path("d/b")]
    assert ffrfs.PackedFolder(path).list(recursive=True) == ["a", "d", "d/b"]


@difference("ffrecord.checkFsAlign")
def alignment(ffrecord: Any, folder: Path) -> None:
    path = write_records(folder / "records.ffr", RECORDS)
    with path.open("rb") as file:
        assert ffrecord.checkFsAlign(file.fileno()) in (False, True)
    assert ffrecord.FileReader(path).read_one(0).tobytes() == b"one"


@difference("ffrecord.pack_folder")
def links(ffrecord: Any, folder: Path) -> None:
    (folder / "source").mkdir()
    (folder / "outside").write_bytes(b"x")
    (folder / "source" / "link").symlink_to("../outside")
    with pytest.raises(ffrfs.PackError):
        ffrecord.pack_folder(folder / "source", folder / "pack.ffr")
    assert not (folder / "pack.ffr").exists()
    ffrecord.pack_folder(folder / "source", folder / "pack.ffr", symlinks="follow")
    assert ffrecord.PackedFolder(folder / "pack.ffr").read("link").tobytes() == b"x"


class Failing:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> bytes:
        if index == 3:
            raise LookupError("record 3")
        return b"x"


@difference("ffrecord.utils.dump")
def dumping(ffrecord: Any, folder: Path) -> None:
    with pytest.raises(LookupError, match="record 3"):
        ffrecord.utils.dump(Failing(), folder / "parts", 2)
    assert not (folder / "parts").exists()


@functools.cache
def texts() -> Any:
    class Texts(resolve_name("ffrfs.torch.Dataset")):  # type: ignore[misc]
        def process(self, indices: Any, data: Any) -> list[str]:
            return [each.tobytes().decode() for each in data]

    return Texts


@difference(
    "ffrecord.torch.Dataset", "ffrecord.torch.Dataset.ffreaders", "ffrecord.torch.ConcatDataset"
)
def data_sets(ffrecord: Any, folder: Path) -> None:
    dataset = texts()(write_records(folder / "records.ffr", RECORDS))
    both = dataset + dataset
    assert type(both) is ffrecord.torch.ConcatDataset
    assert both[[0, 4, 4, 0]] == ["one", "two", "two", "one"]
    dataset.more = {"list": [dataset.reader, other := ffrecord.FileReader(folder / "records.ffr")]}
    assert both.ffreaders() == [dataset.reader, other]


@difference("ffrecord.torch.DataLoader", "ffrecord.torch.DataLoader.set_step")
def loaders(ffrecord: Any, folder: Path) -> None:
    dataset = texts()(write_records(folder / "records.ffr", RECORDS))
    loader = ffrecord.torch.DataLoader(dataset, num_workers=1)
    assert loader.multiprocessing_context.get_start_method() == "fork"
    assert (
        resolve_name("ffrfs.torch.DataLoader")(dataset, num_workers=1).multiprocessing_context
        is None
    )
    chosen = ffrecord.torch.DataLoader(dataset, num_workers=1, multiprocessing_context="spawn")
    assert chosen.multiprocessing_context.get_start_method() == "spawn"
    loader = ffrecord.torch.DataLoader(dataset, in_order=True)
    loader.set_step(3)
    assert (len(loader), list(loader)) == (0, [])
    loader.resume_at(2)
    assert [*map(len, (list(loader), list(loader)))] == [1, 3]


def test_every_difference_has_a_check() -> None:
    assert {row.original for row in ROWS if row.difference} == difference.keys()


@pytest.mark.parametrize("check", {check.__name__: check for check in difference.values()}.values())
def test_difference(ffrecord: ModuleType, tmp_path: Path, check: Check) -> None:
    check(ffrecord, tmp_path)
