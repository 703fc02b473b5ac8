"""What can be viewed: packs, sets, TFRecord files, TFDS directories, a mount, URLs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.errors import FormatError, OptionError
from ffrfs.view.opening import open_sources
from tests.ffrecord_file import write_folder
from tests.mount.makers import MakeMount, PackTree
from tests.tfrecord_file import write_tfrecord
from tests.view.conftest import Serve


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "data" / name).write_text(name)
    pack_folder(tmp_path / "data", tmp_path / "p.ffr")
    pack_folder(tmp_path / "data", tmp_path / "set", shards=2)
    (tmp_path / "records").mkdir()
    for name in ("x", "y"):
        write_tfrecord(tmp_path / "records" / f"{name}.tfrecord", [name.encode()])
    return tmp_path


@pytest.mark.parametrize(
    ("source", "contents"),
    [
        ("p.ffr", "abc"),
        ("set", "abc"),
        ("file://{}/p.ffr", "abc"),
        ("file://{}/set/", "abc"),
        ("records", "xy"),
        ("records/y.tfrecord", "y"),
        ("file://{}/records/x.tfrecord", "x"),
    ],
)
def test_kinds_of_sources(serve: Serve, place: Path, source: str, contents: str) -> None:
    pages = serve(source.format(place) if "{}" in source else place / source)
    keys = [item["key"] for item in pages.data("/")["items"]]
    assert "".join(pages.get("/bytes", key=key).text for key in keys) == contents


def test_several_sources_are_shown_as_one(serve: Serve, place: Path) -> None:
    records = place / "records"
    pages = serve([records / "y.tfrecord", records / "x.tfrecord"])
    assert [pages.get("/bytes", key=key).text for key in "01"] == ["y", "x"]


def test_a_tfds_directory(serve: Serve, golden: Path) -> None:
    whole = serve(golden / "tfds" / "1.0.0").data("/")["total"]
    splits = [
        serve(golden / "tfds" / "1.0.0" / name).data("/")["total"] for name in ("train", "test")
    ]
    assert whole == sum(splits) > min(splits) > 0


def test_a_tfds_directory_with_an_empty_split(serve: Serve, tmp_path: Path) -> None:
    splits = [{"name": "train", "shardLengths": ["1"]}, {"name": "test"}]
    info = tmp_path / "dataset_info.json"
    info.write_text(json.dumps({"name": "x", "version": "1", "splits": splits}))
    write_tfrecord(tmp_path / "x-train.tfrecord-00000-of-00001", [b"record"])
    assert serve(tmp_path).data("/")["total"] == 1
    info.write_text(json.dumps({"name": "x", "version": "1", "splits": []}))
    (tmp_path / "x-train.tfrecord-00000-of-00001").unlink()
    with pytest.raises(FormatError, match="holds no TFRecord files"):
        open_sources(tmp_path)


def test_a_mount_of_a_part_of_a_set(
    serve: Serve, place: Path, new_mount: MakeMount, recwarn: pytest.WarningsRecorder
) -> None:
    _, second = sorted((place / "set").glob("*.ffr"))
    second.unlink()
    tree = new_mount(place / "set")
    assert tree.mount("--allow-missing").status == 0
    tree.expect_log("missing: number 1")
    assert serve(tree.path).data("/")["total"] > 0
    assert any("missing" in str(one.message) for one in recwarn)


def test_a_mount_gives_its_mount_point_and_packs(mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree({"a": b"1"}))
    opened = open_sources(tree.path)
    assert (opened.mountpoint, opened.sources) == (str(tree.path), [str(tree.pack)])
    opened.collection.close()


@pytest.mark.parametrize("which", ["first", "last"])
def test_a_mount_whose_packs_have_the_same_path(
    serve: Serve, mount: MakeMount, tmp_path: Path, which: str
) -> None:
    (tmp_path / "packs").mkdir()
    for name in ("first", "last"):
        write_folder(tmp_path / "packs" / f"{name}.ffr", {"x": name.encode()})
    tree = mount(tmp_path / "packs", "--on-conflict", which)
    assert serve(tree.path).get("/bytes", key="x").text == which


def test_no_source_at_all() -> None:
    with pytest.raises(OptionError, match="nothing to view"):
        open_sources([])
