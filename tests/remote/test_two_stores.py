"""Two stores in one process: the same URL means another object in each, and no cache mixes them."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

import ffrfs
from ffrfs.errors import OptionError, RemoteError
from ffrfs.folder.range_reader import read_range
from ffrfs.folder.ranges import RangeCutter
from ffrfs.remote.named_store import in_store
from ffrfs.remote.url import parse_url
from ffrfs.tfrecord import RecordDataset, TFRecordReader, TFRecordWriter, tf_record_iterator
from tests.cache.blocks import in_child
from tests.ffrecord_file import write_folder, write_records
from tests.remote.reading import reading_urls
from tests.remote.servers.nginx import Nginx
from tests.remote.servers.seaweedfs import SeaweedFS

KEYS = {"pack": "x.ffr", "plain": "plain.ffr", "records": "x.tfrecord"}


@pytest.fixture(autouse=True)
def stores(  # noqa: PLR0917 - two servers and their places
    s3: SeaweedFS,
    store: S3Store,
    bucket: str,
    web_root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    """Objects of the same names and sizes, in SeaweedFS, which needs credentials, and in nginx."""
    (web_root / bucket).mkdir(exist_ok=True)
    for place, data in (("private", b"private"), ("public", b"public!")):
        (tmp_path / place).mkdir()
        write_folder(tmp_path / place / KEYS["pack"], {"a": data})
        write_records(tmp_path / place / KEYS["plain"], [data])
        with TFRecordWriter(tmp_path / place / KEYS["records"]) as writer:
            writer.write(data)
    for key in KEYS.values():
        obstore.put(store, f"set/{key}", tmp_path / "private" / key)
        (web_root / bucket / "set").mkdir(exist_ok=True)
        (web_root / bucket / "set" / key).write_bytes((tmp_path / "public" / key).read_bytes())
    with reading_urls(monkeypatch, tmp_path, s3.url):
        yield


def of_pack(url: str, **store: Any) -> bytes:
    with ffrfs.PackedFolder(f"{url}{KEYS['pack']}", **store) as folder:
        return folder["a"]


def of_records_of_pack(url: str, **store: Any) -> bytes:
    for pack in (f"{url}{KEYS['pack']}", [f"{url}{KEYS['pack']}"]):
        with ffrfs.PackedFolder(pack, **store) as folder:
            found = folder.reader[0].tobytes()
    return found


def of_range(url: str, **store: Any) -> bytes:
    (part,) = RangeCutter(in_store(f"{url}{KEYS['pack']}", store)).cut(1)
    ((data,),) = [batch.contents for batch in read_range(pickle.loads(pickle.dumps(part)))]
    return bytes(data)


def of_records(url: str, **store: Any) -> bytes:
    with ffrfs.FileReader(f"{url}{KEYS['plain']}", **store) as reader:
        return reader[0].tobytes()


def of_tfrecords(url: str, **store: Any) -> bytes:
    with TFRecordReader(f"{url}{KEYS['records']}", **store) as reader:
        return reader[0]


def of_stream(url: str, **store: Any) -> bytes:
    (record,) = RecordDataset(f"{url}{KEYS['records']}", **store)
    return record


def of_iterator(url: str, **store: Any) -> bytes:
    with tf_record_iterator(f"{url}{KEYS['records']}", **store) as records:
        return next(records)


@pytest.mark.parametrize(
    "read",
    [of_pack, of_records_of_pack, of_range, of_records, of_tfrecords, of_stream, of_iterator],
)
def test_each_call_reads_from_its_own_store(
    read: Callable[..., bytes], web: Nginx, bucket: str
) -> None:
    keywords: dict[str, Any] = {"anonymous": True, "endpoint_url": web.url}
    client = {"endpoint_url": web.url, "region_name": "eu-west-1"}
    as_fsspec = {"storage_options": {"anon": True, "client_kwargs": client}}
    url = f"s3://{bucket}/set/"
    for _ in range(2):  # the second time, the cache has the bytes
        assert read(url) == b"private"
        assert read(url, **keywords) == b"public!"
        assert read(url, **as_fsspec) == b"public!"


def test_a_directory_in_a_named_store(
    s3: SeaweedFS, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with reading_urls(monkeypatch, tmp_path / "other", "http://127.0.0.1:9"):
        reader = TFRecordReader(f"s3://{bucket}/set/", endpoint_url=s3.url)
        assert [reader[0], pickle.loads(pickle.dumps(reader))[0]] == [b"private"] * 2
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(_first, (reader,)) == b"private"
            data = RecordDataset(f"s3://{bucket}/set/", endpoint_url=s3.url)
            assert pool.apply(list, (data,)) == [b"private"]


def _first(reader: TFRecordReader) -> bytes:
    return reader[0]


def test_after_a_fork(web: Nginx, bucket: str) -> None:
    options: dict[str, Any] = {"anonymous": True, "endpoint_url": web.url}
    folder = ffrfs.PackedFolder(f"s3://{bucket}/set/x.ffr", **options)

    def work() -> None:
        assert folder["a"] + of_pack(f"s3://{bucket}/set/", **options) == b"public!public!"

    in_child(work)


def test_a_url_cannot_name_a_store(web: Nginx, bucket: str) -> None:
    """Otherwise the text could send credentials to a server of its choice."""
    text = f"s3://endpoint_url=http:%2F%2Fevil.example@{bucket}/x.ffr"
    for url in (text, f"s3://@{bucket}/x.ffr"):
        with pytest.raises(OptionError, match="must not contain a user"):
            ffrfs.PackedFolder(url)
        with pytest.raises(OptionError, match="must not contain a user"):
            ffrfs.PackedFolder(url, anonymous=True)
    with pytest.raises(OptionError, match="must not contain a user"):
        parse_url(text)


def test_messages_name_the_object(web: Nginx, bucket: str) -> None:
    with pytest.raises(RemoteError, match=rf"s3://[^ ]*{bucket}/none\.ffr: "):
        ffrfs.PackedFolder(f"s3://{bucket}/none.ffr", anonymous=True, endpoint_url=web.url)


@pytest.mark.parametrize(
    ("path", "options", "reason"),
    [
        ("s3://b/x.ffr", {"endpoint_url": "ftp://x"}, "is not an endpoint"),
        ("s3://b/x.ffr", {"endpoint_url": "https://me:secret@host"}, "is not an endpoint"),
        ("s3://b/x.ffr", {"storage_options": {"key": "AKIA"}}, "credentials come from"),
        ("s3://b/x.ffr", {"anonymous": "yes"}, "anonymous is True or False"),
        ("s3://b/x.ffr", {"region": True}, "region is a string, not True"),
        ("/tmp/x.ffr", {"region": "eu"}, "/tmp/x.ffr: region: these are for s3://"),
        ("https://h/x.ffr", {"anonymous": True}, "these are for s3://"),
    ],
)
def test_options_that_do_not_fit(path: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionError) as caught:
        ffrfs.PackedFolder(path, **options)
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'endpoint'"):
        ffrfs.PackedFolder("s3://b/x.ffr", endpoint="x")  # type: ignore[call-arg]
