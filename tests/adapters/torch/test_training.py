"""The code of docs/training.md, and examples/train.py, run with small data."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from pathlib import Path

import pytest

from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.tfrecord import TFRecordWriter, from_dict
from tests.adapters.program_run import run_script
from tests.checkout import CHECKOUT
from tests.docs.shown import Shell
from tests.ffrecord_file import write_records

DOCUMENT = CHECKOUT / "docs" / "training.md"
EXAMPLE = CHECKOUT / "examples" / "train.py"
BLOCK = re.compile(r"^```(sh|python|python no-run)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PHOTOS = 24

# The document's train.py: it reads all of its files, in the given order or in its own.
TRAIN_PY = f"""\
import sys
from pathlib import Path
root, *order = sys.argv[1:]
paths = Path(order[0]).read_text().splitlines() if order else Path(root).rglob("*.jpg")
assert len({{Path(path).read_bytes() for path in paths}}) == {PHOTOS}
"""
# Runs programs one after another with fork. They require no certain start method.
FORKING = """\
import multiprocessing, os, runpy, sys
multiprocessing.set_start_method("fork", force=True)
os.chdir(os.path.dirname(__file__))
for program in sys.argv[1:]:
    runpy.run_path(program, run_name="__main__")
"""

pytestmark = pytest.mark.usefixtures("fuse")


def make_data(work: Path) -> None:
    """Write all files that the document's blocks use."""
    for number in range(PHOTOS):
        folder = work / "photos" / f"class {number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(os.urandom(9000))
    write_records(work / "records.ffr", [bytes([number]) * 100 for number in range(20)])
    (work / "shards").mkdir()
    with TFRecordWriter(work / "shards" / "a.tfrecord") as writer:
        for number in range(5):
            writer.write(from_dict({"label": [number]}).SerializeToString())
    (work / "train.py").write_text(TRAIN_PY)


def blocks_in(text: str) -> list[tuple[str, str]]:
    """Return language and text of each block, in the order of the document."""
    found = BLOCK.findall(text)
    assert len(found) == text.count("\n```") / 2
    return found


def test_document(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    here = tmp_path / "here"
    make_data(here)
    program = here / "forking.py"
    program.write_text(FORKING)
    with contextlib.closing(shell):
        for language, group in itertools.groupby(blocks_in(DOCUMENT.read_text()), lambda it: it[0]):
            texts = [text for _, text in group]
            if language == "sh":
                for line in "".join(texts).splitlines():
                    shell.run(line.partition("  #")[0].rstrip())
            elif language == "python":
                names = [f"block{number}.py" for number in range(len(texts))]
                for name, text in zip(names, texts, strict=True):
                    (here / name).write_text(text.replace("/mnt/", f"{tmp_path}/mnt/"))
                run_script(program, *names)
        assert mount_at(str(tmp_path / "mnt" / "photos")) is None


def test_example(tmp_path: Path) -> None:
    how = ["--images", "100", "--epochs", "2"]
    output = run_script(EXAMPLE, *how, environment={"TMPDIR": str(tmp_path)})
    assert f"Training from the mount at {tmp_path}/" in output
    assert output.endswith("All 2 batches were those of the uninterrupted training.\n"), output
    assert [line.split(":")[0] for line in output.splitlines() if "epoch" in line.split()[:1]] == [
        *("   epoch 0", "   epoch 1", "   epoch 1")
    ]
    assert re.search(r"prefetch +\d+ hinted", output)
    assert list(tmp_path.glob("ffrfs-*")) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
