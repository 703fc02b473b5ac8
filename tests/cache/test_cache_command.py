"""The command `ffrfs cache`, also while mounts use the directory."""

from __future__ import annotations

import contextlib
import json
import os
import random
from pathlib import Path

import pytest

from ffrfs.cache.directory import CacheDirectory
from ffrfs.cache.inventory import Inventory
from ffrfs.cache.locks import try_lock
from ffrfs.cache.state_file import BLOCK_SIZE, USE_AT
from ffrfs.cli.main import main
from ffrfs.record.writer import FileWriter
from tests.cache.blocks import URL, check, content, fill, held, in_child, settle, store

MIB = 1 << 20
OTHER = "s3://bucket/other.tfrecord"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A cache of two objects: one has 3 of its 4 blocks, the other has all."""
    place = tmp_path / "cache"
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", 3 * BLOCK_SIZE + 100, "pin")
    for block in (0, 2, 3):
        fill(kept, block)
    kept.close()
    kept = cache.open(OTHER, "v1", 5000)
    fill(kept, 0)
    kept.close()
    cache.close()
    return place


def run(capfd: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    capfd.readouterr()
    assert main(["cache", *map(str, arguments)]) == status
    out, err = capfd.readouterr()
    assert err == ""
    return out


def refusal(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    capfd.readouterr()
    assert main(["cache", *map(str, arguments)]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    return err


def test_ls(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = run(capfd, "ls", place).splitlines()
    assert len(lines) == 2
    line = next(line for line in lines if URL in line)
    assert "2.0 MiB  75% of    3.0 MiB  s3://bucket/a.ffr  (used 00:0" in line
    objects = json.loads(run(capfd, "ls", "--json", place, URL))
    assert len(objects) == 1
    facts = objects[0]
    assert (facts["cached"], facts["size"]) == (2 * MIB + 100, 3 * MIB + 100)
    assert (facts["blocks"], facts["block_count"]) == (3, 4)
    assert (facts["pinned"], facts["in_use"]) == (False, False)
    assert facts["held"] >= facts["cached"]
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", 3 * BLOCK_SIZE + 100)
    assert json.loads(run(capfd, "ls", "--json", place, facts["name"][:8]))[0]["in_use"]
    kept.close()
    cache.close()


def test_a_url_with_a_signature(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open("https://host/a%20b.ffr", "v1", 100)
    fill(kept, 0)
    kept.close()
    cache.close()
    signed = "https://host/a%20b.ffr?sig=hush"
    assert "  https://host/a%20b.ffr  " in run(capfd, "ls", place, signed)
    run(capfd, "rm", place, signed)
    shown = refusal(capfd, "ls", place, signed)
    assert "has no object https://host/a%20b.ffr; `ffrfs cache ls` lists them" in shown


def test_du(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fields = json.loads(run(capfd, "du", "--json", place))
    assert fields["objects"] == 2
    assert fields["cached"] == 2 * MIB + 5100
    assert abs(fields["held"] - held(place)) <= 8192  # the file `usage` is not counted
    assert run(capfd, "du", place).startswith("objects          2\nsize             2.")


def test_pin_and_prune(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd, "pin", place, URL)
    assert ", pinned)" in run(capfd, "ls", place, URL)
    assert json.loads(run(capfd, "prune", "--json", "--size", "1K", place))["freed"] >= 5000
    assert [each["url"] for each in json.loads(run(capfd, "ls", "--json", place))] == [URL]
    run(capfd, "unpin", place, URL)
    assert run(capfd, "prune", "--size", "1M", place) == "2.0 MiB removed\n"
    assert held(place) <= 1 * MIB


def test_prune_frees_dropped_blocks_and_old_partial_files(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        cache = CacheDirectory(str(place), 64 * MIB)
        kept = cache.open(URL, "v1", 3 * BLOCK_SIZE + 100)
        settle(cache)  # otherwise its pass may do it
        kept.forget(0)

    in_child(work)
    folder = next(place.glob("??"))
    staged = folder / f".{'0' * 64}.state.{'1' * 16}.partial"
    fresh = folder / f".{'0' * 64}.state.{'2' * 16}.partial"
    foreign = folder / "notes.partial"
    for path in (staged, fresh, foreign):
        path.write_bytes(b"x")
    os.utime(staged, (0, 0))
    before = held(place)
    run(capfd, "prune", place)
    assert before - held(place) >= MIB
    assert (staged.exists(), fresh.exists(), foreign.exists()) == (False, True, True)


def test_rm(
    place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", 3 * BLOCK_SIZE + 100)
    run(capfd, "rm", place, URL, OTHER)
    assert check(kept) == set()
    assert json.loads(run(capfd, "ls", "--json", place, URL))[0]["blocks"] == 0
    assert len(list(place.glob("??/*"))) == 2
    fill(kept, 1)
    kept.close()
    cache.close()
    # Block by block, it would take minutes if a hostile state file claims millions of them.
    monkeypatch.setattr("ffrfs.cache.inventory.evict_blocks", None)
    run(capfd, "rm", place, URL)
    assert list(place.glob("??/*")) == []
    assert run(capfd, "ls", place) == ""


def test_rm_of_a_pinned_object(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(capfd, "pin", place, URL)
    error = f"ffrfs: {URL}: is pinned; to remove it all the same: --force\n"
    assert refusal(capfd, "rm", place, OTHER, URL) == error
    assert len(run(capfd, "ls", place).splitlines()) == 2
    run(capfd, "rm", "--force", place, URL)
    assert URL not in run(capfd, "ls", place)


def test_the_default_directory_is_that_of_mounts(
    place: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.rename(place.with_name("ffrfs"))
    monkeypatch.delenv("FFRFS_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.parent))
    assert len(run(capfd, "ls").splitlines()) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", str(place))
    monkeypatch.setenv("FFRFS_CACHE_DIR", str(place.with_name("ffrfs")))
    assert len(run(capfd, "ls").splitlines()) == 2


def pack(tmp_path: Path) -> bytes:
    """An FFRecord file of 40 records of 100,000 bytes."""
    path = tmp_path / "pack.ffr"
    writer = FileWriter(str(path), 40)
    noise = random.Random(1)
    for _ in range(40):
        writer.write_one(noise.randbytes(100_000))
    writer.close()
    return path.read_bytes()


def test_verify_finds_bad_records_and_holes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, data = tmp_path / "cache", pack(tmp_path)
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", len(data))
    for block in (0, 1, 3):
        assert kept.claim(block)
        store(kept, block, data[block * MIB : (block + 1) * MIB])
    kept.close()
    cache.close()
    out = run(capfd, "verify", place)
    verified = int(out.partition(": good, ")[2].partition(" records")[0])
    # The records of three blocks, except those that reach into block 2.
    assert 27 <= verified <= 29
    path = next(place.glob("??/*.data"))
    with open(path, "r+b") as file:
        file.seek(MIB + 500_000)
        file.write(b"?")
    (report,) = json.loads(run(capfd, "verify", "--json", place, status=1))
    record = (MIB + 500_000) // 100_000
    assert len(report["problems"]) == 1
    assert report["problems"][0] in (
        f"record {record} does not match its checksum (blocks 1 to 1)",
        f"record {record - 1} does not match its checksum (blocks 1 to 1)",
    )
    with open(path, "r+b") as file:
        file.truncate(3 * MIB)
        file.truncate(len(data))
    assert f"{URL}: block 3 is marked as cached, but the data file has a hole there" in run(
        capfd, "verify", place, status=1
    )


def test_verify_prints_one_line_for_all_holes_of_an_object(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The state file claims a million blocks that are holes."""
    place = tmp_path / "cache"
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", MIB * BLOCK_SIZE - 1)
    fill(kept, 0)
    kept._state.set_present(2, MIB - 2)
    kept.close()
    cache.close()
    out = run(capfd, "verify", place, status=1).splitlines()
    assert out[0] == (
        f"{URL}: block 2 (and 1,048,573 more) is marked as cached, but the data file has a hole "
        "there"
    )
    assert len(out) == 1


def cached(place: Path, url: str, data: bytes) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(url, "v1", len(data))
    for block in range(kept.block_count):
        assert kept.claim(block)
        store(kept, block, data[block * MIB : (block + 1) * MIB])
    kept.close()
    cache.close()


def test_verify_finds_bad_headers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place, data = tmp_path / "cache", bytearray(pack(tmp_path))
    data[100] ^= 1  # the offset of a record, or a checksum
    cached(place, "s3://bucket/damaged", data)
    cached(place, "s3://bucket/noise.ffr", random.Random(1).randbytes(2 * MIB))
    cached(place, "s3://bucket/noise", random.Random(1).randbytes(2 * MIB))
    FileWriter(str(tmp_path / "empty"), 0).close()
    cached(place, "s3://bucket/empty.ffr", (tmp_path / "empty").read_bytes())
    out = run(capfd, "verify", place, status=1)
    assert "s3://bucket/damaged: its header is no good: " in out
    assert "s3://bucket/noise.ffr: its header is no good: not an FFRecord " in out
    assert "s3://bucket/noise: no cached block is missing; not an FFRecord file" in out
    assert "s3://bucket/empty.ffr: good, 0 records verified\n" in out
    assert out.count("\n") == 4
    (report,) = json.loads(run(capfd, "verify", "--json", place, "s3://bucket/damaged", status=1))
    assert len(report["problems"]) == 1


def test_an_object_being_made_or_removed_is_not_damaged(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process is making or removing it, or has just removed it."""
    with contextlib.closing(Inventory(str(place))) as inventory:
        names = [*inventory.store.names(), "0" * 64]
        monkeypatch.setattr(inventory.store, "names", lambda: names)
        with next(place.rglob("*.state")).open("rb+") as state:
            assert try_lock(state.fileno(), USE_AT)
            assert list(inventory.unreadable()) == []


def test_verify_reports_objects_it_cannot_check(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "cache"
    for url in ("s3://bucket/a.tfrecord", "s3://bucket/b.tfrecord", OTHER):
        cached(place, url, content(0, 5000))
    out = run(capfd, "verify", place)
    assert out.count(": no cached block is missing; ") == 3
    damaged, cut, lost = place.glob("??/*.state")
    with open(damaged, "r+b") as file:
        file.seek(100)
        file.write(b"\xff")
    os.truncate(cut, 5000)
    lost.with_suffix(".data").unlink()
    out = run(capfd, "verify", place, status=1)
    assert f"{damaged}: the checksum of its header does not match; remove it and its data" in out
    assert f"{cut}: its length is wrong; remove it and its data file\n" in out
    assert f"{lost}: its data file is missing; remove it and its data file\n" in out


def test_wrong_usage(place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert refusal(capfd, "ls", tmp_path).endswith("not a cache directory of ffrfs\n")
    assert not (tmp_path / "usage").exists()
    assert "No such file or directory" in refusal(capfd, "du", tmp_path / "none")
    assert "has no object s3://none; `ffrfs cache ls` lists them" in refusal(
        capfd, "pin", place, "s3://none"
    )
    for arguments in (
        ["rm"],
        ["du", "--force"],
        ["prune", URL],
        ["ls", "--size", "1G"],
        ["prune", "--size", "much"],
    ):
        with pytest.raises(SystemExit) as caught:
            main(["cache", arguments[0], str(place), *arguments[1:]])
        assert caught.value.code == 2
