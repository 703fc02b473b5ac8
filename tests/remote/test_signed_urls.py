"""What follows the `?` of a URL may be a key: it is sent, and shown nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ffrfs
from ffrfs.tfrecord import TFRecordReader, TFRecordWriter
from tests.folder.folder_model import make_folder
from tests.mount.makers import closing_mounts
from tests.remote.reading import reading_urls
from tests.remote.servers.nginx import Nginx

pytestmark = pytest.mark.promise("S65")

# With a slash and a name in it: it is no part of the path.
QUERY = "?k=hush/x.tfrecord"


@pytest.fixture
def place(
    web: Nginx, web_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    folder = web_root / tmp_path.name
    for name in ("b", "a"):
        make_folder(tmp_path / name, {name: {"1": b"x" * 2000, "2": name.encode()}})
        folder.mkdir(exist_ok=True)
        ffrfs.pack_folder(tmp_path / name, folder / f"{name}.ffr")
    (folder / "records").mkdir()
    with TFRecordWriter(folder / "records" / "x.tfrecord") as writer:
        writer.write(b"record")
    with reading_urls(monkeypatch, tmp_path):
        yield f"{web.url}/{folder.name}"


def test_a_directory(place: str) -> None:
    folder = ffrfs.PackedFolder(f"{place}/{QUERY}")
    assert list(folder) == ["a/1", "a/2", "b/1", "b/2"]
    names = [f"{place}/{name}.ffr{QUERY}" for name in ("a", "b")]
    assert ffrfs.FileReader(f"{place}/{QUERY}").fnames == names
    assert TFRecordReader(f"{place}/records/{QUERY}")[0] == b"record"


def test_a_mount_of_a_directory(place: str, tmp_path: Path, fuse: None) -> None:
    with closing_mounts(tmp_path, tmp_path) as new:
        tree = new("native", f"{place}/{QUERY}")
        done = tree.mount("--cache-dir", str(tmp_path / "cache"))
        assert (done.status, done.err) == (0, "")
        assert (tree.path / "b" / "2").read_bytes() == b"b"
        assert "hush" not in tree.log()
