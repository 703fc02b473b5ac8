"""The kept listings of directories: what is read back, and how many are kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.cache import listings
from ffrfs.cache.listings import keep_listing, kept_listing
from ffrfs.cache.place import CachePlace
from ffrfs.errors import CacheError

URL = "http://h/set/"
CACHE_SIZE = 16 << 20


@pytest.fixture
def place(tmp_path: Path) -> Iterator[CachePlace]:
    place = CachePlace(str(tmp_path / "cache"))
    yield place
    place.close()


def test_the_last_listing_is_read_back(place: CachePlace) -> None:
    assert kept_listing(place, "a", URL) is None
    for names in (["x.ffr"], ["é.ffr", "b", "sub/", ""]):
        keep_listing(place, "a", URL, names, CACHE_SIZE)
    assert kept_listing(place, "a", URL) == ["b", "é.ffr"]
    assert kept_listing(place, "b", URL) is None
    assert kept_listing(place, "a", "http://h/other/") is None


def test_large_and_old_listings_are_not_kept(
    place: CachePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "_SIZE_MAX", 1000)
    monkeypatch.setattr(listings, "_COUNT_MAX", 5)
    keep_listing(place, "large", URL, ["x"], CACHE_SIZE)
    keep_listing(place, "large", URL, ["x" * 1000], CACHE_SIZE)
    assert kept_listing(place, "large", URL) is None
    for number in range(9):
        keep_listing(place, str(number), URL, ["x"], CACHE_SIZE)
        os.utime(f"{place.path}/listings/{number}", (number, number))
    assert sorted(os.listdir(f"{place.path}/listings")) == ["4", "5", "6", "7", "8"]
    for number in (7, 8, 9):
        keep_listing(place, str(number), URL, ["x" * 900], 2000 * 200)  # at most 2,000 bytes
        os.utime(f"{place.path}/listings/{number}", (number, number))
    assert sorted(os.listdir(f"{place.path}/listings")) == ["8", "9"]


@pytest.mark.parametrize(
    "hostile", [b"", b"[" * 100_000, b'{"url": 1}'], ids=["empty", "deep", "without names"]
)
def test_a_damaged_listing_is_ignored(place: CachePlace, hostile: bytes) -> None:
    keep_listing(place, "a", URL, ["x"], CACHE_SIZE)
    Path(f"{place.path}/listings/a").write_bytes(hostile)
    assert kept_listing(place, "a", URL) is None


def test_a_link_in_place_of_a_listing_is_refused(place: CachePlace, tmp_path: Path) -> None:
    keep_listing(place, "a", URL, ["x"], CACHE_SIZE)
    path = tmp_path / "cache" / "listings" / "a"
    path.unlink()
    path.symlink_to(tmp_path / "other")
    with pytest.raises(CacheError):
        kept_listing(place, "a", URL)
