"""The gallery in a browser: keys, the selection, results that arrive bit by bit, and its looks."""

from __future__ import annotations

import functools
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ffrfs.view import gallery
from tests.view.browser.conftest import Tabs
from tests.view.conftest import Serve
from tests.view.examples import encoded, packed, write
from tests.view.pages import Pages

ODD = 'it\'s a $(name) \\ "ü"\n.txt'


@functools.cache
def picture(colour: str) -> bytes:
    return encoded(Image.new("RGB", (400, 300), colour), "JPEG")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    colours = ("red", "green", "blue")
    files = {f"a/{number:03d}.jpg": picture(colours[number % 3]) for number in range(150)}
    return packed(tmp_path / "a.ffr", files | {ODD: b"odd"})


def focused(page: Any) -> str:
    return str(
        page.evaluate("document.activeElement.closest('.tile')?.querySelector('.name').textContent")
    )


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def test_thumbnails_are_shown(pages: Pages, tabs: Tabs) -> None:
    first = tabs.open(pages).locator(".tile img").first
    assert first.evaluate("image => image.decode().then(() => image.naturalWidth)") == 240
    assert first.get_attribute("alt") == "Thumbnail of 000.jpg"


def test_tiles_without_a_picture_show_letters(tmp_path: Path, serve: Serve, tabs: Tabs) -> None:
    page = tabs.open(serve(packed(tmp_path / "a.ffr", {"bad.png": b"no picture", "b.npy": b""})))
    page.locator(".tile img.failed").wait_for(state="attached")
    assert page.locator(".letters").all_inner_texts() == ["png", "npy"]


def test_keys_move_select_and_open(pages: Pages, tabs: Tabs) -> None:
    page = tabs.open(pages)
    press(page, "ArrowRight")
    assert focused(page) == "000.jpg"
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft", "Space")
    assert focused(page) == "001.jpg"
    press(page, "ArrowDown")
    below = int(focused(page)[:3])
    assert below > 3
    press(page, "ArrowUp", "End")
    assert focused(page) == "099.jpg"
    assert page.locator("#selection strong").inner_text() == "1 selected"
    press(page, "n")
    page.wait_for_url("**at=100")
    assert page.locator("#selection strong").inner_text() == "1 selected"
    press(page, "p")
    page.wait_for_url("**/")
    assert page.locator(".tile > input:checked").count() == 1
    press(page, "/")
    page.keyboard.type("*3.jpg")
    press(page, "Enter")
    page.wait_for_url("**name=*3.jpg**")
    page.locator(".tile").nth(14).wait_for()  # tiles appear as they are found
    assert page.locator(".tile").count() == 15
    page.goto(f"{pages.root}/?folder=/")
    press(page, "ArrowRight", "Enter")
    page.wait_for_url("**/?folder=a")
    assert page.locator(".tile").count() == 100


def test_help_opens_and_closes(pages: Pages, tabs: Tabs) -> None:
    page = tabs.open(pages)
    press(page, "?")
    assert page.get_by_role("dialog").is_visible()
    press(page, "Escape")
    assert not page.get_by_role("dialog").is_visible()
    press(page, "/", "?")  # in the field, "?" is a character
    assert not page.get_by_role("dialog").is_visible()
    press(page, "Escape", "?")
    assert page.get_by_role("dialog").is_visible()


def test_the_selection_gives_a_list_and_commands(pages: Pages, pack: Path, tabs: Tabs) -> None:
    page = tabs.open(pages, "/?at=140")
    page.locator(".tile", has_text="149.jpg").locator("input").check()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download list").click()
    assert Path(download.value.path()).read_bytes() == b"a/149.jpg\n"
    page.locator(".tile", has_text="it's").locator("input").check()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download list").click()
    assert Path(download.value.path()).read_bytes() == f"a/149.jpg\0{ODD}\0".encode()
    cat, packing = (
        page.locator(f"[data-command={name}] code").inner_text() for name in ("cat", "pack")
    )
    assert run(cat, pack.parent) == picture("blue") + b"odd"
    (pack.parent / "selected.txt").write_bytes(Path(download.value.path()).read_bytes())
    run(packing, pack.parent)
    assert run("ffrfs cat selected.ffr a/149.jpg", pack.parent) == picture("blue")
    page.get_by_role("button", name="Clear").click()
    assert not page.locator("#selection").is_visible()


def test_a_name_with_a_leading_hyphen_is_not_taken_for_an_option(
    tmp_path: Path, serve: Serve, tabs: Tabs
) -> None:
    page = tabs.open(serve(packed(tmp_path / "a.ffr", {"-n": b"content"})))
    page.locator(".tile input").check()
    cat = page.locator("[data-command=cat] code").inner_text()
    assert run(cat, tmp_path) == b"content"


def run(command: str, folder: Path) -> bytes:
    """Return the output of a shell command; its `ffrfs` is run by this interpreter."""
    program = f"{shlex.quote(sys.executable)} -m ffrfs"
    shell = command.replace("ffrfs", program, 1)
    return subprocess.run(
        ["bash", "-c", shell], cwd=folder, check=True, stdout=subprocess.PIPE
    ).stdout


def test_results_of_a_slow_search_appear_without_a_reload(
    tmp_path: Path, serve: Serve, tabs: Tabs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "_WAIT_S", 0)
    pack = packed(tmp_path / "many.ffr", {f"{number:05d}.txt": b"" for number in range(20_000)})
    page = tabs.open(serve(pack), "/?name=*99.txt&sort=-size")
    page.get_by_text("200 found: 0 to 99").wait_for()
    assert page.locator(".tile").count() == 100
    assert page.locator("#found[hx-get]").count() == 0


def test_examples_are_selected_by_number(tmp_path: Path, serve: Serve, tabs: Tabs) -> None:
    records = [{"image": picture(colour)} for colour in ("red", "green", "blue")]
    page = tabs.open(serve(write(tmp_path / "a.tfrecord", *records)))
    page.locator(".tile > input").nth(1).check()
    assert page.locator("[data-command=cat] code").inner_text().endswith("a.tfrecord 1")
    assert not page.locator("[data-command=pack]").is_visible()


def test_a_phone_needs_no_horizontal_scrolling(pages: Pages, tabs: Tabs) -> None:
    page = tabs.open(pages, width=390)
    for path in ("/?folder=/", "/?only=damaged", "/", "/?name=*&sort=-size"):
        page.goto(pages.root + path)
        if "=/" not in path and "damaged" not in path:
            page.locator(".tile > input").first.check()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
