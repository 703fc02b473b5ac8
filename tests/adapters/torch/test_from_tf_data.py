"""The programs of *From tf.data* in docs/tfrecord.md run with small data."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import cv2
import numpy as np

from ffrfs.tfrecord import TFRecordOptions, TFRecordWriter, from_dict
from tests.adapters.program_run import run_script
from tests.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs" / "tfrecord.md").read_text()
SECTION = PAGE.partition("\n## From tf.data\n")[2]
OURS = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHARDS, RECORDS = 4, 16  # RECORDS in each shard
# One program runs those of the document with fork. They require no certain start method.
FORKING = "import multiprocessing\nmultiprocessing.set_start_method('fork', force=True)\n"


def write_shard(path: Path, options: TFRecordOptions | None = None) -> None:
    """Write pictures of 32 by 32, the labels 0 and 1, and one to four tokens."""
    written, picture = cv2.imencode(".png", np.zeros((32, 32, 3), np.uint8))
    assert written
    with TFRecordWriter(path, options) as writer:
        for number in range(RECORDS):
            example = {
                "image/encoded": picture.tobytes(),
                "label": [number % 2],
                "tokens": list(range(1, number % 4 + 2)),
            }
            writer.write(from_dict(example).SerializeToString())


def test_document(tmp_path: Path) -> None:
    blocks = OURS.findall(SECTION)
    # The pipeline of tf.data, which nothing runs, is marked py.
    assert len(blocks) + SECTION.count("\n```py\n") == SECTION.count("\n```") / 2
    for number in range(SHARDS):
        name = f"{number:05d}.tfrecord"
        for folder, ending, options in (
            ("shards", "", None),
            ("compressed", ".gz", TFRecordOptions("GZIP")),
        ):
            (tmp_path / folder).mkdir(exist_ok=True)
            write_shard(tmp_path / folder / f"{name}{ending}", options)
    (tmp_path / "program.py").write_text(f"import os\nos.chdir({str(tmp_path)!r})\n")
    with open(tmp_path / "program.py", "a") as program:
        program.write(FORKING + "\n".join(blocks))
    run_script(tmp_path / "program.py")


def test_names_in_the_text_exist() -> None:
    dotted = re.findall(r"\b(ffrfs\.(?:torch|tfrecord))\.(\w+)", PAGE)
    assert dotted
    for module, name in dotted:
        assert hasattr(importlib.import_module(module), name)
