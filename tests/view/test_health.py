"""The page of health: a map of all records, and a scrub that finds the damaged ones."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from ffrfs.view import health
from ffrfs.view.collection import ExampleCollection
from ffrfs.view.health import _bounds, _columns, _paths
from ffrfs.view.job import Job
from tests.ffrecord_file import flip_byte, record_extents
from tests.tfrecord_file import flip_record, write_tfrecord
from tests.view.conftest import Serve
from tests.view.examples import packed
from tests.view.pages import Pages


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A pack of twelve files; only "07" is damaged."""
    files = {f"{number:02}": b"x" * (number + 1) for number in range(12)}
    path = packed(tmp_path / "p.ffr", files)
    flip_byte(path, record_extents(path)[7][0])
    return path


def scrubbed(pages: Pages) -> Any:
    assert pages.get("/health", scrub=1).status == 303
    return pages.ended("/health")


def levels(found: Any) -> dict[str, int]:
    return {one["title"]: one["records"] for one in found["levels"] if one["records"]}


def test_nothing_is_checked_before_a_scrub_is_requested(serve: Serve, pack: Path) -> None:
    found = serve(pack).data("/health")
    assert (levels(found), found["has_begun"], found["damaged"]) == ({"unknown": 13}, False, [])


def test_damage_is_found_and_named(serve: Serve, pack: Path) -> None:
    pages = serve(pack)
    found = scrubbed(pages)
    assert levels(found) == {"good": 12, "damaged": 1}
    (one,) = found["damaged"]
    assert (one["number"], one["key"], one["pack"], one["record"]) == (7, "07", str(pack), 7)
    assert one["offset"] == record_extents(pack)[7][0]
    assert "checksum mismatch" in one["reason"] and str(pack) not in one["reason"]
    text = pages.get("/health").text
    assert 'href="/item?key=07"' in text and "1</b> damaged" in text


def test_scrub_runs_again(serve: Serve, pack: Path) -> None:
    """A second run does not keep the damage that the first one counted."""
    pages = serve(pack)
    assert scrubbed(pages)["damaged_count"] == scrubbed(pages)["damaged_count"] == 1


def test_damage_is_known_before_its_batch_ends(
    serve: Serve, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No count of records is negative before the batch ends."""
    pages = serve(pack)
    monkeypatch.setattr(Job, "tick", lambda *_: None)
    assert levels(scrubbed(pages)) == {"damaged": 1, "unknown": 13}


def test_damaged_index_has_no_path(serve: Serve, pack: Path) -> None:
    pages = serve(pack)  # opened before the damage, which opening would find
    flip_byte(pack, pack.stat().st_size - 1)
    found = scrubbed(pages)
    assert [(one["number"], one["key"]) for one in found["damaged"]] == [(7, "07"), (12, None)]
    assert "(the index)" in pages.get("/health").text


def test_damaged_example(serve: Serve, tmp_path: Path) -> None:
    files = [write_tfrecord(tmp_path / f"{name}.tfrecord", [b"abc"] * 5) for name in "ab"]
    flip_record(files[1], 2)
    pages = serve(files)
    found = scrubbed(pages)
    (one,) = found["damaged"]
    assert (one["key"], one["pack"], one["record"], one["offset"]) == ("7", str(files[1]), 2, 38)
    assert levels(found) == {"good": 9, "damaged": 1}
    assert sum(levels(pages.data("/health", by="size")).values()) == 10


def test_scrub_stops(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = serve(write_tfrecord(tmp_path / "x.tfrecord", [b"x" * 100] * 500_000))
    with monkeypatch.context() as slow:
        slow.setattr(health, "_STEP_COUNT", 100)
        slow.setattr(ExampleCollection, "verify", lambda *_: time.sleep(0.02) or [])
        pages.get("/health", scrub=1)
        answer = pages.get("/health", scrub=0, by="size")
        assert (answer.status, answer.headers["location"]) == (303, "/health?by=size")
        job = pages.data("/health")["jobs"][0]
        assert not job["is_running"] and job["done"] < 500_000
    assert scrubbed(pages)["is_over"]


def test_map_by_size(serve: Serve, pack: Path) -> None:
    found = serve(pack).data("/health", by="size")
    assert sum(levels(found).values()) == 13
    assert next(iter(levels(found))) == "1 B to 2 B"


@pytest.mark.parametrize("count", [0, 1, 2, 999, 16_001, 10_000_000])
def test_map_has_each_record_once(count: int) -> None:
    bounds = _bounds(count)
    cells = len(bounds) - 1
    assert cells <= 16_001 and bounds[-1] == count
    columns = _columns(cells)
    path = _paths([0] * cells, columns)[0]
    assert sum(map(int, re.findall(r"h(\d+)v", path))) == cells


def test_map_of_an_empty_pack(serve: Serve, tmp_path: Path) -> None:
    pages = serve(packed(tmp_path / "p.ffr", {}))
    for by in ("state", "size"):
        assert pages.get("/health", by=by).status == 200
