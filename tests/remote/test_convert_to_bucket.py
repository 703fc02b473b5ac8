"""Conversions into a bucket: whole files, the same as local ones, and nothing else is left."""

from __future__ import annotations

import os
import re
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

import ffrfs
from ffrfs.cli.main import main
from ffrfs.errors import PackError, RemoteError, RemoteNotFoundError
from ffrfs.packing import bucket_target
from ffrfs.remote.url import RemoteUrl
from tests.remote.stored import objects
from tests.tfrecord_example import example, ints
from tests.tfrecord_file import framed

pytestmark = pytest.mark.usefixtures("staging")

COUNT = 60


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "train.tfrecord"
    path.write_bytes(framed([example(label=ints(bytes([i] * 3000))) for i in range(COUNT)]))
    return path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a b.tfrecord", {}),
        ("x.tfrecord.gz", {}),
        ("deep/x.ffr", {}),
        ("x.ffr", {"to": "pack"}),
        ("x.ffr", {"features": True}),
        ("x.jsonl", {}),
        ("x.parquet", {}),
        ("x.tar", {}),
    ],
)
def test_one_file(  # noqa: PLR0917 - fixtures
    bucket: str, store: S3Store, source: Path, staging: Path, name: str, options: dict[str, object]
) -> None:
    seen: list[tuple[int, int, int, int]] = []
    obstore.put(store, name, b"what was there before")
    with pytest.raises(PackError, match=r"exists \(a text file\); .* --force"):
        ffrfs.convert(source, f"s3://{bucket}/{name}", tmp_dir=staging, **options)
    assert objects(store) == {name: b"what was there before"}
    summary = ffrfs.convert(
        source,
        f"s3://{bucket}/{name}",
        force=True,
        tmp_dir=staging,
        progress=lambda *numbers: seen.append(numbers),
        **options,
    )
    local = source.parent / os.path.basename(name)
    assert ffrfs.convert(source, local, **options) == summary
    assert objects(store) == {name: local.read_bytes()}
    sizes = [size for _, _, size, _ in seen]
    assert sizes == sorted(sizes)
    assert seen[-1][0] >= COUNT


@pytest.mark.parametrize("to", ["tfrecord", "parquet", "webdataset"])
def test_shards(bucket: str, store: S3Store, source: Path, staging: Path, to: str) -> None:
    """No more than two shards are on the local disk at a time."""
    at_a_time: set[int] = set()

    def look(*_: int) -> None:
        at_a_time.add(sum(len(os.listdir(place)) for place in staging.iterdir()))

    local = source.parent / "here" / "set"
    local.parent.mkdir()
    url = f"s3://{bucket}/set/"
    summary = ffrfs.convert(source, url, to, shards=6, tmp_dir=staging, progress=look)
    assert ffrfs.convert(source, local, to, shards=6) == summary
    expected = {f"set/{path.name}": path.read_bytes() for path in local.iterdir()}
    assert objects(store) == expected
    assert len(expected) == 6
    assert max(at_a_time) <= 2
    with pytest.raises(PackError, match="is not empty"):
        ffrfs.convert(source, url, to, shards=6)


def test_from_bucket_to_bucket(bucket: str, store: S3Store, source: Path) -> None:
    obstore.put(store, "in/x.tfrecord", source)
    url = f"s3://{bucket}/in/x.tfrecord"
    ffrfs.convert(f"s3://{bucket}/in/", f"s3://{bucket}/out", "tfrecord", shards=2)
    assert sorted(objects(store)) == [
        "in/x.tfrecord",
        "out/out.tfrecord-00000-of-00002",
        "out/out.tfrecord-00001-of-00002",
    ]
    ffrfs.convert(f"s3://{bucket}/out/", f"s3://{bucket}/again.tfrecord")
    assert objects(store)["again.tfrecord"] == source.read_bytes()
    with pytest.raises(PackError, match="is the source"):
        ffrfs.convert(url, url)
    with pytest.raises(PackError, match="would be inside"):
        ffrfs.convert(f"s3://{bucket}/in/", f"s3://{bucket}/in/all.tfrecord")


def test_refused_conversions(bucket: str, store: S3Store, source: Path, staging: Path) -> None:
    for target, options, reason in (
        ("https://host/x.ffr", {}, "not to HTTP"),
        ("file:///tmp/x.ffr", {}, "without file://"),
        (f"s3://{bucket}/in/", {"to": "tfrecord"}, "as in .*/in/train.tfrecord, or give --shards"),
        (f"s3://{bucket}/in", {"to": "folder"}, "for a bucket write a pack"),
        (f"s3://{bucket}/in", {"shards": COUNT + 1}, f"s3://{bucket}/in: .* fewer shards"),
    ):
        with pytest.raises(PackError, match=reason):
            ffrfs.convert(source, target, tmp_dir=staging, **options)
    with pytest.raises(RemoteNotFoundError, match="no bucket 'no-such-bucket'"):
        ffrfs.convert(source, "s3://no-such-bucket/x", "tfrecord", shards=2)
    # Errors name the files as the user does.
    notes = source.parent / "notes.tfrecord"
    notes.write_bytes(framed([b"piouhjgbr, as an index begins"]))
    with pytest.raises(PackError, match=rf"^s3://{bucket}/out/x\.ffr: the last record begins"):
        ffrfs.convert(notes, f"s3://{bucket}/out/x.ffr", tmp_dir=staging)
    with pytest.raises(PackError, match=f"^{re.escape(str(notes))}: record 0: not an"):
        ffrfs.convert(notes, f"s3://{bucket}/out/x.jsonl", tmp_dir=staging)
    assert objects(store) == {}


def test_shards_of_a_failed_conversion_are_removed(
    bucket: str, store: S3Store, source: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = bucket_target.upload

    def refuse_the_fourth(path: str, url: RemoteUrl, *rest: object, **how: object) -> bool:
        if "-00003-" in url.key:
            assert objects(store)
            raise RemoteError.at(url.shown, "refused")
        return upload(path, url, *rest, **how)

    monkeypatch.setattr(bucket_target, "upload", refuse_the_fourth)
    with pytest.raises(RemoteError, match="refused"):
        ffrfs.convert(source, f"s3://{bucket}/set/", "tfrecord", shards=5, tmp_dir=staging)
    assert objects(store) == {}


def test_the_progress_callback_may_end_the_conversion(
    bucket: str, store: S3Store, source: Path, staging: Path
) -> None:
    """The progress callback may end the conversion, as Ctrl-C and SIGTERM do."""

    def end(*_: int) -> None:
        if objects(store):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ffrfs.convert(
            source, f"s3://{bucket}/set/", "tfrecord", shards=4, tmp_dir=staging, progress=end
        )
    assert objects(store) == {}


def test_the_command(
    bucket: str, store: S3Store, source: Path, staging: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url = f"s3://{bucket}/set/"
    assert main(["convert", "--tmp-dir", str(staging), "--shards", "2", str(source), url]) == 0
    assert capfd.readouterr() == (f"{url}: {COUNT} records\n", "")
    assert len(objects(store)) == 2
