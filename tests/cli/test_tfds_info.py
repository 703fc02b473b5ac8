"""`ffrfs info` of a TFDS directory: splits, declared features, and differences from those."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT
from tests.cli.command_run import Run
from tests.tfrecord_file import write_tfrecord


@pytest.fixture
def data(tmp_path: Path) -> Path:
    shutil.copytree(CHECKOUT / "tests" / "golden" / "tfds" / "1.0.0", tmp_path / "tiny")
    return tmp_path / "tiny"


def test_splits(ffrfs: Run, data: Path) -> None:
    lines = ffrfs("info", data).said
    assert "data set         tiny 1.0.0 (tensorflow_datasets)" in lines
    assert lines[-3:] == [
        "split  Examples  records  files  missing files",
        "train  7         7        3      0",
        "test   3         3        3      0",
    ]
    assert ffrfs("info", data / "test").lines[-1] == "test   3         3        3      0"


def test_files_that_differ_from_dataset_info(ffrfs: Run, data: Path) -> None:
    (data / "tiny-train.tfrecord-00001-of-00003").unlink()
    wrong = write_tfrecord(data / "tiny-test.tfrecord-00002-of-00003", [b"", b""])
    done = ffrfs("info", data)
    assert done.status == 0
    assert done.lines[-2:] == [
        "train  7         4        3      1",
        "test   3         4        3      0",
    ]
    assert done.err == f"ffrfs: {wrong}: has 2 records, and dataset_info.json says 1\n"
    found = json.loads(ffrfs("info", "--json", data).out)["tfds"]
    train, test = found["splits"]
    assert train["missing"] == [str(data / "tiny-train.tfrecord-00001-of-00003")]
    assert test["wrong"] == [{"file": str(wrong), "records": 2, "examples": 1}]
    assert ffrfs("info", data / "train").complaint == (
        f"{data}/train: of its 3 files, 'tiny-train.tfrecord-00001-of-00003' is missing"
    )


def test_declared_features(ffrfs: Run, data: Path) -> None:
    features = json.loads((data / "features.json").read_text())
    members = features["featuresDict"]["features"]
    members["zoo"] = members["label"]
    members["other"] = {"pythonClassName": "mine.Graph", "jsonFeature": {}}
    (data / "features.json").write_text(json.dumps(features))
    lines = ffrfs("info", "--schema", data).said
    rows = {line.split()[0]: " ".join(line.split()) for line in lines if line}
    assert rows["feature"] == "feature type presence values domain declared"
    assert rows["image"].startswith("image bytes required 1 ")
    assert rows["image"].endswith(" Image uint8 (2, 3, 3) png")
    assert rows["any/value"].endswith(" Tensor uint8 (?, ?) zlib")
    assert rows["nested/ragged_row_lengths_0"].endswith(" Tensor int64 (?, ?)")
    assert rows["zoo"] == "zoo - missing - - ClassLabel int64"
    assert rows["other"] == "other - missing - - Graph"
    found = json.loads(ffrfs("info", "--schema", "--json", data / "test").out)
    assert found["missing"]["zoo"]["class"] == "ClassLabel"
    (label,) = (feature for feature in found["features"] if feature["name"] == "label")
    assert label["declared"] == {
        "feature": "label", "class": "ClassLabel", "dtype": "int64", "shape": [], "encoding": None,
    }  # fmt: skip


def test_without_features(ffrfs: Run, data: Path) -> None:
    (data / "features.json").unlink()
    done = ffrfs("info", "--schema", data)
    assert done.status == 0
    assert not any("declared" in line for line in done.lines)


def test_a_damaged_file(ffrfs: Run, data: Path) -> None:
    (data / "dataset_info.json").write_text("{")
    for arguments in ([data], ["--schema", data], [data / "train"]):
        done = ffrfs("info", *arguments)
        assert done.complaint.startswith(f"{data}/dataset_info.json: not JSON (")


def test_a_split_in_other_commands(ffrfs: Run, data: Path, tmp_path: Path) -> None:
    assert ffrfs("convert", data / "train", tmp_path / "x.jsonl").lines[-1].endswith(": 7 records")
    assert ffrfs("verify", data / "test").status == 0
    assert ffrfs("head", "-n", "1", data / "test").lines[0].startswith("record 0: Example, ")
    assert ffrfs("cat", "--example", data / "train", "6").status == 0
