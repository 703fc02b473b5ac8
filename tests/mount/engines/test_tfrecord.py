"""A TFRecord file as a tree: a folder for each record, a file for each feature."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mount import probes
from tests.mount.command import ENGINES, Mount, ffrfs, mount_command_fails
from tests.mount.example_tree import (
    example,
    golden_features,
    loaded,
    same,
    shown,
)
from tests.mount.makers import MakeMount
from tests.tfrecord_file import tfrecord_records, write_tfrecord

SERVED_BY = ENGINES
NUMBERS = ("int64_list", [1, 2, 3])


@pytest.fixture
def examples(golden: Path) -> list[dict[str, Any]]:
    """The values of golden/tf/examples.tfrecord."""
    values: list[dict[str, Any]] = json.loads((golden / "tf/examples.json").read_text())
    return values


@pytest.fixture
def tree(golden: Path, mount: MakeMount) -> Mount:
    made: Mount = mount(golden / "tf/examples.tfrecord")
    return made


def check_record(tree: Mount, folder: str, expected: dict[str, Any]) -> Any:
    """Check the files of the folder, and return its example.json."""
    contents = tree.ask(probes.contents, folder)
    described = json.loads(contents.pop("example.json"))
    assert same(loaded(contents), expected), (folder, contents.keys(), expected.keys())
    return described


def described(feature: dict[str, list[Any]] | None) -> Any:
    """Return a feature as example.json shows it, made from the golden files' JSON."""
    if feature is None or "bytes_list" not in feature:
        return feature
    values = map(bytes.fromhex, feature["bytes_list"])
    return {
        "bytes_list": [
            {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()} for value in values
        ]
    }


def as_float32(value: Any) -> Any:
    """Return numbers as the file holds them: JSON has more digits, or just enough."""
    if isinstance(value, dict):
        return {
            name: [float(np.float32(x)) for x in inner]
            if name == "float_list"
            else as_float32(inner)
            for name, inner in value.items()
        }
    return [as_float32(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.promise("S26", "S27")
def test_every_feature_of_every_golden_example(
    golden: Path, tree: Mount, examples: list[dict[str, Any]]
) -> None:
    records = tfrecord_records((golden / "tf/examples.tfrecord").read_bytes())
    names = [f"{number:09d}" for number in range(len(examples))]
    assert sorted(tree.ask(probes.listdir, "")) == names
    for name, record, values in zip(names, records, examples, strict=True):
        found = check_record(tree, name, shown(record, golden_features(values)))
        expected = {feature: described(value) for feature, value in values.items()}
        assert as_float32(found) == as_float32({"features": expected})


@pytest.mark.promise("S26", "S27")
def test_every_step_of_every_golden_sequence(golden: Path, mount: MakeMount) -> None:
    tree = mount(golden / "tf/sequences.tfrecord")
    records = tfrecord_records((golden / "tf/sequences.tfrecord").read_bytes())
    sequences = json.loads((golden / "tf/sequences.json").read_text())
    for number, (record, values) in enumerate(zip(records, sequences, strict=True)):
        context = golden_features(values["context"])
        lists = {
            name: [golden_features({"": step})[""] for step in steps]
            for name, steps in values["feature_lists"].items()
        }
        found = check_record(tree, f"{number:09d}", shown(record, context, lists))
        expected = {
            "context": {name: described(value) for name, value in values["context"].items()},
            "feature_lists": {
                name: [described(step) for step in steps]
                for name, steps in values["feature_lists"].items()
            },
        }
        assert as_float32(found) == as_float32(expected)


@pytest.mark.promise("S26")
def test_without_extensions_names_are_those_of_the_features(golden: Path, mount: MakeMount) -> None:
    tree = mount(golden / "tf/examples.tfrecord", "--no-extensions")
    names = tree.ask(probes.inodes, "000000002").keys()
    assert names == {
        *("embedding", "example.json", "image", "image/encoded", "image/format"),
        *("image/height", "image/width", "label", "record.bin", "tags", "tags/0", "tags/1"),
        "weights",
    }
    assert tree.ask(probes.read, "000000002/image/height").startswith(b"\x93NUMPY")


@pytest.mark.promise("S26", "S31")
def test_folder_of_shards_is_one_tree(golden: Path, mount: MakeMount, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    first = {"a": ("bytes_list", [b"first"])}
    write_tfrecord(folder / "train-00000-of-00002.tfrecord", [example(first)] * 3)
    shutil.copy(golden / "tf/sequences.tfrecord", folder / "train-00001-of-00002.tfrecord")
    (folder / "readme.txt").write_text("not a shard")
    os.utime(folder / "train-00000-of-00002.tfrecord", ns=(0, 1_111_111_111))
    os.utime(folder / "train-00001-of-00002.tfrecord", ns=(0, 2_222_222_222))
    tree = mount(folder)
    assert sorted(tree.ask(probes.listdir, "")) == [f"{number:09d}" for number in range(13)]
    assert tree.ask(probes.read, "000000002/a.txt") == b"first"
    assert tree.ask(probes.read, "000000003/name.txt") == b"seq0"
    for path, mtime_ns in {
        "000000002": 1_111_111_111,
        "000000002/a.txt": 1_111_111_111,
        "000000003": 2_222_222_222,
        "000000004/frames": 2_222_222_222,
        "000000004/frames/0.npy": 2_222_222_222,
    }.items():
        assert tree.ask(probes.stat, path).st_mtime_ns == mtime_ns


def test_folder_without_shards_is_refused(new_mount: MakeMount, tmp_path: Path) -> None:
    mount_command_fails(new_mount(tmp_path).mount(), 1, str(tmp_path), "TFRecord", "ffrfs pack")


@pytest.mark.promise("S28")
def test_inode_numbers_are_computed(golden: Path, mount: MakeMount) -> None:
    first, second = (
        mount(golden / "tf/examples.tfrecord", "--cache-mb", "1").ask(probes.inodes, "")
        for _ in range(2)
    )
    assert first == second
    assert len(set(first.values())) == len(first)
    assert first["000000007"] == 8 << 24
    assert first["000000007/embedding.npy"] == (8 << 24) + 1


@pytest.mark.promise("S4", "S28")
def test_attributes(tree: Mount, examples: list[dict[str, Any]]) -> None:
    image = bytes.fromhex(examples[1]["image/encoded"]["bytes_list"][0])
    found = tree.ask(probes.stat, "000000001/image/encoded.jpg")
    assert (stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode)) == (stat.S_IFREG, 0o644)
    assert (found.st_size, found.st_nlink) == (len(image), 1)
    for path in ("", "000000001", "000000001/image"):
        found = tree.ask(probes.stat, path)
        assert (stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode)) == (stat.S_IFDIR, 0o755)
        assert found.st_nlink == 1  # 1: the number is unknown without reading all records
    found = tree.ask(probes.statvfs, "")
    assert found.f_files == 51
    assert (found.f_bfree, found.f_ffree) == (0, 0)


@pytest.mark.promise("S31")
def test_xattrs_name_the_record(golden: Path, mount: MakeMount) -> None:
    tree = mount(golden / "tf/examples.tfrecord", "-o", "xattr")
    for path in ("000000012/record.bin", "000000012/image/width.npy"):
        assert tree.ask(probes.listxattr, path) == ["user.ffrfs.record"]
        assert tree.ask(probes.getxattr, path, "user.ffrfs.record") == b"12"
    assert tree.ask(probes.listxattr, "000000012/image") == []


# Programs.


def test_commands_and_the_mount_show_the_same_files(
    golden: Path, tree: Mount, tmp_path: Path
) -> None:
    contents = tree.ask(probes.contents, "")
    copy = tmp_path / "copy"
    assert ffrfs("extract", golden / "tf/examples.tfrecord", copy).status == 0
    assert probes.contents(str(copy)) == contents
    done = ffrfs("ls", golden / "tf/examples.tfrecord", "000000002/tags")
    assert done.out.split() == ["0.txt", "1.txt"]
    done = ffrfs("cat", golden / "tf/examples.tfrecord", "000000002/tags/1.txt")
    assert done.out == "t1"
