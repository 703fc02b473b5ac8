"""docs/python.md: its code runs, from top to bottom, as one program."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import PIL.Image

from tests.checkout import CHECKOUT
from tests.interpreter import python
from tests.mount.command import TIMEOUT_S

PAGE = CHECKOUT / "docs" / "python.md"
CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Checks the results of the page's code, which the page does not print.
OUTCOME = """
from pathlib import Path
from ffrfs.tfrecord import tf_record_iterator

assert labels == "name,label\\nü,1\\n"
assert [image.name for image in images] == ["1.jpg", "2.jpg"]
assert not root.exists()
assert names == ["array.npy", "labels.csv", "train/cat/1.jpg", "train/dog/2.jpg"]
assert (count, list(sizes)) == (len(names), names)
assert jpeg == first.tobytes() == Path("photos/train/cat/1.jpg").read_bytes()
assert (image.size, array.tolist(), header) == ((64, 48), [0, 1, 2, 3, 4], "name,label\\n")
assert (cats, len(everything)) == (["train/cat/1.jpg"], 2)
assert seconds == 1_700_000_000
assert (bytes(last), [bytes(one) for one in some]) == (b"three", [b"one", b"two"])
assert [bytes(one) for one in batch] == [b"three", b"one", b"three"]
assert (found["files"], report["good"]) == (4, True)
assert Path("copy/train/cat/1.jpg").read_bytes() == jpeg
assert list(tf_record_iterator("records.tfrecord.gz")) == [b"one", b"two", b"three"]
"""


def write_photos(folder: Path) -> None:
    for name in ("cat/1.jpg", "dog/2.jpg"):
        (folder / "train" / name).parent.mkdir(parents=True)
        PIL.Image.new("RGB", (64, 48), (200, 100, 50)).save(folder / "train" / name)
    (folder / "labels.csv").write_text("name,label\nü,1\n", encoding="utf-8")
    np.save(folder / "array.npy", np.arange(5))


def test_the_code_of_the_page_runs(fuse: None, places: Path) -> None:
    write_photos(places / "photos")
    os.utime(places / "photos" / "labels.csv", (1_700_000_000,) * 2)
    blocks = CODE.findall(PAGE.read_text())
    assert len(blocks) >= 6
    (places / "page.py").write_text("\n".join([*blocks, OUTCOME]))
    done = python(
        *("-W", "error", "page.py"),
        cwd=places,
        env={**os.environ, "TMPDIR": str(places)},
        timeout=2 * TIMEOUT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = done.stdout.splitlines()
    assert printed[:3] == ["b'one'", "b'two'", "b'three'"]
    assert printed[3].startswith("pack 4 ")
    assert printed[-1] == "labels.ffr"
