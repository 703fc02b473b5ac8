"""TFDS directories: tensorflow_datasets wrote tests/golden/tfds; an error is one line."""

from __future__ import annotations

import base64
import copy
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ffrfs.errors import FormatError
from ffrfs.tfrecord import (
    RaggedValue,
    RecordDataset,
    TFRecordReader,
    open_tfds,
    parse_example,
    tfds,
)
from ffrfs.tfrecord.parsing.parse import parse_single_example
from ffrfs.tfrecord.shards import shard_paths
from ffrfs.tfrecord.tfds import find_split
from tests.checkout import CHECKOUT
from tests.tfrecord_file import write_tfrecord

GOLDEN = CHECKOUT / "tests" / "golden" / "tfds"
TFDS = "tensorflow_datasets.core.features"


def decoded(value: Any) -> Any:
    """Decode a value of values.json."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return base64.b64decode(value["b"]) if isinstance(value, dict) and "b" in value else value


def at(values: Any, path: str) -> Any:
    for name in path.split("/"):
        values = values[name]
    return decoded(values)


def plain(value: Any) -> Any:
    return value.to_list() if isinstance(value, RaggedValue) else np.asarray(value).tolist()


@pytest.mark.parametrize("name", ["train", "test"])
def test_values_are_those_that_tfds_reads(name: str) -> None:
    data = open_tfds(GOLDEN / "1.0.0")
    wanted = json.loads((GOLDEN / "values.json").read_text())[name]
    records = list(RecordDataset(data.splits[name].files))
    assert len(records) == len(wanted) == data.splits[name].num_examples
    for record, values in zip(records, wanted, strict=True):
        found = parse_single_example(record, data.features)
        assert sorted(found) == sorted(feature.name for feature in data.declared)
        for path in found:
            assert plain(found[path]) == at(values, path), path


def test_directory_at_a_url_is_refused() -> None:
    with pytest.raises(FormatError, match=r"^s3://b/mnist/3\.0\.1/: .* at URLs are not supported"):
        open_tfds("s3://b/mnist/3.0.1/")


def test_every_value_of_tfds_is_declared() -> None:
    def leaves(values: dict[str, Any], above: str = "") -> list[str]:
        found = []
        for name, value in values.items():
            is_tree = isinstance(value, dict) and "b" not in value
            found += leaves(value, f"{above}{name}/") if is_tree else [above + name]
        return found

    values = json.loads((GOLDEN / "values.json").read_text())["train"][0]
    assert sorted(leaves(values)) == sorted(open_tfds(GOLDEN / "1.0.0").features)


def test_a_batch() -> None:
    data = open_tfds(GOLDEN / "1.0.0")
    with TFRecordReader(GOLDEN / "1.0.0" / "train") as reader:
        assert reader.paths == data.splits["train"].files
        batch = parse_example(reader.read(range(7)), data.features)
    assert batch["image"].shape == (7,)
    assert [len(row) for row in batch["nested"].to_list()] == [3] * 7


def test_declared_features() -> None:
    found = {
        feature.name: (feature.kind, feature.dtype, feature.shape, feature.encoding)
        for feature in open_tfds(GOLDEN / "1.0.0").declared
    }
    assert found["image"] == ("Image", "uint8", (2, 3, 3), "png")
    assert found["any/value"] == ("Tensor", "uint8", (None, None), "zlib")
    assert found["objects/bbox"] == ("BBoxFeature", "float32", (None, 4), "")
    assert found["nested_boxes"] == ("BBoxFeature", "float32", (None, None, 4), "")
    assert found["label"] == ("ClassLabel", "int64", (), "")
    assert found["flag"] == ("Tensor", "bool", (), "")
    assert found["pair"] == ("Tensor", "int64", (2,), "")
    assert found["video"] == ("Video", "uint8", (None, 2, 3, 3), "png")


def test_a_split_is_named_as_if_it_were_a_directory(tmp_path: Path) -> None:
    place = GOLDEN / "1.0.0"
    assert [os.path.basename(path) for path in shard_paths(place / "test")] == [
        f"tiny-test.tfrecord-{i:05}-of-00003" for i in range(3)
    ]
    assert shard_paths(f"{place}/test/") == shard_paths(place / "test")
    with pytest.raises(FormatError, match=r"/valid: .* no such split \('train', 'test'\)"):
        shard_paths(place / "valid")
    assert find_split(str(place / "no" / "test")) is None
    assert find_split(str(tmp_path / "test")) is None


INFO: dict[str, Any] = {
    "name": "d",
    "splits": [{"name": "train", "shardLengths": ["1", "2"]}],
    "version": "1.0.0",
}


def write_tfds(place: Path, info: Any = INFO, features: Any = None) -> Path:
    place.mkdir(exist_ok=True)
    (place / "dataset_info.json").write_text(json.dumps(info))
    if features is not None:
        given = {"featuresDict": {"features": features}}
        (place / "features.json").write_text(json.dumps(given))
    return place


def with_split(**fields: Any) -> Any:
    changed = copy.deepcopy(INFO)
    changed["splits"][0].update(fields)
    return changed


@pytest.mark.parametrize(
    ("template", "name"),
    [
        (None, "d-train.tfrecord-00001-of-00002"),
        ("", "d-train.tfrecord-00001-of-00002"),
        ("{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}", "train.tfrecord-00001-of-00002"),
        ("{DATASET}{SHARD_INDEX}.{NUM_SHARDS}", "d00001.00002"),
        ("x/{SPLIT}/{SHARD_INDEX}.tfrecord", "x/train/00001.tfrecord"),
    ],
)
def test_templates(tmp_path: Path, template: str | None, name: str) -> None:
    place = write_tfds(tmp_path / "d", with_split(filepathTemplate=template))
    split = open_tfds(place).splits["train"]
    assert split.shard_paths[1] == str(place / name)
    for path in split.shard_paths:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_tfrecord(Path(path), [b"a"])
    assert split.files == list(split.shard_paths)


def test_numbers_of_shards_have_five_digits_or_more(tmp_path: Path) -> None:
    place = write_tfds(tmp_path / "d", with_split(shardLengths=[1] * 100_000))
    assert open_tfds(place).splits["train"].shard_paths[7].endswith("-000007-of-100000")


def test_missing_shards(tmp_path: Path) -> None:
    place = write_tfds(tmp_path / "d")
    with pytest.raises(FormatError) as caught:
        RecordDataset(place / "train")
    assert str(caught.value) == (
        f"{place}/train: of its 2 files, 'd-train.tfrecord-00000-of-00002' and 1 more are missing"
    )
    write_tfds(place, with_split(shardLengths=[]))
    with pytest.raises(FormatError, match="train: the split has no files"):
        shard_paths(place / "train")


HUGE = "9" * 30


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ([], "not a JSON object"),
        ({"name": 1}, "the name of the data set is not a text"),
        ({"name": "\ud800"}, "is not UTF-8"),
        ({"splits": 7}, "splits is not a list"),
        ({"splits": [7]}, "a split is not a JSON object"),
        ({"fileFormat": "array_record"}, "its files are 'array_record'; only tfrecord can be read"),
        ({"splits": [{"name": "a"}, {"name": "a"}]}, "two splits have the same name"),
        (with_split(name="../x"), "'../x' is not a name of a split"),
        (with_split(name=".."), "'..' is not a name of a split"),
        (with_split(name=""), "'' is not a name of a split"),
        (with_split(shardLengths={}), "shardLengths is not a list"),
        (with_split(shardLengths=["-1"]), "'-1' is not a number of Examples"),
        (with_split(shardLengths=[HUGE]), f"'{HUGE}' is not a number"),
        (with_split(shardLengths=[True]), "True is not a number"),
        (with_split(numBytes=0.5), "0.5 is not a number"),
        (with_split(filepathTemplate="../{SHARD_X_OF_Y}"), "leads out of the directory"),
        (with_split(filepathTemplate="/etc/{SHARD_X_OF_Y}"), "leads out of the directory"),
        (with_split(filepathTemplate="\0{SHARD_X_OF_Y}"), "leads out of the directory"),
        (with_split(filepathTemplate="{OTHER}{SHARD_X_OF_Y}"), "is not known"),
        (with_split(filepathTemplate="{SPLIT.__class__}"), "is not known"),
        (with_split(filepathTemplate="{a{SPLIT}{SHARD_INDEX}"), "is not known"),
        (with_split(filepathTemplate="x"), "gives all files the same name"),
        (with_split(filepathTemplate="x" * 5000 + "{SHARD_INDEX}"), "is not known"),
        (
            with_split(filepathTemplate="x" * 4000 + "{SHARD_INDEX}", shardLengths=[1] * 200_000),
            "split 'train': the names of its files are too long",
        ),
        (
            {
                "splits": [
                    {"name": "0", "shardLengths": [1, 1]},
                    {"name": "1", "shardLengths": [1] * 999_999},
                ]
            },
            "split '1': shardLengths is not a list, or the splits have more than a million files",
        ),
    ],
)
def test_hostile_info(tmp_path: Path, info: Any, reason: str) -> None:
    place = write_tfds(tmp_path / "d", info)
    with pytest.raises(FormatError) as caught:
        open_tfds(place)
    assert str(caught.value).startswith(f"{place / 'dataset_info.json'}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_names_of_all_splits_have_one_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = [{"name": name, "shardLengths": [1] * 10} for name in "ab"]
    place = write_tfds(tmp_path / "d", {"name": "d", "splits": splits})
    found = open_tfds(place).splits.values()
    size = sum(len(path) for split in found for path in split.shard_paths)
    monkeypatch.setattr(tfds, "_PATHS_SIZE_MAX", size)
    assert len(open_tfds(place).splits) == 2
    monkeypatch.setattr(tfds, "_PATHS_SIZE_MAX", size - 1)
    with pytest.raises(FormatError, match="split 'b': the names of its files are too long"):
        open_tfds(place)


@pytest.mark.parametrize("template", ["{" * 1_000_000, "{SPLIT" * 200_000, "{" * 4090 + "{SPLIT}"])
def test_time_for_a_template_is_proportional_to_its_length(tmp_path: Path, template: str) -> None:
    info = with_split(filepathTemplate=template, shardLengths=[1] * 1000)
    place = write_tfds(tmp_path / "d", info)
    begin = time.process_time()
    with pytest.raises(FormatError, match=r"filepathTemplate .* is not known|the same name"):
        open_tfds(place)
    assert time.process_time() - begin < 60


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 200_000, "the JSON is nested too deep"),
        (b'{"splits": [{"name": "a", "numBytes": ' + b"9" * 5000 + b"}]}", "not JSON"),
    ],
)
def test_hostile_json(tmp_path: Path, text: bytes, reason: str) -> None:
    (tmp_path / "dataset_info.json").write_bytes(text)
    with pytest.raises(FormatError, match=r"dataset_info\.json: ") as caught:
        open_tfds(tmp_path)
    assert reason in str(caught.value)


def test_hostile_files(tmp_path: Path) -> None:
    file = tmp_path / "dataset_info.json"
    with pytest.raises(FormatError, match=r"has no dataset_info\.json; .* such as mnist/3\.0\.1"):
        open_tfds(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_tfds(tmp_path / "none")
    os.mkfifo(file)
    with pytest.raises(FormatError, match="not a regular file"):
        open_tfds(tmp_path)
    file.unlink()
    with file.open("wb") as stream:
        stream.truncate((16 << 20) + 1)
    with pytest.raises(FormatError, match="larger than 16 MiB"):
        open_tfds(tmp_path)


def test_files_of_another_library(tmp_path: Path) -> None:
    """Hugging Face's datasets give their files the same name."""
    place = write_tfds(tmp_path / "d", {"splits": {"train": {"name": "train"}}})
    write_tfrecord(place / "x.tfrecord", [b"a"])
    assert list(RecordDataset(place)) == [b"a"]
    assert shard_paths(place / "train") == [str(place / "train")]
    with pytest.raises(FormatError, match="its splits are not a list"):
        open_tfds(place)


def tensor(dtype: str = "int64", **fields: Any) -> Any:
    return {"pythonClassName": f"{TFDS}.Tensor", "tensor": {"dtype": dtype, **fields}}


def deep(feature: Any, depth: int) -> Any:
    for _ in range(depth):
        feature = {"sequence": {"feature": feature}}
    return feature


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ({"a": 7}, "feature 'a': not a JSON object"),
        ({"a": {"sequence": {}}}, "feature 'a': not a JSON object"),
        ({"a": tensor(7)}, "feature 'a': 7 is not a name"),  # type: ignore[arg-type]
        ({"a": tensor(shape=[])}, "feature 'a': not a JSON object"),
        ({"a": tensor(shape={"dimensions": [HUGE]})}, "is not a size"),
        ({"a": tensor(shape={"dimensions": ["-2"]})}, "'-2' is not a size"),
        ({"a": tensor(shape={"dimensions": [1] * 1000})}, "its shape is not a list of sizes"),
        ({"a": deep(tensor(), 40)}, "feature 'a' has too many dimensions"),
        ({"a": deep(tensor(), 100)}, "nested more than 64 deep"),
        ({"a/b": tensor(), "a": {"featuresDict": {"features": {"b": tensor()}}}}, "the same name"),
        (
            {
                "a/b": tensor(shape={"dimensions": ["3"]}),
                "a": {"featuresDict": {"features": {"b": deep(tensor(), 2)}}},
            },
            "the same name",
        ),
        ({"a": {"translation": {"languages": [1]}}}, "its languages are not a list of names"),
        ({"\ud800": tensor()}, "feature '\\ud800' is not UTF-8"),
        ({"a" * 1001: tensor()}, f"the name of feature '{'a' * 100}'… is too long"),
        ({"a" * 1001: {"featuresDict": {}}}, f"the name of feature '{'a' * 100}'… is too long"),
        (
            {"a": tensor(shape={"dimensions": ["2000000000", "2"]})},
            "feature 'a' has a shape of too many values",
        ),
        (dict.fromkeys(map(str, range(100_001)), tensor()), "has more than 100,000 features"),
    ],
)
def test_hostile_features(tmp_path: Path, features: Any, reason: str) -> None:
    data = open_tfds(write_tfds(tmp_path / "d", features=features))
    with pytest.raises(FormatError) as caught:
        _ = data.features
    place = f"{tmp_path / 'd' / 'features.json'}: "
    assert str(caught.value).startswith(place)
    assert str(caught.value).count(place) == 1
    assert reason in str(caught.value)


def test_features_that_only_tfds_knows(tmp_path: Path) -> None:
    own = {"pythonClassName": "mine.Graph", "jsonFeature": {"json": "{}"}}
    features = {"a": tensor(), "g": own, "c": tensor("complex64")}
    data = open_tfds(write_tfds(tmp_path / "d", features=features))
    assert [feature.name for feature in data.declared] == ["a", "c", "g"]
    with pytest.raises(
        FormatError, match=r"features\.json: feature 'c' is a Tensor, which is unkn"
    ):
        _ = data.features
    shape = {"dimensions": ["2", "-1"]}
    data = open_tfds(write_tfds(tmp_path / "d", features={"a": tensor(shape=shape)}))
    with pytest.raises(FormatError, match=r"feature 'a' has the shape \(2, \?\), of which TFDS"):
        _ = data.features
    (tmp_path / "d" / "features.json").write_text('{"type": "old"}')
    with pytest.raises(FormatError, match="written by an old version of tensorflow_datasets"):
        _ = open_tfds(tmp_path / "d").features


def test_a_damaged_directory_is_not_taken_for_another_kind(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "1.0.0", tmp_path / "d")
    (tmp_path / "d" / "dataset_info.json").write_bytes(b"{")
    with pytest.raises(FormatError, match=r"dataset_info\.json: not JSON"):
        RecordDataset(tmp_path / "d" / "train")
