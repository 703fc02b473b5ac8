"""docs/training.md and examples/train.py: what they show is run, in a small size."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.tfrecord import TFRecordWriter, from_dict
from tests.adapters.program_run import run
from tests.checkout import CHECKOUT
from tests.ffrecord_file import write_records

DOCUMENT = CHECKOUT / "docs" / "training.md"
EXAMPLE = CHECKOUT / "examples" / "train.py"
BLOCK = re.compile(r"^```(sh|python|python no-run)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PHOTOS = 24

# What the document calls so: reads its files, all of them, in the order given or its own.
TRAIN_PY = f"""\
import sys
from pathlib import Path
root, *order = sys.argv[1:]
paths = Path(order[0]).read_text().splitlines() if order else Path(root).rglob("*.jpg")
assert len({{Path(path).read_bytes() for path in paths}}) == {PHOTOS}
"""
# Runs programs that keep to no start method one after another, with fork: torch is imported once.
FORKING = """\
import multiprocessing, runpy, sys
multiprocessing.set_start_method("fork")
for program in sys.argv[1:]:
    runpy.run_path(program, run_name="__main__")
"""

pytestmark = pytest.mark.usefixtures("fuse")


def make_data(work: Path) -> None:
    """All that the document's blocks find beside them."""
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


def script(work: Path, mountpoint: Path) -> str:
    """The document's blocks, one after another."""
    lines = [
        f"set -eux; cd {shlex.quote(str(work))}",
        f'python() {{ {shlex.quote(sys.executable)} "$@"; }}',
        'ffrfs() { python -m ffrfs "$@"; }',
    ]
    blocks = BLOCK.findall(DOCUMENT.read_text().replace("/mnt/photos", str(mountpoint)))
    assert len(blocks) == DOCUMENT.read_text().count("\n```") / 2
    (work / "forking.py").write_text(FORKING)
    for number, (language, text) in enumerate(blocks):
        if language == "python":
            (work / f"block{number}.py").write_text(text)
            if not lines[-1].startswith("python forking.py"):
                lines.append("python forking.py")
            lines[-1] += f" block{number}.py"
        elif language == "sh":
            lines.append(text)
    return "\n".join(lines)


def test_document(tmp_path: Path) -> None:
    mountpoint = tmp_path / "mounted"
    make_data(tmp_path)
    try:
        run("bash", "-c", script(tmp_path, mountpoint))
        assert mount_at(str(mountpoint)) is None
    finally:
        if mount_at(str(mountpoint)) is not None:
            subprocess.run(
                [sys.executable, "-m", "ffrfs", "umount", mountpoint], timeout=30, check=True
            )


def test_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    output = run(sys.executable, str(EXAMPLE), "--images", "200", "--epochs", "2")
    assert output.endswith("All 4 batches were those of the uninterrupted training.\n"), output
    assert [line.split(":")[0] for line in output.splitlines() if "epoch" in line.split()[:1]] == [
        *("   epoch 0", "   epoch 1", "   epoch 1")
    ]
    assert re.search(r"prefetch +\d+ hinted", output)
    assert list(tmp_path.glob("ffrfs-*")) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
