"""Each command that a document shows works; tests/remote runs those that need a server."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.tfrecord import from_dict
from tests.checkout import CHECKOUT
from tests.docs import shown
from tests.docs.shown import Shell
from tests.ffrecord_file import write_folder
from tests.folder.folder_model import make_folder
from tests.tfrecord_file import write_tfrecord

JPEG = b"\xff\xd8\xff\xe0" + bytes(300)
IMAGENET = {"train": {"cat": {"1.jpg": JPEG, "2.jpg": JPEG}, "dog": {"3.jpg": JPEG}}}
RECORDS = [from_dict({"label": i, "text": f"pet {i}"}).SerializeToString() for i in range(20)]


@pytest.fixture
def shell(tmp_path: Path, fuse: None) -> Iterator[Shell]:
    """A shell in a directory with the files that the commands read."""
    shell = Shell(tmp_path)
    here = tmp_path / "here"
    make_folder(tmp_path / "new", {"new": IMAGENET})
    for name in ("imagenet", "imagenet21k", "data", "here/pets", "here/photos"):
        make_folder(tmp_path / name, {**IMAGENET, f"{Path(name).name}.csv": name.encode()})
    pack_folder(tmp_path / "imagenet", here / "imagenet.ffr")
    write_folder(here / "theirs.ffr", {"a": b"1"})
    for name in ("old", "a", "b"):
        write_folder(here / f"{name}.ffr", {f"{name}.jpg": JPEG})
    for name in ("photo.jpg", "order.txt", "train.py"):
        (here / name).write_text("")
    (here / "order.txt").write_text("train/cat/1.jpg\n")
    with tarfile.open(here / "data.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "data", "data")
    for name in ("train", "validation", "monday", "tuesday"):
        (here / name).mkdir()
        write_tfrecord(here / name / "x.tfrecord", RECORDS)
    write_tfrecord(here / "train.tfrecord", RECORDS)
    shutil.copy(here / "imagenet.ffr", tmp_path / "data")
    shutil.copytree(CHECKOUT / "tests/golden/tfds/1.0.0", here / "mnist/3.0.1")
    try:
        yield shell
    finally:
        shell.close()


# tests/adapters/torch/test_training.py runs docs/training.md, with its programs.
LOCAL = {
    document: lines
    for document in shown.DOCUMENTS
    if document != "docs/training.md"
    and (lines := [line for line in shown.commands(document) if not shown.is_remote(line)])
}


@pytest.mark.parametrize("document", LOCAL)
def test_commands_of_a_document(shell: Shell, document: str) -> None:
    if document == "docs/viewer.md":
        shell.run("ffrfs schema infer -o schema.pbtxt train/")
    for line in filter(shown.is_run, LOCAL[document]):
        shell.run(line)


def test_every_excluded_command_occurs_in_a_document() -> None:
    left_out = list(shown.left_out())
    unused = [each for each in shown.NOT_RUN if not any(line.startswith(each) for line in left_out)]
    assert unused == []
