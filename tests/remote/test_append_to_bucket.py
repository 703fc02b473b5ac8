"""`pack --append` to a set in a bucket: the set is always whole, and one process at a time adds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

import ffrfs
from ffrfs.cli.main import main
from ffrfs.errors import PackError, RemoteError
from ffrfs.packing import append_lock, bucket_place, bucket_target
from ffrfs.packing.bucket_target import BucketTarget
from ffrfs.remote.bucket import Sent, bytes_of, pin_of, put_new, put_over, remove
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl, parse_url
from tests.remote.stored import objects

pytestmark = pytest.mark.usefixtures("staging")

LOCK = "set/.ffrfs-append"


def make_folder(path: Path, first: int, count: int) -> Path:
    for number in range(first, first + count):
        file = path / str(number % 3) / f"{number}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.urandom(1 + number * 1000))
    return path


@pytest.fixture
def url(bucket: str, tmp_path: Path) -> str:
    """A set of two shards, packed from the folder "old"."""
    url = f"s3://{bucket}/set/"
    ffrfs.pack_folder(make_folder(tmp_path / "old", 0, 10), url, shards=2)
    return url


@pytest.fixture
def more(tmp_path: Path) -> Path:
    folder = make_folder(tmp_path / "more", 10, 10)
    (folder / "empty").mkdir()
    return folder


def contents(*folders: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def packed(url: str) -> dict[str, bytes]:
    with ffrfs.PackedFolder(url) as found:
        return {path: bytes(found[path]) for path in found}


@pytest.mark.parametrize("shards", [None, 4])
def test_the_set_is_whole_at_any_time(  # noqa: PLR0917 - fixtures
    url: str,
    store: S3Store,
    more: Path,
    staging: Path,
    shards: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = more.parent / "old"
    before = objects(store)
    upload = bucket_target.upload
    here: list[int] = []
    seen: list[int] = []

    def look(place: str, target: RemoteUrl, *rest: object, **how: object) -> bool:
        here.append(len(os.listdir(os.path.dirname(place))))
        is_put = upload(place, target, *rest, **how)
        seen.append(len(packed(url)))
        assert LOCK in objects(store)
        return is_put

    monkeypatch.setattr(bucket_target, "upload", look)
    summary = ffrfs.pack_folder(more, url, append=True, shards=shards, tmp_dir=staging)
    count = shards or 1
    assert summary.shard_count == count == len(seen)
    assert seen == sorted(seen)
    assert max(here) <= 2
    after = objects(store)
    assert {name: data for name, data in after.items() if name in before} == before
    assert sorted(after.keys() - before) == [f"set/part_{2 + i:05}.ffr" for i in range(count)]
    assert packed(url) == contents(old, more)


def test_a_second_append(url: str, more: Path) -> None:
    """The second command counts the shards that the first one has added."""
    ffrfs.pack_folder(more / "0", url, append=True)
    ffrfs.pack_folder(more / "1", url.removesuffix("/"), append=True, shard_size=20_000)
    old = more.parent / "old"
    assert packed(url) == contents(old, more / "0", more / "1")
    assert ffrfs.verify(url)["good"]


def test_packs_and_archives_are_appended(url: str, bucket: str, more: Path) -> None:
    old = more.parent / "old"
    ffrfs.pack_folder(more / "0", f"s3://{bucket}/one.ffr")
    ffrfs.repack(f"s3://{bucket}/one.ffr", url, append=True)
    tar = more.parent / "more.tar"
    subprocess.run(["tar", "-C", more / "1", "-cf", tar, "."], check=True, timeout=30)
    ffrfs.pack_archive(tar, url, append=True, shards=2)
    assert packed(url) == contents(old, more / "0", more / "1")


def test_refused_appends(url: str, bucket: str, store: S3Store, more: Path, staging: Path) -> None:
    before = objects(store)
    again = more.parent / "again"
    again.mkdir()
    (again / "1").write_bytes(b"a file, where the set has a directory")
    for source, target, reason in (
        (more.parent / "old", url, r"part_0000\d\.ffr has '[^']*' already; exclude it"),
        (again, url, "has '1' already"),
        (more, f"s3://{bucket}/none/", "holds no packs to add to; make the set first"),
    ):
        with pytest.raises(PackError, match=reason):
            ffrfs.pack_folder(source, target, append=True, tmp_dir=staging)
    ffrfs.pack_folder(more, url, append=True, dry_run=True)
    assert objects(store) == before
    ffrfs.pack_folder(more, f"s3://{bucket}/packs/one.ffr")
    with pytest.raises(PackError, match=r"packs/one\.ffr: is not a shard of a pack set"):
        ffrfs.pack_folder(more, f"s3://{bucket}/packs/", append=True)
    obstore.delete(store, "set/part_00000.ffr")
    with pytest.raises(PackError, match="shard 0 of the set is missing; restore it"):
        ffrfs.pack_folder(more, url, append=True)


def test_shards_of_a_failed_append_are_removed(
    url: str, store: S3Store, more: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = objects(store)
    upload = bucket_target.upload

    def refuse_the_last(place: str, target: RemoteUrl, *rest: object, **how: object) -> bool:
        if target.key.endswith("4.ffr"):
            assert len(objects(store)) == 5  # two more shards, and the lock
            raise RemoteError.at(target.shown, "refused")
        return upload(place, target, *rest, **how)

    monkeypatch.setattr(bucket_target, "upload", refuse_the_last)
    with pytest.raises(RemoteError, match="refused"):
        ffrfs.pack_folder(more, url, append=True, shards=3, tmp_dir=staging)
    assert objects(store) == before


FAILING = """
import sys, ffrfs
from ffrfs.packing import bucket_target
def failing(step, end):
    def run(*args, **options):
        if any(getattr(one, "key", "").endswith(end) for one in args):
            raise ffrfs.errors.RemoteError("refused")
        return step(*args, **options)
    return run
bucket_target.upload = failing(bucket_target.upload, "4.ffr")
bucket_target.remove = failing(bucket_target.remove, sys.argv[4])
ffrfs.pack_folder(*sys.argv[1:3], append=True, shards=3, tmp_dir=sys.argv[3])
"""


@pytest.mark.parametrize(("stays", "count"), [("2.ffr", 3), ("3.ffr", 4)])
def test_the_next_command_removes_shards_that_were_left(  # noqa: PLR0917 - fixtures
    url: str, store: S3Store, more: Path, staging: Path, stays: str, count: int
) -> None:
    """Until then the lock says which process made the shards, and the set lacks no shard."""
    old = more.parent / "old"
    command = [sys.executable, "-c", FAILING, more, url, staging, stays]
    done = subprocess.run(command, timeout=60, check=False, capture_output=True)
    assert done.stderr.endswith(b"RemoteError: refused\n")
    shards = [f"set/part_{i:05}.ffr" for i in range(count)]
    assert sorted(objects(store)) == [LOCK, *shards]
    assert packed(url).items() >= contents(old).items()
    ffrfs.pack_folder(more, url, append=True, tmp_dir=staging)
    assert sorted(objects(store)) == shards[:3]
    assert packed(url) == contents(old, more)


def test_a_process_later_removes_shards_that_it_left(
    url: str, store: S3Store, more: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, without a death: the process that failed runs the next command."""

    send = BucketTarget.send

    def refuse(*_: object) -> None:
        raise RemoteError("refused")

    def refuse_last(target: BucketTarget, to: RemoteUrl, sent: Sent) -> None:
        (refuse if to.key.endswith("3.ffr") else send)(target, to, sent)

    with monkeypatch.context() as patched:
        patched.setattr(bucket_target, "remove", refuse)
        patched.setattr(BucketTarget, "send", refuse_last)
        with pytest.raises(RemoteError, match="refused"):
            ffrfs.pack_folder(more, url, append=True, shards=2, tmp_dir=staging)
    shards = [f"set/part_{i:05}.ffr" for i in range(3)]
    assert sorted(objects(store)) == [LOCK, *shards]
    ffrfs.pack_folder(more, url, append=True, tmp_dir=staging)
    assert sorted(objects(store)) == shards
    assert packed(url) == contents(more.parent / "old", more)


@pytest.mark.parametrize("cloud", ["s3", "azure"])
def test_put_new_does_not_replace_an_object(
    request: pytest.FixtureRequest, bucket: str, cloud: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stores refuse to replace an object, so only one of two commands that put it succeeds."""
    server = request.getfixturevalue(cloud)
    settings = RemoteSettings(server.url, timeout_s=20)
    name = f"s3://{bucket}/locks/lock"
    if cloud == "azure":
        for variable, value in server.environment().items():
            monkeypatch.setenv(variable, value)
        server.make_container("append")
        name = "az://append/locks/lock"
    url = parse_url(name)
    assert put_new(url, b"one", settings)
    assert not put_new(url, b"two", settings)
    pin = pin_of(url, settings)
    assert pin is not None
    assert bytes_of(pin, 0, 3, settings) == b"one"
    remove(url, settings)
    assert put_new(url, b"two", settings)


def test_a_second_append_at_the_same_time_is_refused(url: str, store: S3Store, more: Path) -> None:
    """A second command is refused while the first one runs, and while an unknown lock is there."""
    old = more.parent / "old"
    told: list[str] = []

    def add_other(*_: int) -> None:
        if LOCK in objects(store) and not told:
            with pytest.raises(PackError) as refused:
                ffrfs.pack_folder(more / "1", url, append=True)
            told.append(str(refused.value))

    ffrfs.pack_folder(more / "0", url, append=True, progress=add_other)
    assert re.fullmatch(
        rf"{re.escape(url)}: another process is adding to it \(.+, process {os.getpid()}, since "
        rf"[^)]*\); wait for its end, or remove {re.escape(url)}\.ffrfs-append if it was killed",
        told[0],
    )
    assert packed(url) == contents(old, more / "0")
    obstore.put(store, LOCK, b"\x1b[2Jhostile\n")
    with pytest.raises(PackError, match=r"adding to it \(it does not say which\)"):
        ffrfs.pack_folder(more / "1", url, append=True)
    obstore.delete(store, LOCK)
    ffrfs.pack_folder(more / "1", url, append=True)
    assert packed(url) == contents(old, more / "0", more / "1")


KILLED = """
import os, signal, sys, ffrfs
from ffrfs.packing import bucket_target
upload, numbers = bucket_target.upload, iter(range(9))
def killed(*args, **options):
    if next(numbers) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    return upload(*args, **options)
bucket_target.upload = killed
ffrfs.pack_folder(*sys.argv[1:3], append=True, shards=3, tmp_dir=sys.argv[3])
"""


@pytest.mark.parametrize("sent", [0, 2])
def test_an_append_after_a_kill(
    url: str, store: S3Store, more: Path, staging: Path, sent: int
) -> None:
    """The next command on the machine starts again; other machines cannot know of the kill."""
    old = more.parent / "old"
    command = [sys.executable, "-c", KILLED, more, url, staging, str(sent)]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL
    make_folder(more.parent / "other", 20, 1)
    left = objects(store)
    assert len(left) == 2 + sent + 1
    obstore.put(store, LOCK, left[LOCK].replace(b"pid:[", b"pid:[1"))  # as from another container
    with pytest.raises(PackError, match="another process is adding to it"):
        ffrfs.pack_folder(more, url, append=True, tmp_dir=staging)
    obstore.put(store, LOCK, left[LOCK])
    ffrfs.pack_folder(more.parent / "other", url, append=True, dry_run=True)
    assert objects(store) == left
    ffrfs.pack_folder(more, url, append=True, tmp_dir=staging)
    assert sorted(objects(store)) == [f"set/part_{i:05}.ffr" for i in range(3)]
    assert packed(url) == contents(old, more)


def test_shards_of_a_killed_append_that_cannot_be_removed(
    url: str, store: S3Store, more: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock still says that a dead process made the others; the next command removes them."""
    command = [sys.executable, "-c", KILLED, more, url, staging, "2"]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL
    left = objects(store)

    def refuse_the_first(target: RemoteUrl, settings: RemoteSettings) -> None:
        if target.key.endswith("2.ffr"):
            raise RemoteError.at(target.shown, "refused")
        remove(target, settings)

    with monkeypatch.context() as patched:
        patched.setattr(bucket_place, "remove", refuse_the_first)
        with pytest.raises(RemoteError, match="refused"):
            ffrfs.pack_folder(more, url, append=True, tmp_dir=staging)
    del left["set/part_00003.ffr"]
    assert objects(store) == left
    ffrfs.pack_folder(more, url, append=True, tmp_dir=staging)
    assert sorted(objects(store)) == [f"set/part_{i:05}.ffr" for i in range(3)]


def test_a_lock_is_taken_over_once(url: str, store: S3Store) -> None:
    settings = RemoteSettings.from_environment()
    obstore.put(store, LOCK, b"of a dead one")
    pin = pin_of(parse_url(f"{url}.ffrfs-append"), settings)
    assert pin is not None
    assert put_over(pin, b"of the first", settings)
    assert not put_over(pin, b"of the second", settings)
    assert objects(store)[LOCK] == b"of the first"
    obstore.delete(store, LOCK)
    assert not put_over(pin, b"of the third", settings)


def test_appends_that_begin_at_the_same_time(url: str, store: S3Store, more: Path) -> None:
    """The later ones are refused, by the store, or since the set is locked or has changed."""
    errors: list[PackError] = []

    def add(name: str) -> None:
        try:
            ffrfs.pack_folder(more / name, url, append=True)
        except PackError as error:
            errors.append(error)

    threads = [threading.Thread(target=add, args=(name,)) for name in ("0", "1", "2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) < len(threads)
    assert all(re.search("is adding to it|was changed meanwhile", str(e)) for e in errors)
    assert len(objects(store)) == 2 + 3 - len(errors)
    assert ffrfs.verify(url)["good"]


@pytest.mark.parametrize("is_first", [False, True])
def test_a_lock_that_is_removed_while_it_is_read(
    url: str, store: S3Store, more: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """The process of the lock ends before ours reads it: it was found at once, or refused ours."""

    def put_other(*_: object) -> bool:
        obstore.put(store, LOCK, b"another")
        return False

    def end_other(pin: Pin, *how: Any) -> bytes:
        if LOCK in objects(store):
            obstore.delete(store, LOCK)
        return bytes_of(pin, *how)

    if is_first:
        put_other()
    else:
        monkeypatch.setattr(append_lock, "put_new", put_other)
    monkeypatch.setattr(append_lock, "bytes_of", end_other)
    before = objects(store).keys() - {LOCK}
    with pytest.raises(PackError, match="another process is adding to it"):
        ffrfs.pack_folder(more, url, append=True)
    assert objects(store).keys() == before


def test_a_set_that_changes_meanwhile(
    url: str, bucket: str, store: S3Store, more: Path, staging: Path
) -> None:
    """A process that heeds no lock changes the set."""
    old = more.parent / "old"

    def replace(_: object) -> None:
        (old / "another").write_bytes(b"else the set would be the same, byte by byte")
        for name in [name for name in objects(store) if name != LOCK]:
            obstore.delete(store, name)
        ffrfs.pack_folder(old, f"s3://{bucket}/other/", shards=2)
        for name, data in objects(store).items():
            obstore.put(store, name.replace("other/", "set/"), data)

    with pytest.raises(PackError, match="was changed meanwhile; nothing was added"):
        ffrfs.pack_folder(more, url, append=True, tmp_dir=staging, listing=replace)
    assert packed(url) == contents(old)
    with pytest.raises(PackError, match="was changed meanwhile"):
        ffrfs.pack_folder(
            more,
            url,
            append=True,
            listing=lambda _: obstore.put(store, "set/part_00002.ffr", b"another's"),
        )
    assert objects(store)["set/part_00002.ffr"] == b"another's"


def test_the_command(
    url: str, store: S3Store, more: Path, staging: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["pack", "--append", "--tmp-dir", str(staging), str(more), url]
    assert main(command) == 0
    done = capfd.readouterr()
    assert (done.err, done.out[: len(url) + 10]) == ("", f"{url}: 10 files")
    assert main(command) == 1
    assert re.search(r"part_00002\.ffr has .* already; exclude it", capfd.readouterr().err)
    assert len(objects(store)) == 3
