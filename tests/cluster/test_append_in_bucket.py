"""Shards are added to a set in a bucket by a plan: the set is whole at any time."""

# ruff: noqa: F401, F811 - fixtures of another room

from __future__ import annotations

from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from ffrfs import PackedFolder, pack_folder
from ffrfs.cluster import commit, manifest, planning, run
from ffrfs.errors import CompleteError, PackError
from tests.cluster.trees import EndedError, Steps, finish, kept, planned
from tests.ffrecord_file import Tree
from tests.folder.folder_model import make_folder
from tests.mount.command import ffrfs as command
from tests.remote.conftest import bucket, give, s3, staging, store
from tests.remote.stored import objects

MANIFEST = ".ffrfs-manifest.jsonl"
OLD: Tree = {"a": {"one": b"1" * 3000, "two": b"2" * 3000}, "b": b"b"}
NEW: Tree = {"a": {"three": b"3" * 3000}, "c": {"four": b"4" * 3000}, "d": b"d"}
PATHS = {"a/one", "a/two", "b"}
MORE = {"a/three", "c/four", "d"}

pytestmark = pytest.mark.usefixtures("staging")


@pytest.fixture
def url(bucket: str, tmp_path: Path) -> str:
    """A set of two shards."""
    pack_folder(make_folder(tmp_path / "old", OLD), f"s3://{bucket}/set/", shards=2)
    return f"s3://{bucket}/set"


@pytest.fixture
def more(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "more", NEW)


def paths(url: str) -> set[str]:
    with PackedFolder(f"{url}/") as folder:
        return set(folder)


def append(source: Path, url: str, shards: int = 3) -> None:
    """Run a whole command."""
    with kept(source, url, shards, append=True) as plan:
        finish(plan)


@pytest.mark.promise("S66")
def test_the_bytes_of_a_command_without_an_engine(
    url: str, store: S3Store, more: Path, bucket: str
) -> None:
    other = f"s3://{bucket}/other"
    pack_folder(more.parent / "old", f"{other}/", shards=2)
    pack_folder(more, f"{other}/", append=True, shards=2)
    words = ["pack", "--append", "--shards", "2", "--executor", "processes:2", more, url]
    done = command(*words)
    assert (done.status, done.out.rsplit(", ", 1)[1]) == (0, "4 shards\n"), done.err
    found = objects(store, "set")
    assert found.pop(MANIFEST).count(b"\n") == 5
    assert found == objects(store, "other")
    assert paths(url) == PATHS | MORE
    again = command(*words)
    assert (again.status, "complete already" in again.out) == (0, True)


def test_the_set_is_whole_at_any_time(
    url: str, store: S3Store, more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = manifest.copy
    seen: list[set[str]] = []

    def look(*arguments: object) -> None:
        copy(*arguments)  # type: ignore[arg-type]
        seen.append(paths(url))

    monkeypatch.setattr(manifest, "copy", look)
    with planned(more, url, more.parent / "plan", append=True, shards=3) as plan:  # type: ignore[arg-type]
        for number in (2, 0, 1):
            with pytest.raises(PackError, match="of 3 shards are missing"):
                commit(plan)
            run(plan, number)
            assert paths(url) == PATHS
        assert commit(plan).shard_count == 5
    assert seen == [PATHS | {"a/three"}, PATHS | {"a/three", "c/four"}, PATHS | MORE]
    assert objects(store, "set").keys() == {MANIFEST, *(f"part_0000{n}.ffr" for n in range(5))}


@pytest.mark.promise("S67")
@pytest.mark.parametrize("step", range(8))
def test_a_command_killed_at_any_step_is_resumed(
    url: str, store: S3Store, more: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The same command takes over the lock that it left when it was killed."""
    steps = Steps(step + 1)

    with monkeypatch.context() as patch:
        patch.setattr(manifest, "copy", steps.counted(manifest.copy))
        for name in ("write", "remove"):
            function = getattr(manifest.TargetFolder, name)
            patch.setattr(manifest.TargetFolder, name, steps.counted(function))
        try:
            append(more, url)
        except EndedError:
            assert paths(url) >= PATHS
    try:
        append(more, url)
    except CompleteError:
        assert steps.left > 0
    assert paths(url) == PATHS | MORE
    assert objects(store, "set").keys() == {MANIFEST, *(f"part_0000{n}.ffr" for n in range(5))}


@pytest.mark.promise("S73")
def test_another_command_has_added_shards_meanwhile(url: str, store: S3Store, more: Path) -> None:
    """The numbers of its shards are taken, so the same command makes its plan again."""
    with planned(more, url, more.parent / "plan", append=True, shards=3) as plan:  # type: ignore[arg-type]
        for number in range(3):
            run(plan, number)
        append(make_folder(more.parent / "z", {"z": b"z"}), url, 1)
        before = objects(store, "set")
        with pytest.raises(PackError, match="was added by another command meanwhile; nothing was"):
            commit(plan)
        assert objects(store, "set") == before

    def begin_and_end() -> None:
        with kept(more, url, 3, append=True) as plan:
            run(plan, 1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin_and_end()
    with pytest.raises(PackError, match="of other sources or options; finish it by its own"):
        append(more.parent / "old", url)
    pack_folder(make_folder(more.parent / "y", {"y": b"y"}), f"{url}/", append=True)
    append(more, url)
    assert paths(url) == PATHS | MORE | {"y", "z"}
    found = objects(store, "set").keys()
    assert {name for name in found if not name.startswith(".ffrfs-append-")} == {
        MANIFEST,
        *(f"part_0000{number}.ffr" for number in range(7)),
    }


def test_a_lock_of_another_command_is_respected(url: str, store: S3Store, more: Path) -> None:
    obstore.put(store, "set/.ffrfs-append", b"host, process 5\nabc\n")
    with pytest.raises(PackError, match=r"another process is adding to it \(host, process 5\)"):
        append(more, url)
    obstore.delete(store, "set/.ffrfs-append")
    append(more, url)
    assert paths(url) == PATHS | MORE


def test_a_shard_too_large_to_copy_in_a_bucket(
    url: str, more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "COPY_SIZE_MAX", 5999)
    with pytest.raises(PackError, match="make more of them, or append without it"):
        append(more, url, 1)
    append(more, url, 2)
    assert paths(url) == PATHS | MORE
