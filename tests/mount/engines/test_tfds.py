"""TFDS directories: each split is shown as a directory; DIR/SPLIT mounts one split alone."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.tfrecord import from_dict
from tests.ffrecord_file import flip_byte
from tests.mount import probes
from tests.mount.command import ffrfs, mount_command_fails
from tests.mount.hinted_files import hint_all, settled
from tests.mount.makers import MakeMount, by_both
from tests.tfrecord_file import tfrecord_extents, tfrecord_records, write_tfrecord

SERVED_BY = ["native"]
SPLITS = {"train": [2, 3, 2], "test": [1, 1, 1]}


@pytest.fixture
def data(golden: Path, tmp_path: Path) -> Path:
    """A copy of a directory that tensorflow_datasets has written."""
    return Path(shutil.copytree(golden / "tfds/1.0.0", tmp_path / "data"))


def files(data: Path, split: str) -> list[Path]:
    return sorted(data.glob(f"tiny-{split}.tfrecord-*"))


def records(data: Path, split: str) -> list[bytes]:
    found: list[bytes] = []
    for file in files(data, split):
        found += tfrecord_records(file.read_bytes())
    return found


def linked(data: Path, split: str) -> Path:
    """Make an ordinary directory of the split's TFRecord files."""
    folder = data.parent / f"linked-{split}"
    folder.mkdir()
    for file in files(data, split):
        (folder / file.name).symlink_to(file)
    return folder


def write_info(data: Path, *splits: dict[str, Any], **more: Any) -> None:
    given = {"name": "tiny", "splits": splits, "version": "1.0.0"} | more
    (data / "dataset_info.json").write_text(json.dumps(given))


@by_both
@pytest.mark.promise("S26")
def test_each_split_is_a_directory_of_its_records(mount: MakeMount, data: Path) -> None:
    tree = mount(data, "-o", "xattr")
    assert tree.ask(probes.listdir, "") == ["test", "train"]
    inodes = tree.ask(probes.inodes, "")
    assert len(set(inodes.values())) == len(inodes)
    first = 0
    for split in sorted(SPLITS):
        there = records(data, split)
        assert len(there) == sum(SPLITS[split])
        names = [f"{number:09d}" for number in range(len(there))]
        assert sorted(tree.ask(probes.listdir, split)) == names
        for number, name in enumerate(names):
            file = f"{split}/{name}/record.bin"
            assert tree.ask(probes.read, file) == there[number]
            shown = tree.ask(probes.getxattr, file, "user.ffrfs.record")
            assert shown == b"%d" % (first + number)
        first += len(there)
        alone = mount(linked(data, split))
        assert tree.ask(probes.contents, split) == alone.ask(probes.contents, "")
    for path in ("000000000", "train/000000007", "test/000000003", "tes", "train/train"):
        assert tree.ask(probes.errno_of, path, "stat") == errno.ENOENT
    assert tree.ask(probes.statvfs, "").f_files == 1 + 2 + 10


@pytest.mark.promise("S26")
def test_a_split_is_mounted_alone(mount: MakeMount, data: Path) -> None:
    tree = mount(data / "train")
    assert tree.ask(probes.contents, "") == mount(linked(data, "train")).ask(probes.contents, "")
    assert tree.statistics()["packs"] == [str(data / "train")]


@pytest.mark.promise("S4")
def test_dot_entries_have_the_right_inodes_and_the_source_is_the_directory(
    mount: MakeMount, data: Path
) -> None:
    tree = mount(data)
    assert tree.statistics()["packs"] == [str(data)]
    there = mount_at(str(tree.path))
    assert there is not None
    assert there.source == str(data)
    for path in ("train", "train/000000003", "train/000000003/inner"):
        entries = dict(tree.ask(probes.inodes_of_listing, path))
        assert entries[".."] == tree.ask(probes.stat, str(Path(path).parent)).st_ino
        assert entries["."] == tree.ask(probes.stat, path).st_ino


@pytest.mark.promise("S32")
def test_hints_name_records_in_splits(mount: MakeMount, data: Path) -> None:
    tree = mount(data)
    hint_all(tree, [b"/train/000000003/image.png", b"/test/000000002/record.bin", b"4"])
    hint_all(tree, [b"/train", b"/000000003/image.png", b"/train/000000007/image.png"])
    found = settled(tree)
    assert found["prefetch.hinted"] == 3
    assert found["prefetch.dropped"] == 3


@pytest.mark.promise("S29")
def test_a_damaged_record_is_named_by_its_path(mount: MakeMount, data: Path) -> None:
    file = files(data, "train")[1]
    offset, size = tfrecord_extents(file.read_bytes())[1]
    flip_byte(file, offset + size // 2)
    tree = mount(data)
    tree.expect_log(f"cannot read train/000000003.*: {file}: record 1 .*checksum mismatch")
    assert tree.ask(probes.errno_of, "train/000000003", "list") == errno.EIO
    assert tree.ask(probes.read, "train/000000004/record.bin") == records(data, "train")[4]


def test_empty_splits_and_odd_names(mount: MakeMount, tmp_path: Path) -> None:
    data = tmp_path / "odd"
    data.mkdir()
    names = ["ü", "a b", "-x", ".hidden", "l\nine", "n" * 200]
    for name in names:
        one = write_tfrecord(tmp_path / "one", [from_dict({"name": name}).SerializeToString()])
        one.rename(data / f"tiny-{name}.tfrecord-00000-of-00001")
    splits = [{"name": name, "shardLengths": ["1"]} for name in names]
    write_info(data, *splits, {"name": "empty", "shardLengths": []})
    tree = mount(data)
    assert sorted(tree.ask(probes.listdir, "")) == sorted([*names, "empty"])
    assert tree.ask(probes.listdir, "empty") == []
    for name in names:
        assert tree.ask(probes.read, f"{name}/000000000/name.txt").decode() == name


@pytest.mark.promise("S26")
def test_missing_shards(new_mount: MakeMount, mount: MakeMount, data: Path) -> None:
    there = records(data, "train")
    files(data, "train")[1].unlink()
    gap = f"{data}/train: of its 3 files, 'tiny-train.tfrecord-00001-of-00003' is missing"
    for pack in (data, data / "train"):
        mount_command_fails(new_mount(pack).mount(), 1, f"{gap}; restore", "--allow-missing")
    assert len(mount(data / "test").ask(probes.listdir, "")) == 3
    tree = new_mount(data)
    done = tree.mount("--allow-missing")
    assert done.status == 0
    assert done.err == f"ffrfs: {gap}; the rest is shown without it\n"
    tree.expect_log("the rest is shown without it")
    shown = [tree.ask(probes.read, f"train/{number:09d}/record.bin") for number in range(4)]
    assert shown == [*there[:2], *there[5:]]
    assert len(tree.ask(probes.listdir, "test")) == 3
    for file in data.glob("*.tfrecord-*"):
        file.unlink()
    mount_command_fails(new_mount(data).mount("--allow-missing"), 1, f"{data}: there are no files")


@pytest.mark.promise("S16")
def test_unmountable_data_sets_give_one_error_line(new_mount: MakeMount, data: Path) -> None:
    info = data / "dataset_info.json"
    mount_command_fails(new_mount(data / "valid").mount(), 1, f"{data}/valid", "no such split")
    files(data, "test")[1].write_bytes(b"\x1f\x8b\x08" + bytes(40))
    mount_command_fails(new_mount(data).mount(), 1, str(files(data, "test")[1]), "compressed")
    write_info(data, fileFormat="array_record")
    mount_command_fails(new_mount(data).mount(), 1, str(info), "only tfrecord can be read")
    write_info(data, {"name": "n" * 256, "shardLengths": []})
    mount_command_fails(new_mount(data).mount(), 1, str(info), "is not a name of a split")
    splits = [{"name": f"{number:0200}", "shardLengths": []} for number in range(600)]
    write_info(data, *splits, {"name": "test", "shardLengths": [1, 1, 1]})
    mount_command_fails(new_mount(data).mount(), 1, str(data), "too long to be mounted together")
    info.write_text("{")
    for pack in (data, data / "train"):
        mount_command_fails(new_mount(pack).mount(), 1, f"{info}: not JSON")


def test_folders_other_than_tfds_are_not_taken_for_tfds(
    mount: MakeMount, data: Path, tmp_path: Path
) -> None:
    flat = [f"{number:09d}" for number in range(10)]
    (data / "dataset_info.json").write_text('{"splits": {"train": {}}}')  # as by Hugging Face
    assert sorted(mount(data).ask(probes.listdir, "")) == flat
    (data / "dataset_info.json").unlink()
    assert sorted(mount(data).ask(probes.listdir, "")) == flat
    for file in data.iterdir():
        file.unlink()
    write_info(data, {"name": "train", "shardLengths": ["1"]})
    assert ffrfs("pack", data, tmp_path / "x.ffr").status == 0
    os.rename(tmp_path / "x.ffr", data / "x.ffr")
    assert mount(data).ask(probes.listdir, "") == ["dataset_info.json"]
