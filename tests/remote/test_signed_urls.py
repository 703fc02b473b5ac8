"""The query of a URL may be a key: it is sent, and shown nowhere."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import ffrfs
from ffrfs.errors import FormatError, OptionError, PathNotFoundError, UnverifiedHeaderWarning
from ffrfs.remote.url import parse_url
from ffrfs.tfrecord import RecordDataset, TFRecordReader, TFRecordWriter
from ffrfs.view.choice import Choice, Query
from ffrfs.view.opening import open_sources
from tests.folder.folder_model import make_folder
from tests.mount.makers import closing_mounts
from tests.remote.reading import reading_urls
from tests.remote.servers.nginx import Nginx

pytestmark = pytest.mark.promise("S65")

# The query has a slash and a file name, which are no part of the path.
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


def fails(call: Callable[[], object]) -> str:
    with pytest.raises((ValueError, OSError)) as failed:
        call()
    return str(failed.value)


def test_errors_of_a_pack(place: str) -> None:
    folder = ffrfs.PackedFolder(f"{place}/a.ffr{QUERY}")
    texts = [
        fails(call)
        for call in (
            lambda: folder.read(["none"]),
            lambda: folder["none"],
            lambda: folder.open("none"),
            lambda: folder.open("a/1", "w"),
            lambda: folder["a"],
            lambda: folder.list("a/1"),
            (folder / "none").read_bytes,
            lambda: ffrfs.PackedFolder(f"{place}/none.ffr{QUERY}"),
            lambda: ffrfs.PackedFolder(f"{place}/records/x.tfrecord{QUERY}"),
            lambda: ffrfs.FileReader(f"{place}/records/x.tfrecord{QUERY}"),
            lambda: ffrfs.FileReader(f"{place}/records/{QUERY}"),
            lambda: TFRecordReader(f"{place}/{QUERY}"),
        )
    ]
    copy = pickle.loads(pickle.dumps(folder))
    folder.close()
    texts.append(fails(lambda: folder["a/1"]))
    assert [text for text in texts if not text.startswith(place) or "hush" in text] == []
    assert copy["a/2"] == b"a"


def test_open_objects_do_not_show_the_query(place: str) -> None:
    pack, records = f"{place}/a.ffr{QUERY}", f"{place}/records/x.tfrecord{QUERY}"
    folder = ffrfs.PackedFolder(pack)
    shown = [
        *(repr(folder), repr(folder / "a"), folder.fname, repr(folder.reader)),
        *(repr(ffrfs.FileReader(pack)), repr(TFRecordReader(records))),
        repr(RecordDataset(records)),
        *(json.dumps(ffrfs.info(one)) for one in (pack, records, f"{place}/{QUERY}")),
        *(json.dumps(ffrfs.verify(one)) for one in (pack, records, f"{place}/{QUERY}")),
    ]
    assert [text for text in shown if place not in text or "hush" in text] == []
    assert pickle.loads(pickle.dumps(ffrfs.FileReader(pack))).n == folder.reader.n


def test_duplicates_in_the_viewer(place: str, web: Nginx) -> None:
    with closing(open_sources(f"{place}/a.ffr{QUERY}").collection) as collection:
        found = Choice(collection, Query(only="duplicates"))
        found.wait(60)
        assert (found.job.progress().error, found.count) == ("", 0)
    assert not [line for line in web.requests() if f"{urlsplit(place).path}/a.ffr " in line]


def test_a_warning_about_an_old_header(place: str, web_root: Path) -> None:
    pack = web_root / place.rpartition("/")[2] / "a.ffr"
    pack.write_bytes(bytes(4) + pack.read_bytes()[4:])
    for read in (ffrfs.verify, ffrfs.FileReader):
        with pytest.warns(UnverifiedHeaderWarning, match=rf"^{place}/a\.ffr: ") as warned:
            read(f"{place}/a.ffr{QUERY}")
        assert [one for one in warned if "hush" in str(one.message)] == []


def test_a_conflict_of_two_packs(place: str) -> None:
    packs = [f"{place}/a.ffr{QUERY}", f"{place}/a.ffr?k=hush2"]
    with pytest.raises(FormatError, match='both have "a/1"') as failed:
        list(ffrfs.PackedFolder(packs))
    assert "hush" not in str(failed.value)


def test_a_url_with_a_wrong_store(place: str) -> None:
    with pytest.raises(OptionError, match="these are for s3") as failed:
        ffrfs.PackedFolder(f"{place}/a.ffr{QUERY}", region="x")
    assert "hush" not in str(failed.value)


def test_a_url_that_is_too_long() -> None:
    with pytest.raises(OptionError, match=r"^http://h/a…: a URL may have at most") as failed:
        parse_url(f"http://h/a?hush={'x' * 9000}")
    assert "hush" not in str(failed.value)


def test_a_directory(place: str) -> None:
    folder = ffrfs.PackedFolder(f"{place}/{QUERY}")
    assert list(folder) == ["a/1", "a/2", "b/1", "b/2"]
    assert repr(folder) == f"PackedFolder('{place}/')"
    with pytest.raises(PathNotFoundError, match=rf"^{place}/: has no 'none'$"):
        folder["none"]
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
