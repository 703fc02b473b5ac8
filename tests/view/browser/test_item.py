"""The page of a file in a browser: it shows and plays known types, and runs nothing."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ffrfs.view.page import link
from tests.ffrecord_file import write_folder
from tests.view.conftest import Serve
from tests.view.examples import npy, picture, turned
from tests.view.pages import Pages

ATTACK = "document.documentElement.dataset.ran = 'yes'"
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{ATTACK}"><script>{ATTACK}</script></svg>'


def sound() -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(2 * 8000 * 20))
    return stream.getvalue()


FILES = {
    "a.jpg": picture(300, 200, exif=turned()),
    "b.wav": sound(),
    "c.svg": SVG.encode(),
    "d.html": f"<script>{ATTACK}</script>".encode(),
    "e.gif": f"GIF89a/*<script>{ATTACK}</script>".encode(),
    "f.npy": npy(np.arange(1000)),
    "g.npy": npy(np.arange(600).reshape(20, 30)),
    "h.csv": ("name," * 40 + "\n").encode() * 5,
    "i.bin": bytes(2000),
    f"j{'long' * 50}.txt": b"word" * 5000,
    "k'\"<i>\n.txt": b"text",
}


@pytest.fixture
def pages(tmp_path: Path, serve: Serve) -> Pages:
    return serve(write_folder(tmp_path / "x.ffr", FILES))


def test_a_picture_is_rotated_by_its_exif_orientation(pages: Pages, tabs: Any) -> None:
    page = tabs.open(pages, link("/item", key="a.jpg"))
    size = page.evaluate(
        "document.querySelector('img.shown').decode().then(() => "
        "['width', 'height'].map(side => document.querySelector('img.shown')[side]))"
    )
    assert size == [200, 300]


def test_sound_can_be_played_from_any_position(pages: Pages, tabs: Any) -> None:
    page = tabs.open(pages, link("/item", key="b.wav"))
    sought = page.evaluate(
        """new Promise((done, failed) => {
            const audio = document.querySelector("audio");
            audio.onerror = failed;
            audio.onseeked = () => done([audio.duration, audio.currentTime]);
            const seek = () => { audio.currentTime = 15; };
            if (audio.readyState) seek(); else audio.onloadedmetadata = seek;
        })"""
    )
    assert sought == [20, 15]


@pytest.mark.parametrize("name", ["c.svg", "d.html", "e.gif"])
def test_no_script_of_a_file_runs(pages: Pages, tabs: Any, name: str) -> None:
    page = tabs.open(pages, link("/item", key=name))
    assert page.evaluate("document.documentElement.dataset.ran") is None
    address = pages.root + link("/bytes", key=name)
    if name == "e.gif":
        page.goto(address)
        assert page.evaluate("document.contentType") == "image/gif"
        assert page.evaluate("document.documentElement.dataset.ran") is None
        assert any("Content Security Policy" in error for error in tabs.errors)
        tabs.errors.clear()
        return
    with page.expect_download() as download:
        page.evaluate("address => { location = address }", address)
    assert Path(download.value.path()).read_bytes() == FILES[name]
    assert page.evaluate("document.documentElement.dataset.ran") is None


def test_downloads_keep_the_names_of_the_files(pages: Pages, tabs: Any) -> None:
    page = tabs.open(pages, link("/item", key="c.svg"))
    with page.expect_download() as download:
        page.get_by_role("link", name="Download", exact=True).click()
    assert download.value.suggested_filename == "c.svg"


def test_a_command_line_is_copied_to_the_clipboard(pages: Pages, tabs: Any) -> None:
    page = tabs.open(pages, link("/item", key="k'\"<i>\n.txt"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the line of Shell").click()
    page.get_by_text("Copied", exact=True).wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == pages.data("/item", key="k'\"<i>\n.txt")["commands"]["shell"]


def test_pages_fit_a_phone(pages: Pages, tabs: Any) -> None:
    page = tabs.open(pages, link("/item", key="a.jpg"), width=390, dark=True)
    for name in FILES:
        page.goto(pages.root + link("/item", key=name))
        assert page.evaluate("document.documentElement.scrollWidth") == 390, name
