"""axe-core checks each page: in light colours, and in dark ones at the width of a phone.

axe-core examines each whole page twice, so these tests take long.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from ffrfs.view.page import link
from tests.ffrecord_file import flip_byte, record_extents
from tests.mount import probes
from tests.mount.command import Mount
from tests.mount.makers import MakeMount, PackTree
from tests.schema.records import example
from tests.tfrecord_file import framed, write_tfrecord
from tests.view.browser.conftest import Tabs
from tests.view.conftest import Serve
from tests.view.examples import encoded, packed
from tests.view.pages import Pages
from tests.view.test_health import scrubbed

# Dark mode changes only colours, so each width and each palette is checked once.
VARIANTS = [(390, "dark"), (1200, "light")]
FAULTS = """async () => (await axe.run({resultTypes: ["violations"]})).violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => one.id + ": " + one.nodes.map((node) => node.html).join(" "))"""


@pytest.fixture(scope="session")
def axe() -> str:
    pytest.importorskip("axe_playwright_python", reason="could not import axe_playwright_python")
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()


def check(tabs: Tabs, pages: Pages, axe: str, *paths: str) -> None:
    """Assert that no page has a serious fault, and that none is wider than the window."""
    for path in paths:
        page = tabs.open(pages, path, width=390, dark=True)
        page.evaluate(axe)
        assert page.title().endswith(" · ffrfs")
        for width, scheme in VARIANTS:
            page.set_viewport_size({"width": width, "height": 844})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(FAULTS) == [], (path, width, scheme)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def drawn_picture(number: int) -> bytes:
    picture = Image.new("RGB", (64, 48), (40, 60, 30 * number))
    ImageDraw.Draw(picture).rectangle((8, 8, 40, 30), fill=(200, 80, 60))
    return encoded(picture)


def test_files(tabs: Tabs, serve: Serve, axe: str, tmp_path: Path) -> None:
    files = {f"a/{number}.png": drawn_picture(number) for number in range(6)}
    files |= {f"a/below/{number}.txt": b"text\n" * number for number in range(6)}
    pack = packed(tmp_path / "p.ffr", files)
    flip_byte(pack, record_extents(pack)[-2][0])  # of the last file; behind it is the index
    pages = serve(pack, second=pack)
    assert scrubbed(pages)["damaged"] and pages.ended("/statistics")["packs"]
    items = _items(pages, "a/1.png", "a/below/3.txt", "a/below/5.txt")
    check(tabs, pages, axe, "/", "/?folder=a", "/statistics", "/health", "/health?by=size", *items)


def test_examples(tabs: Tabs, serve: Serve, axe: str, tmp_path: Path) -> None:
    box: dict[str, list[Any]] = {f"image/object/bbox/{end}": [0.2] for end in ("xmin", "ymin")}
    box |= {f"image/object/bbox/{end}": [0.8] for end in ("xmax", "ymax")}
    box["image/encoded"] = [drawn_picture(3)]
    records = [example(label=[n % 3], word=["ab"[n % 2]], **box) for n in range(20)]
    first = write_tfrecord(tmp_path / "a.tfrecord", records)
    second = write_tfrecord(tmp_path / "b.tfrecord", [*records, example(label=[7], more=["x"])])
    pages = serve(first, second=second)
    assert pages.ended("/statistics")["anomalies"][0]["rows"]
    drawn = "/statistics?chart=quantiles&scale=log&as=percent&sort=distance"
    check(tabs, pages, axe, "/", "/health", *_items(pages, "3"), "/statistics", drawn)


@pytest.fixture
def mounted(mount: MakeMount, pack_tree: PackTree) -> Mount:
    return mount(pack_tree({"a": b"x" * 1000}))


@pytest.mark.parametrize("engine", ["native"])
def test_mount(tabs: Tabs, serve: Serve, axe: str, mounted: Mount) -> None:
    check(tabs, serve(mounted.path), axe, "/live")


def _items(pages: Pages, *keys: str) -> list[str]:
    paths = [link("/item", key=key) for key in keys]
    return [path for path in paths if pages.get(path).status == 200]


def test_progress_page_shows_the_end_without_a_reload(
    tabs: Tabs, serve: Serve, tmp_path: Path
) -> None:
    """A page that shows the progress of a job shows its end without a reload by the user."""
    (tmp_path / "x.tfrecord").write_bytes(framed([b"x" * 100]) * 300_000)
    page = tabs.open(serve(tmp_path / "x.tfrecord"), "/health")
    page.get_by_text("Check all records").click()
    page.get_by_text("All records are good.").wait_for()
    file = write_tfrecord(tmp_path / "y.tfrecord", [example(label=[1])] * 100)
    page = tabs.open(serve(file), "/statistics")
    page.get_by_role("rowheader", name="label").wait_for()


@pytest.mark.parametrize("engine", ["native"])
def test_live_page_changes(tabs: Tabs, serve: Serve, mounted: Mount) -> None:
    page = tabs.open(serve(mounted.path), "/live")
    page.get_by_text("No requests in the last seconds.").wait_for()
    mounted.ask(probes.read, "a")
    page.get_by_role("rowheader", name="read", exact=True).wait_for()


def test_cell_of_the_map_leads_to_its_records(tabs: Tabs, serve: Serve, tmp_path: Path) -> None:
    pages = serve(write_tfrecord(tmp_path / "x.tfrecord", [b"abc"] * 100))
    page = tabs.open(pages, "/health")
    cells = page.locator("svg.map")
    box = cells.bounding_box()
    cells.hover(position={"x": box["width"] - 1, "y": 1})
    last = int(cells.get_attribute("data-columns")) - 1
    assert page.locator("#cell").inner_text() == f"Record {last}."
    cells.click(position={"x": box["width"] - 1, "y": 1})
    page.wait_for_url(f"**/?at={last}")
