"""examples/with_*.py: each library reads a pack of two classes, in few lines."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from PIL import Image

import ffrfs
from tests.adapters.program_run import run_script
from tests.checkout import CHECKOUT

EXAMPLES = CHECKOUT / "examples"
LINES_MAX = 30

# The packages that each example needs, and its output.
SHOWN = {
    "fsspec": (("fsspec", "upath"), "12 pictures of cat, dog\n"),
    "huggingface": (("datasets",), "(8, 8)\n12 pictures of cat, dog\n"),
    "webdataset": (("webdataset",), "12 samples, 6 of them dogs\n"),
    "grain": (("grain",), "[(5, 8, 8, 3), (5, 8, 8, 3), (2, 8, 8, 3)]\n"),
    "litdata": (("litdata", "zstd"), "[5, 5, 2] files, all PNG: True\n"),
    "lightning": (("lightning",), "6 steps\n"),
    "energon": (("megatron", "multistorageclient"), "PNG ('train/cat/00.png',)\n"),
    "torchdata": (("torchdata",), "[5, 5, 2] files of cat, dog\n"),
}
LABELLED = {"webdataset"}
MOUNTING = {"huggingface", "litdata"}


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("loaders")
    for number in range(12):
        name = root / f"tree/train/{('cat', 'dog')[number % 2]}/{number:02}"
        name.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (number, 0, 0)).save(name.with_suffix(".png"))
        name.with_suffix(".cls").write_text(str(number % 2))
    ffrfs.pack_folder(root / "tree", root / "x.ffr", exclude=["*.cls"])
    ffrfs.pack_folder(root / "tree", root / "labelled.ffr")
    return root / "x.ffr"


@pytest.mark.parametrize("name", SHOWN)
def test_an_example(name: str, pack: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    packages, shown = SHOWN[name]
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not here: make check-loaders")
    mountpoint = []
    if name in MOUNTING:
        request.getfixturevalue("fuse")
        (tmp_path / "mnt").mkdir()
        mountpoint = [str(tmp_path / "mnt")]
    pack = pack.with_name("labelled.ffr") if name in LABELLED else pack
    home = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf")}
    script = EXAMPLES / f"with_{name}.py"
    assert run_script(script, str(pack), *mountpoint, environment=home) == shown


def test_examples_are_short_and_all_of_them_run() -> None:
    found = {path.stem.removeprefix("with_"): path for path in EXAMPLES.glob("with_*.py")}
    assert found.keys() == {*SHOWN, "beam"}  # tests/adapters/beam runs it, in its own environment
    for path in found.values():
        assert len(path.read_text().splitlines()) <= LINES_MAX, path
