"""The gallery's pages: by number, by directory, and how they show names and numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ffrfs.view.page import link
from tests.ffrecord_file import flip_byte, record_extents
from tests.view.conftest import Serve
from tests.view.examples import packed, write
from tests.view.pages import Pages


@pytest.fixture
def pages(tmp_path: Path, serve: Serve) -> Pages:
    files = {f"train/{number // 100}/{number:03d}.jpg": b"x" * number for number in range(250)}
    return serve(packed(tmp_path / "a.ffr", files | {"read.me/notes": b""}))


def names(values: dict[str, Any]) -> list[str]:
    return [item["name"] for item in values["items"]]


def test_pages_by_number(pages: Pages) -> None:
    begin = pages.data("/")
    assert names(begin) == [f"{number:03d}.jpg" for number in range(100)]
    assert (begin["before"], begin["after"]) == (None, 100)
    last = pages.data("/", at=220)
    assert (names(last)[0], last["before"], last["after"]) == ("220.jpg", 120, None)
    assert names(pages.data("/", at=10**15))[-1] == "notes"
    assert names(pages.data("/", at="-1")) == names(begin)


def test_directories(pages: Pages) -> None:
    root = pages.data("/", folder="/")
    assert [(item["name"], item["kind"]) for item in root["items"]] == [
        ("read.me", "folder"),
        ("train", "folder"),
    ]
    assert root["items"][1]["url"] == "/?folder=train"
    assert [item["kind"] for item in pages.data("/", folder="train")["items"]] == 3 * ["folder"]
    inside = pages.data("/", folder="train/0")
    assert len(inside["items"]) == 100 and inside["after"] is None
    assert inside["crumbs"] == [["train", "/?folder=train"], ["0", "/?folder=train%2F0"]]
    assert pages.get("/", folder="absent").status == 404
    assert pages.get("/", folder="train/0/000.jpg").status == 404
    assert pages.data("/", folder="train", at=3)["items"] == []


def test_tile_contents(pages: Pages) -> None:
    first = pages.data("/")["items"][1]
    assert (first["key"], first["folder"], first["size"]) == ("train/0/001.jpg", "train/0", 1)
    assert first["letters"] == "jpg" and "key=train%2F0%2F001.jpg" in first["thumbnail"]
    (notes,) = pages.data("/", folder="read.me")["items"]
    assert (notes["letters"], notes["size"]) == ("file", 0)


def test_hostile_names_are_escaped(tmp_path: Path, serve: Serve) -> None:
    pages = serve(packed(tmp_path / "a.ffr", {'"><script>alert(1)</<b>&.txt': b"x"}))
    for parameters in ({}, {"folder": "/"}, {"folder": '"><script>alert(1)<'}):
        answer = pages.get("/", **parameters)
        text = answer.text
        assert answer.status == 200
        assert "<script>alert" not in text and "<b>" not in text


def test_control_characters_are_shown_as_text(tmp_path: Path, serve: Serve) -> None:
    pack = packed(tmp_path / "a.ffr", {"a\u202eb/gpj.\u202etxt\n": b"x"})
    flip_byte(pack, record_extents(pack)[0][0])
    pages = serve(pack)
    pages.get("/health", scrub=1)
    for path in ("/statistics", "/health"):
        pages.ended(path)
    item = link("/item", key="a\u202eb/gpj.\u202etxt\n")
    for path in ("/", "/?folder=/", item, "/statistics", "/health"):
        text = pages.ask(path, headers={"Cookie": pages.cookie}).text
        assert r"a\u202eb" in text and "\u202e" not in text, path


def test_examples_by_number(tmp_path: Path, serve: Serve) -> None:
    pages = serve(write(tmp_path / "a.tfrecord", *(b"x" * number for number in range(120))))
    second = pages.data("/", at=100)
    assert [item["key"] for item in second["items"]] == [str(n) for n in range(100, 120)]
    assert second["items"][0]["size"] == 100
    assert "By directory" not in pages.get("/").text
