"""The indexes in a user's cache take a limited space."""

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs.files import index_cache


def test_the_oldest_indexes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_cache, "SIZE_MAX", 250)
    monkeypatch.setattr(index_cache, "_INTERVAL_S", 0.0)
    folder = tmp_path / "index"
    for number in range(5):
        index_cache.prepare_for(str(folder / f"{number}.idx"))
        (folder / f"{number}.idx").write_bytes(bytes(100))
        (folder / "other").write_bytes(bytes(1000))
    assert sorted(file.name for file in folder.iterdir()) == ["2.idx", "3.idx", "4.idx", "other"]
