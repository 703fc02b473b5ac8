"""The gallery's pages: by number, by directory, and how they show names and numbers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ffrfs import PackWriter, pack_folder
from ffrfs.tfrecord import TFRecordWriter
from tests.view.pages import Pages


@pytest.fixture
def pages(tmp_path: Path, serve: Callable[..., Pages]) -> Pages:
    with PackWriter(tmp_path / "a.ffr") as pack:
        for number in range(250):
            pack.add(f"train/{number // 100}/{number:03d}.jpg", b"x" * number)
        pack.add("read.me/notes", b"")
    return serve(tmp_path / "a.ffr")


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


def test_hostile_names_are_escaped(tmp_path: Path, serve: Callable[..., Pages]) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / '"><script>alert(1)<').mkdir()
    (folder / '"><script>alert(1)<' / "<b>&.txt").write_bytes(b"x")
    pack_folder(folder, tmp_path / "a.ffr")
    pages = serve(tmp_path / "a.ffr")
    for parameters in ({}, {"folder": "/"}, {"folder": '"><script>alert(1)<'}):
        answer = pages.get("/", **parameters)
        text = answer.text
        assert answer.status == 200
        assert "<script>alert" not in text and "<b>" not in text


def test_control_characters_are_shown_as_text(tmp_path: Path, serve: Callable[..., Pages]) -> None:
    with PackWriter(tmp_path / "a.ffr") as pack:
        pack.add("a/gpj.\u202etxt\n", b"")
    text = serve(tmp_path / "a.ffr").get("/").text
    assert "gpj." in text and "\u202e" not in text


def test_examples_by_number(tmp_path: Path, serve: Callable[..., Pages]) -> None:
    with TFRecordWriter(os.fspath(tmp_path / "a.tfrecord")) as writer:
        for number in range(120):
            writer.write(b"x" * number)
    pages = serve(tmp_path / "a.tfrecord")
    second = pages.data("/", at=100)
    assert [item["key"] for item in second["items"]] == [str(n) for n in range(100, 120)]
    assert second["items"][0]["size"] == 100
    assert "By directory" not in pages.get("/").text
