"""Objects of a bucket, packed by a plan: into a directory, into a bucket, and changed meanwhile."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

import ffrfs
from ffrfs.cluster import commit, plan, run
from ffrfs.cluster.packing import pack_by_plan
from ffrfs.errors import UnfinishedError
from tests.mount.command import ffrfs as command
from tests.remote.servers.seaweedfs import SeaweedFS

NAMES = [f"raw/{n % 4}/{n % 3}/{n}.bin" for n in range(60)] + ["raw/top.bin"]


@pytest.fixture
def contents(
    s3: SeaweedFS, bucket: str, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> dict[str, bytes]:
    monkeypatch.setenv("FFRFS_ENDPOINT_URL", s3.url)
    monkeypatch.setenv("FFRFS_REMOTE_TIMEOUT", "20")
    made = {name: os.urandom(len(name) * 400) for name in NAMES}
    made["raw/empty.bin"] = b""
    for name, content in made.items():
        obstore.put(store, name, content)
    return {name.removeprefix("raw/"): content for name, content in made.items()}


@pytest.fixture
def with_large(contents: dict[str, bytes], store: S3Store) -> dict[str, bytes]:
    """The objects of `contents`, and one that is read by ranges."""
    large = os.urandom(40 << 20)
    obstore.put(store, "raw/4/large.bin", large)
    return {**contents, "4/large.bin": large}


def in_packs(place: Path) -> dict[str, bytes]:
    with ffrfs.PackedFolder(place) as packed:
        paths = packed.list(recursive=True, list_dir=False)
        return dict(zip(paths, map(bytes, packed.read(paths)), strict=True))


def test_objects_become_a_set(bucket: str, with_large: dict[str, bytes], tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor(2) as pool,
        plan(f"s3://{bucket}/raw/", tmp_path / "set", tmp_path / "plan", shards=3, executor=pool)
        as made,
    ):  # fmt: skip
        assert (made.file_count, len(made)) == (len(with_large), 3)
        summary, missing = pack_by_plan(made, pool)
        assert (summary.file_count, missing) == (len(with_large), [])
    assert in_packs(tmp_path / "set") == with_large


def test_from_bucket_to_bucket(
    bucket: str, with_large: dict[str, bytes], store: S3Store, tmp_path: Path
) -> None:
    target = f"s3://{bucket}/packed"
    words = ["pack", "--executor", "processes:2", "--shards", "2", "--tmp-dir", tmp_path]
    done = command(*map(str, words), f"s3://{bucket}/raw/", target, timeout_s=100)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"{target}: {len(with_large)} files, ")
    names = {meta["path"] for chunk in obstore.list(store, prefix="packed/") for meta in chunk}
    assert names == {
        "packed/.ffrfs-manifest.jsonl", "packed/part_00000.ffr", "packed/part_00001.ffr"
    }  # fmt: skip
    for name in sorted(names)[1:]:
        place = tmp_path / "local" / Path(name).name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(bytes(obstore.get(store, name).bytes()))
    assert in_packs(tmp_path / "local") == with_large
    assert list(tmp_path.iterdir()) == [tmp_path / "local"]


def test_objects_that_change(
    bucket: str, contents: dict[str, bytes], store: S3Store, tmp_path: Path
) -> None:
    source, target = f"s3://{bucket}/raw/", tmp_path / "set"
    with (
        ThreadPoolExecutor(2) as pool,
        plan(source, target, tmp_path / "plan", shards=3, executor=pool) as made,
    ):
        obstore.put(store, "raw/top.bin", os.urandom(len(contents["top.bin"])))
        obstore.delete(store, "raw/1/0/9.bin")
        with pytest.raises(UnfinishedError, match=r"(top|9)\.bin: (was changed|No such object)"):
            pack_by_plan(made, pool)
        rows = [run(made, number, on_error="record") for number in range(3)]
        summary = commit(made, rows)
    missing = {file.path: file.reason for row in rows for file in row.missing}
    assert missing == {"1/0/9.bin": "No such object", "top.bin": "was changed after it was listed"}
    assert summary.missing_count == 2
    left = {path: content for path, content in contents.items() if path not in missing}
    assert in_packs(target) == left


def test_patterns(bucket: str, contents: dict[str, bytes], tmp_path: Path) -> None:
    with (
        ThreadPoolExecutor(2) as pool,
        plan(
            f"s3://{bucket}/raw/",
            tmp_path / "set",
            tmp_path / "plan",
            shards=1,
            include=["/1", "/2/0"],
            exclude=["*5.bin"],
            executor=pool,
        ) as made,
    ):
        pack_by_plan(made, pool)
    wanted = {
        path: content
        for path, content in contents.items()
        if (path.startswith("1/") or path.startswith("2/0/")) and not path.endswith("5.bin")
    }
    assert in_packs(tmp_path / "set") == wanted
