"""Conversions from or to a bucket, by an executor, give the same files as local conversions."""

# ruff: noqa: F401, F811 - fixtures of another room

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store

from ffrfs.convert.convert import ConvertSummary
from ffrfs.convert.convert_files import ConvertOptions, convert_files
from ffrfs.errors import ChecksumError, PackError, RemoteError
from ffrfs.packing.places import MANIFEST_NAME
from tests.mount.command import ffrfs as command
from tests.remote.conftest import bucket, give, s3, staging, store
from tests.remote.servers.seaweedfs import SeaweedFS
from tests.remote.stored import objects
from tests.tfrecord_file import framed

SHARDS = 6
TIMEOUT_S = 60
OPTIONS = ConvertOptions("ffrecord")

pytestmark = [pytest.mark.usefixtures("staging"), pytest.mark.promise("S68")]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    pick = random.Random(6)
    folder = tmp_path / "records"
    folder.mkdir()
    for number in range(SHARDS):
        content = framed([pick.randbytes(pick.randrange(3000)) for _ in range(50 + number)])
        (folder / f"train.tfrecord-{number:05}-of-{SHARDS:05}").write_bytes(content)
    return folder


@pytest.fixture
def uploaded(store: S3Store, records: Path) -> str:
    for path in records.iterdir():
        obstore.put(store, f"in/{path.name}", path.read_bytes())
    return "s3://tests/in/"


def shown(found: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in found.items() if not name.startswith(".")}


def times_of(store: S3Store, prefix: str) -> dict[str, datetime]:
    """Return the time of each shard that was made."""
    found = obstore.list(store, prefix).collect()
    return {meta["path"]: meta["last_modified"] for meta in found if meta["path"].endswith(".ffr")}


def converted(source: Path | str, target: Path | str, **more: Any) -> ConvertSummary:
    with ThreadPoolExecutor(2) as pool:
        return convert_files(str(source), str(target), OPTIONS, pool, **more)


def local(records: Path) -> dict[str, bytes]:
    place = records.parent / "local"
    converted(records, place)
    return {path.name: path.read_bytes() for path in place.glob("[!.]*")}


def test_conversion_from_and_to_a_bucket(
    store: S3Store, records: Path, uploaded: str, staging: Path
) -> None:
    expected = local(records)
    for source, target in [(str(records), "s3://tests/one"), (uploaded, "s3://tests/two/")]:
        summary = converted(source, target, tmp_dir=str(staging))
        assert summary.record_count == sum(range(50, 50 + SHARDS))
    here = records.parent / "here"
    converted(uploaded, here)
    for prefix in ("one", "two"):
        found = objects(store, prefix)
        assert shown(found) == expected
        assert found.keys() - expected.keys() == {MANIFEST_NAME}
    assert {path.name: path.read_bytes() for path in here.glob("[!.]*")} == expected
    with pytest.raises(PackError, match="is not empty"):
        converted(uploaded, "s3://tests/two")


def test_changed_sources_and_objects_are_converted_again(
    store: S3Store, records: Path, uploaded: str, staging: Path
) -> None:
    """A source with other content and an object that was replaced are made again; no others are."""
    names = sorted(path.name for path in records.iterdir())
    sound = (records / names[3]).read_bytes()
    obstore.put(store, f"in/{names[3]}", bytes([sound[0], sound[1] ^ 1]) + sound[2:])
    words: dict[str, Any] = {"target": "s3://tests/out", "tmp_dir": str(staging)}
    with pytest.raises((ChecksumError, ValueError), match=names[3]):
        converted(uploaded, **words)
    before = objects(store, "out")
    assert len(shown(before)) == SHARDS - 1
    assert MANIFEST_NAME not in before
    obstore.put(store, f"in/{names[3]}", sound)
    obstore.put(store, f"in/{names[0]}", (records / names[1]).read_bytes())
    replaced = f"{names[4].replace('.tfrecord', '')}.ffr"
    obstore.put(store, f"out/{replaced}", bytes(len(before[replaced])))
    obstore.put(store, "out/.ffrfs-rows/hostile.json", b"[" * 10_000)
    seen: list[tuple[int, ...]] = []
    converted(uploaded, **words, progress=lambda *counts: seen.append(counts))
    assert [counts[:2] for counts in seen] == [(SHARDS - n, SHARDS) for n in (2, 1, 0)]
    assert seen[-1][2] == seen[-1][3] == sum(len(data) for data in objects(store, "in").values())
    (records / names[0]).write_bytes((records / names[1]).read_bytes())
    found, expected = objects(store, "out"), local(records)
    assert shown(found) == expected
    assert found.keys() - expected.keys() == {MANIFEST_NAME}


def test_a_killed_command_is_resumed(
    s3: SeaweedFS, store: S3Store, records: Path, uploaded: str, tmp_path: Path
) -> None:
    """There are so many files that the command does not end before it is killed."""
    content = next(records.iterdir()).read_bytes()
    for number in range(24):
        (records / f"more.tfrecord-{number:05}").write_bytes(content)
        obstore.put(store, f"in/more.tfrecord-{number:05}", content)
    (tmp_path / "killed").mkdir()
    words = ["convert", "-q", "--executor", "processes:1", "--to", "ffrecord"]
    words += ["--tmp-dir", str(tmp_path / "killed"), uploaded, "s3://tests/killed/"]
    program = subprocess.Popen([sys.executable, "-m", "ffrfs", *words], start_new_session=True)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while len(times_of(store, "killed/")) < 2:
            assert program.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    kept = times_of(store, "killed/")
    assert len(kept) < SHARDS + 24
    rows = [name for name in objects(store, "killed") if name.endswith(".json")]
    done = command(*words)
    assert (done.status, done.err) == (0, "")
    found = objects(store, "killed")
    assert shown(found) == local(records)
    assert found.keys() - shown(found).keys() == {MANIFEST_NAME}
    after = times_of(store, "killed/")
    same = {name for name, when in kept.items() if after[name] == when}
    assert len(same) >= len(rows) - 1  # SeaweedFS counts seconds: the newest may seem the same
    again = command(*words)
    assert (again.status, "is not empty; write to another directory" in again.err) == (1, True)


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        (
            f"s3://tests/in/train.tfrecord-00000-of-{SHARDS:05}",
            "s3://tests/x",
            "end a directory's URL in",
        ),
        ("s3://tests/in", "s3://tests/x", "end a directory's URL in /"),
        ("s3://tests/in/", "http://127.0.0.1:1/x", "files are written to s3://"),
        ("s3://tests/none/", "s3://tests/x", "s3://tests/none/"),
    ],
)
def test_sources_and_targets_that_are_refused(
    uploaded: str, source: str, target: str, error: str
) -> None:
    with pytest.raises((OSError, ValueError), match=error):
        converted(source, target)


def test_a_target_with_foreign_objects_is_refused(store: S3Store, uploaded: str) -> None:
    obstore.put(store, "theirs/README.md", b"text")
    with pytest.raises(PackError, match="is not empty"):
        converted(uploaded, "s3://tests/theirs/")
    assert objects(store, "theirs") == {"README.md": b"text"}
