"""Packs and pack sets in a bucket: whole, the same bytes as local ones, and nothing else left."""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

import ffrfs
from ffrfs.errors import PackError, RemoteError, RemoteNotFoundError
from ffrfs.packing import bucket_target
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl
from tests.interpreter import python
from tests.remote.servers.seaweedfs import SeaweedFS, seaweedfs
from tests.remote.stored import objects
from tests.terminal import run_on_terminal

pytestmark = pytest.mark.usefixtures("staging")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(60):
        path = tmp_path / "folder" / str(number % 5) / f"{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 1000))
    (tmp_path / "folder" / "empty").mkdir()
    (tmp_path / "folder" / "link").symlink_to("1/1.bin")
    return tmp_path / "folder"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_one_pack(bucket: str, store: S3Store, folder: Path, staging: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, int, int]] = []
    summary = ffrfs.pack_folder(
        folder,
        f"s3://{bucket}/a b.ffr",
        reproducible=True,
        tmp_dir=staging,
        progress=lambda *counts: seen.append(counts),
    )
    assert ffrfs.pack_folder(folder, tmp_path / "local.ffr", reproducible=True) == summary
    assert objects(store) == {"a b.ffr": (tmp_path / "local.ffr").read_bytes()}
    sizes = [size for _, _, size, _ in seen]
    assert sizes == sorted(sizes)
    assert seen[-1] == (61, 61, summary.byte_count, summary.byte_count)


def test_a_terminal_shows_what_was_uploaded(bucket: str, store: S3Store, folder: Path) -> None:
    words = ["-m", "ffrfs", "pack", "--shards", "2", folder, f"s3://{bucket}/set/"]
    output = run_on_terminal(*words).decode()
    for name, content in objects(store).items():
        shard = name.removeprefix("set/")
        line = f"upload: {shard} to s3://{bucket}/{name} ({len(content):,} bytes)"
        assert line in re.split(r"[\r\n]+", output)
    assert "upload" not in run_on_terminal(*words[:-1], f"s3://{bucket}/quiet/", "-q").decode()


@pytest.mark.parametrize("source", ["folder", "tar", "pack"])
def test_a_set(bucket: str, store: S3Store, folder: Path, staging: Path, source: str) -> None:
    """Sets of each kind of source; no more than two shards are on the local disk at a time."""
    at_a_time: set[int] = set()

    def look(*_: int) -> None:
        at_a_time.add(sum(len(list(place.iterdir())) for place in staging.iterdir()))

    local = folder.parent / "local"
    options = {"shards": 6, "reproducible": True}
    if source == "folder":
        pack, what = ffrfs.pack_folder, folder
    elif source == "tar":
        pack, what = ffrfs.pack_archive, folder.parent / "folder.tar"
        with tarfile.open(what, "w") as tar:
            tar.add(folder, ".")
    else:
        pack, what = ffrfs.repack, folder.parent / "all.ffr"
        ffrfs.pack_folder(folder, what)
    pack(what, local, **options)
    pack(what, f"s3://{bucket}/deep/set", tmp_dir=staging, progress=look, **options)
    found = objects(store)
    assert {name.removeprefix("deep/set/"): data for name, data in found.items()} == files(local)
    assert len(found) == 6
    assert max(at_a_time) <= 2


def test_only_force_replaces_an_object(bucket: str, store: S3Store, folder: Path) -> None:
    url = f"s3://{bucket}/a.ffr"
    obstore.put(store, "a.ffr", b"")
    ffrfs.pack_folder(folder, url)
    obstore.put(store, "a.ffr", b"the only copy of my notes" * 100)
    with pytest.raises(PackError, match=r"exists \(a text file\); .* --force"):
        ffrfs.pack_folder(folder, url)
    ffrfs.pack_folder(folder, url, force=True)
    ffrfs.repack(url, url)  # in place
    with pytest.raises(PackError, match=r"exists \(a pack of \d+ records\)"):
        ffrfs.pack_folder(folder, url)
    assert objects(store)["a.ffr"].find(b"ffrfsidx") > 0
    for name in ("one", "two"):
        ffrfs.pack_folder(folder / "1", folder.parent / f"{name}.ffr")
    for packs in (["one"], ["one", "two"]):
        with pytest.raises(PackError, match=r"exists \(a pack of"):
            ffrfs.repack([folder.parent / f"{name}.ffr" for name in packs], url)


def test_refused_targets(bucket: str, store: S3Store, folder: Path) -> None:
    obstore.put(store, "set/notes", b"x")
    for url, options, reason in (
        (f"s3://{bucket}/set", {"shards": 2}, "is not empty"),
        (f"s3://{bucket}/set/", {}, "names a directory"),
        (f"s3://{bucket}/set", {"append": True}, "holds no packs to add to"),
        ("https://host/a.ffr", {}, "not to HTTP"),
        ("file:///tmp/a.ffr", {}, "without file://"),
    ):
        with pytest.raises(PackError, match=reason):
            ffrfs.pack_folder(folder, url, **options)
    for url in ("s3://no-such-bucket/a.ffr", "s3://no-such-bucket/a/"):
        with pytest.raises(RemoteNotFoundError, match="no bucket 'no-such-bucket'"):
            ffrfs.pack_folder(folder, url, shards=2 if url.endswith("/") else None)
    assert objects(store) == {"set/notes": b"x"}


def test_a_dry_run(bucket: str, store: S3Store, folder: Path, staging: Path) -> None:
    ffrfs.pack_folder(folder, f"s3://{bucket}/a.ffr", dry_run=True, tmp_dir=staging)
    ffrfs.pack_folder(folder, f"s3://{bucket}/set", shards=3, dry_run=True, tmp_dir=staging)
    assert objects(store) == {}


def test_shards_of_a_failed_set_are_removed(
    bucket: str, store: S3Store, folder: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = bucket_target.upload

    def refuse_the_last(path: str, url: RemoteUrl, *rest: object, **how: object) -> bool:
        if url.key.endswith("4.ffr"):
            assert objects(store)
            raise RemoteError.at(url.shown, "refused")
        return upload(path, url, *rest, **how)

    monkeypatch.setattr(bucket_target, "upload", refuse_the_last)
    with pytest.raises(RemoteError, match="refused"):
        ffrfs.pack_folder(folder, f"s3://{bucket}/set", shards=5, tmp_dir=staging)
    assert objects(store) == {}


def test_the_command(
    s3: SeaweedFS, bucket: str, store: S3Store, folder: Path, staging: Path
) -> None:
    environment = {**os.environ, "TMPDIR": str(staging)}
    del environment["FFRFS_ENDPOINT_URL"]

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return python("-m", "ffrfs", "pack", *arguments, env=environment)

    url = f"s3://{bucket}/set/"
    options = ("--endpoint-url", s3.url, "--region", "us-east-1")
    done = run("--shards", "3", *options, folder, url)
    assert (done.stdout, done.stderr) == (
        f"{url}: 61 files, {sum(number * 1000 for number in range(60)) + 1000:,} bytes, "
        "1 link followed, 3 shards\n",
        "",
    )
    assert len(objects(store)) == 3
    done = run("--shards", "3", *options, folder, url)
    assert done.stderr == (
        f"ffrfs: {url}: is not empty; write the shards elsewhere, or add to a set with --append\n"
    )
    done = run("--endpoint-url", "here", folder, url)
    assert (done.returncode, done.stderr) == (
        2,
        "ffrfs pack: 'here' is not an endpoint; write https://HOST[:PORT], without user and query; "
        "see ffrfs pack --help\n",
    )


def test_a_server_that_is_killed(
    folder: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed in mid-upload: later no object has the name, and no local file is left."""
    (folder / "large").write_bytes(bytes(64 << 20))
    with seaweedfs() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("FFRFS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("FFRFS_REMOTE_TIMEOUT", "1")
        store = server.make_bucket("killed")

        def kill(_: int, __: int, size: int, total: int) -> None:
            if size > total * 0.6:  # at 0.5 the pack is made
                server.program.kill()

        with pytest.raises(RemoteError, match=r"s3://killed/a\.ffr: "):
            ffrfs.pack_folder(folder, "s3://killed/a.ffr", tmp_dir=staging, progress=kill)
        server.start_again()
        assert objects(store) == {}
    assert RemoteSettings.from_environment().timeout_s == 1
