"""Write a small data set with TFDS, and what TFDS reads from it, into tests/golden/tfds.

    python tests/golden_tf/record_tfds.py        # with tensorflow and tensorflow_datasets

It has every kind of feature whose form in an Example ffrfs knows. values.json holds the Examples of
both splits in the order of the files, as TFDS's own parser returns them, with encoded images;
bytes are base64 in {"b": …}.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

TARGET = Path(__file__).parents[1] / "golden" / "tfds"
SPLITS = {"train": 7, "test": 3}
SHARDS = 3


class Tiny(tfds.core.GeneratorBasedBuilder):
    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        f = tfds.features
        box = f.BBoxFeature()
        features = {
            "any": f.Tensor(shape=(None, None), dtype=np.uint8, encoding="zlib"),
            "audio": f.Audio(shape=(None,)),
            "box": box,
            "flag": f.Tensor(shape=(), dtype=np.bool_),
            "id": f.Scalar(np.int32),
            "image": f.Image(shape=(2, 3, 3), encoding_format="png"),
            "inner": f.Dataset({"a": np.int64}),
            "label": f.ClassLabel(names=["cat", "dog"]),
            "matrix": f.Tensor(shape=(2, 2), dtype=np.float64),
            "meta": {"name": f.Text(), "deep": {"n": np.int64}},
            "nested": f.Sequence(f.Sequence(np.int64)),
            "nested_boxes": f.Sequence(f.Sequence(box)),
            "objects": f.Sequence({"label": f.ClassLabel(num_classes=5), "bbox": box}),
            "pair": f.Sequence(np.int64, length=2),
            "points": f.Tensor(shape=(None, 2), dtype=np.float32),
            "raw": f.Tensor(shape=(3,), dtype=np.int16, encoding="bytes"),
            "text": f.Text(),
            "translation": f.Translation(["de", "en"]),
            "translations": f.TranslationVariableLanguages(["de", "en"]),
            "video": f.Video(shape=(None, 2, 3, 3)),
            "words": f.Sequence(f.Text()),
        }
        return tfds.core.DatasetInfo(builder=self, features=f.FeaturesDict(features))

    def _split_generators(self, _: Any) -> dict[str, Any]:
        return {name: self._generate_examples(count) for name, count in SPLITS.items()}

    def _generate_examples(self, count: int) -> Any:
        box = tfds.features.BBox(0.0, 0.25, 0.5, 1.0)
        for i in range(count):
            image = np.full((2, 3, 3), i, np.uint8)
            example = {
                "any": np.ones((i, 2), np.uint8),
                "audio": np.arange(i, dtype=np.int64),
                "box": box,
                "flag": i % 2 == 0,
                "id": i,
                "image": image,
                "inner": [{"a": 1}, {"a": i}],
                "label": i % 2,
                "matrix": np.eye(2),
                "meta": {"name": f"name {i}", "deep": {"n": -i}},
                "nested": [[1, 2], [], [i]],
                "nested_boxes": [[box] * i, []],
                "objects": [{"label": j, "bbox": box} for j in range(i % 3)],
                "pair": [i, i],
                "points": np.full((i, 2), 0.5, np.float32),
                "raw": np.array([1, 2, i], np.int16),
                "text": f"text {i}",
                "translation": {"de": "ja", "en": "yes"},
                "translations": {"de": "ja", "en": ["yes", "sure"]},
                "video": np.stack([image] * (i + 1)),
                "words": ["a"] * i,
            }
            yield str(i), example


def encoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: encoded(item) for name, item in value.items()}
    if isinstance(value, tf.RaggedTensor):
        return encoded(value.to_list())
    if isinstance(value, tf.Tensor):
        return encoded(value.numpy().tolist() if value.shape.rank else value.numpy())
    if isinstance(value, bytes):
        return {"b": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [encoded(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        builder = Tiny(data_dir=place, file_format="tfrecord")
        config = tfds.download.DownloadConfig(num_shards=SHARDS)
        builder.download_and_prepare(download_config=config)
        specs = builder.info.features.get_serialized_info()
        parser = tfds.core.example_parser.ExampleParser(specs)
        values = {
            name: [
                encoded(parser.parse_example(record))
                for file in split.filepaths
                for record in tf.data.TFRecordDataset(os.fspath(file))
            ]
            for name, split in builder.info.splits.items()
        }
        shutil.rmtree(TARGET, ignore_errors=True)
        shutil.copytree(Path(place) / "tiny" / "1.0.0", TARGET / "1.0.0")
    (TARGET / "values.json").write_text(json.dumps(values, indent=1, sort_keys=True) + "\n")
    print(f"{TARGET}: {sum(map(len, values.values()))} Examples written by TFDS {tfds.__version__}")


if __name__ == "__main__":
    main()
