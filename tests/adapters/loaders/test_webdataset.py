"""ffrfs.webdataset gives the samples that webdataset makes from a tar file of the same files."""

from __future__ import annotations

import itertools
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

import ffrfs
from ffrfs.errors import ChecksumError, FormatError, OptionError
from tests.adapters.needed import needed

webdataset = needed("webdataset")
PackSamples = needed("ffrfs.webdataset").PackSamples

NAMES = ("a/1.jpg", "a/1.json", "a/10.JPG", "a.b/2.left.png", "a.b/2.right.png", "plain", "3.cls")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    for name in (*NAMES, *(f"many/{n:03}.bin" for n in range(200))):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(f"bytes of {name}".encode())
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for path in sorted(tree.iterdir()):
            tar.add(path, path.name)
    (tree / "all.tar").hardlink_to(tmp_path / "all.tar")
    ffrfs.pack_folder(tree, tmp_path / "x.ffr")
    return tree


def by_key(samples: Any) -> dict[str, dict[str, bytes]]:
    found = [dict(sample) for sample in samples]
    for sample in found:
        sample.pop("__url__")
        sample.pop("__local_path__", None)
    keyed = {sample.pop("__key__"): sample for sample in found}
    assert len(keyed) == len(found)
    return keyed


def test_samples(tree: Path) -> None:
    pack = str(tree.with_name("x.ffr"))
    with open(tree / "all.tar", "rb") as stream:
        files = webdataset.tariterators.tar_file_expander([{"url": "", "stream": stream}])
        of_tar = by_key(webdataset.tariterators.group_by_keys(files))
    of_pack = by_key(webdataset.DataPipeline(PackSamples(pack)))
    assert of_pack.pop("all") == {"tar": (tree / "all.tar").read_bytes()}
    assert of_pack == of_tar
    many = by_key(PackSamples(pack, root="many/"))
    assert len(many) == 200
    assert by_key(PackSamples(pack, root=".//many")) == many
    # The tar file is a member of the pack. The URL is in a list, as webdataset cuts texts at "::".
    for url in (f"ffr://all.tar::{pack}", f"ffr://all.tar::file://{pack}"):
        assert by_key(webdataset.WebDataset([url], shardshuffle=False)) == of_tar


def test_names_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("1.jpg", "1.JPG"):
        (tmp_path / "data" / name).write_text(name)
    ffrfs.pack_folder(tmp_path / "data", tmp_path / "x.ffr")
    with pytest.raises(FormatError, match=r"'1\.JPG' and '1\.jpg' differ in case only"):
        PackSamples(tmp_path / "x.ffr")


def test_workers_and_nodes_share(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = PackSamples(tree.with_name("x.ffr"))
    shares: list[list[str]] = []
    for node in range(2):
        for worker in range(3):
            for name, value in {
                "RANK": node,
                "WORLD_SIZE": 2,
                "WORKER": worker,
                "NUM_WORKERS": 3,
            }.items():
                monkeypatch.setitem(os.environ, name, str(value))
            shares.append([sample["__key__"] for sample in samples])
    assert sorted(itertools.chain(*shares)) == sorted(key for key, _ in samples._samples)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_errors_name_the_damaged_file(tree: Path) -> None:
    pack = tree.with_name("x.ffr")
    pack.write_bytes(pack.read_bytes().replace(b"bytes of a/10.JPG", b"other of a/10.JPG"))
    with pytest.raises(ChecksumError, match=r"a/10\.JPG"):
        list(PackSamples(pack, root="a"))
    skipping = PackSamples(pack, root="a", on_error="skip")
    assert [sample["__key__"] for sample in skipping] == ["a/1"]
    assert "a/10.JPG" in str(skipping.bad_samples.report())
    replacing = PackSamples(pack, root="a", on_error=lambda error, key: {"__key__": f"no {key}"})
    assert [sample["__key__"] for sample in replacing] == ["a/1", "no a/10"]


def test_urls_that_are_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = [("ffr://a.tar", "rb"), ("ffr://a.tar::", "rb"), (f"ffr://a.tar::{tree}.ffr", "wb")]
    for url, mode in refused:
        with pytest.raises(OptionError, match="ffr://a"):
            webdataset.gopen(url, mode)
    monkeypatch.setattr(webdataset.utils, "enforce_security", True)
    with pytest.raises(OptionError, match="local"):
        webdataset.gopen(f"ffr://all.tar::{tree.with_name('x.ffr')}")
