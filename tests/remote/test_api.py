"""Where the Python API takes a path, it also takes a URL, and gives the same answers.

Not here: the commands (test_commands.py), processes that fork (test_session.py).
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

import ffrfs
from ffrfs.errors import FormatError, OptionError, RemoteNotFoundError
from ffrfs.tfrecord import RecordDataset, TFRecordReader, TFRecordWriter, tf_record_iterator
from tests.remote.reading import reading_urls
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import faulty
from tests.remote.servers.seaweedfs import SeaweedFS


@pytest.fixture(autouse=True)
def fetcher(
    s3: SeaweedFS, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    with reading_urls(monkeypatch, tmp_path, s3.url):
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(20):
        path = tmp_path / "folder" / str(number % 3) / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 10_000))
    return tmp_path / "folder"


@pytest.fixture
def pack(bucket: str, folder: Path) -> str:
    ffrfs.pack_folder(folder, f"s3://{bucket}/a b.ffr")
    return f"s3://{bucket}/a b.ffr"


@pytest.fixture
def shards(bucket: str, folder: Path) -> str:
    ffrfs.pack_folder(folder, f"s3://{bucket}/set", shards=3)
    return f"s3://{bucket}/set/"


@pytest.fixture
def records(bucket: str, store: S3Store, tmp_path: Path) -> str:
    """A directory of two TFRecord files, of 100 records each."""
    for number in range(2):
        name = f"x.tfrecord-{number:05}-of-00002"
        with TFRecordWriter(tmp_path / name) as writer:
            for record in range(100):
                writer.write(b"%d " % (number * 100 + record) * 100)
        obstore.put(store, f"records/{name}", tmp_path / name)
    return f"s3://{bucket}/records/"


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("which", ["pack", "shards"])
def test_packed_folder(request: pytest.FixtureRequest, folder: Path, which: str) -> None:
    url = request.getfixturevalue(which)
    with ffrfs.PackedFolder(url) as found:
        assert {path: bytes(found[path]) for path in found} == contents(folder)
        again = pickle.loads(pickle.dumps(found))
        assert len(again) == 20
        again.close()


def test_readers(pack: str, shards: str, records: str) -> None:
    with ffrfs.FileReader(pack.replace("s3://", "S3://", 1)) as reader:
        assert reader.n == 21
        reader.validate()
    with ffrfs.FileReader(shards) as reader:
        assert reader.n == 23
    with TFRecordReader(records) as tfrecords:
        assert tfrecords.n == 200
        assert tfrecords[123] == b"123 " * 100
        expected = list(tfrecords)
    assert list(RecordDataset(records)) == expected
    with tf_record_iterator(f"{records}x.tfrecord-00001-of-00002") as iterator:
        assert list(iterator) == expected[100:]


def test_data_sets(pack: str, shards: str, records: str, folder: Path, tmp_path: Path) -> None:
    assert ffrfs.info(shards)["files"] == 20
    assert ffrfs.info(records)["records"] == 200
    for url in (pack, shards, records):
        assert ffrfs.verify(url)["good"]
    ffrfs.extract(shards, tmp_path / "extracted")
    assert contents(tmp_path / "extracted") == contents(folder)
    ffrfs.convert(records, str(tmp_path / "converted.ffr"))
    with ffrfs.FileReader(tmp_path / "converted.ffr") as reader:
        assert bytes(reader[123]) == b"123 " * 100


def test_packs_in_a_bucket_are_repacked(shards: str, bucket: str, folder: Path) -> None:
    ffrfs.repack(shards, f"s3://{bucket}/one.ffr")
    with ffrfs.PackedFolder(f"s3://{bucket}/one.ffr") as found:
        assert {path: bytes(found[path]) for path in found} == contents(folder)


def test_in_a_notebook(bucket: str, folder: Path) -> None:
    """A notebook runs its cells in a thread whose event loop is running."""

    async def cell() -> int:
        ffrfs.pack_folder(folder, f"s3://{bucket}/a.ffr")
        with ffrfs.PackedFolder(f"s3://{bucket}/a.ffr") as found:
            return len(found)

    assert asyncio.run(cell()) == 20


def test_refused_urls_and_objects(
    bucket: str, store: S3Store, records: str, tmp_path: Path
) -> None:
    base = f"s3://{bucket}/"
    with pytest.raises(RemoteNotFoundError, match="no such object"):
        ffrfs.PackedFolder(base + "none.ffr")
    with pytest.raises(OptionError, match="empty"):
        ffrfs.FileReader(base + "a//b.ffr")
    obstore.put(store, "notes.ffr", b"not a pack at all")
    with pytest.raises(FormatError, match=r"notes\.ffr"):
        ffrfs.PackedFolder(base + "notes.ffr")
    with pytest.raises(FormatError, match="holds no packs"):
        ffrfs.PackedFolder(base + "none/")
    for name in ("x.jsonl", "x.parquet"):
        obstore.put(store, name, b"x")
        with pytest.raises(FormatError, match="not read from URLs"):
            ffrfs.convert(base + name, str(tmp_path / "x.ffr"))
    with pytest.raises(OptionError, match="extracted to a local directory"):
        ffrfs.extract(records, base + "out/")


@pytest.mark.promise("S62")
@pytest.mark.parametrize("kind", [None, Kind.NO_VERSION])
def test_no_index_is_kept_of_objects_without_a_version(tmp_path: Path, kind: Kind | None) -> None:
    (tmp_path / "web").mkdir()
    with faulty(tmp_path / "web") as server:
        if kind is not None:
            server.do(kind)
        for sizes in ((1000, 3000), (3000, 1000)):
            with TFRecordWriter(tmp_path / "web" / "a.tfrecord") as writer:
                for size in sizes:
                    writer.write(os.urandom(size))
            with TFRecordReader(f"{server.url}/a.tfrecord") as reader:
                assert [len(record) for record in reader] == list(sizes)
    kept = list((tmp_path / "indexes").rglob("*.idx"))
    assert len(kept) == (0 if kind else 2)
