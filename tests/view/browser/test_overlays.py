"""What the browser draws over a picture, or its thumbnail: boxes, names, masks and key points."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ffrfs.tfrecord import from_dict
from tests.view.browser.conftest import Tabs
from tests.view.conftest import Serve
from tests.view.examples import DETECTION, HEIGHT, WIDTH, detection, encoded, picture, turned, write

Show = Callable[..., Any]
TEAL, GREY = (0, 158, 115), (128, 128, 128)


@pytest.fixture
def show(tmp_path: Path, serve: Serve, tabs: Tabs) -> Show:
    """show(record, query) returns the record's page when everything is drawn."""

    def begin(record: Any, query: str = "", **options: Any) -> Any:
        page = tabs.open(
            serve(write(tmp_path / "x.tfrecord", record)), f"/item?key=0{query}", **options
        )
        page.locator("#stage svg[data-state=drawn]").wait_for()
        return page

    return begin


def boxes(page: Any) -> list[tuple[float, ...]]:
    """Return left, top, right and bottom of each box, as fractions of the visible picture."""
    found: list[tuple[float, ...]] = page.evaluate(
        """() => {
          const all = document.getElementById("picture").getBoundingClientRect();
          return [...document.querySelectorAll("g.box .edge")].map((edge) => {
            const one = edge.getBoundingClientRect();
            return [
              (one.left - all.left) / all.width, (one.top - all.top) / all.height,
              (one.right - all.left) / all.width, (one.bottom - all.top) / all.height,
            ];
          });
        }"""
    )
    return found


def names(page: Any) -> list[str]:
    found: list[str] = page.locator("g.box text").all_text_contents()
    return found


def pixel(page: Any, x: float, y: float) -> tuple[int, ...]:
    """Return red, green, blue and alpha of the canvas at `x`, `y`: fractions of its size."""
    return tuple(
        page.evaluate(
            """([x, y]) => {
              const canvas = document.querySelector("#stage canvas");
              if (canvas.hidden) return [];
              const at = [x * canvas.width, y * canvas.height];
              return [...canvas.getContext("2d").getImageData(...at, 1, 1).data];
            }""",
            [x, y],
        )
    )


def check(page: Any, name: str) -> None:
    page.locator("#classes label", has_text=name).locator("input").click()


def slide(page: Any, to: float) -> None:
    page.locator("#score").fill(str(to))


EXPECTED = [(0.1, 0.2, 0.4, 0.6), (0.5, 0.5, 0.9, 1.0), (0.25, 0.0, 0.5, 0.25)]


@pytest.mark.parametrize("width", [1200, 390])
def test_boxes_are_drawn_at_the_right_positions(show: Show, width: int) -> None:
    page = show(detection(), width=width)
    assert np.allclose(boxes(page), EXPECTED, atol=0.01)
    assert names(page) == ["car 0.90", "truck 0.60", "car 0.20"]
    assert page.locator("#stage svg").get_attribute("aria-label") == "3 of 3 boxes"
    page.set_viewport_size({"width": 320, "height": 700})
    page.wait_for_function("document.getElementById('picture').clientWidth < 320")
    assert np.allclose(boxes(page), EXPECTED, atol=0.01)


def test_a_picture_with_boxes_is_not_rotated_by_exif(show: Show) -> None:
    """TensorFlow's decoder ignores EXIF, so boxes refer to the picture as it is stored."""
    page = show(detection(**{"image/encoded": picture(exif=turned())}))
    shape = page.locator("#picture").bounding_box()
    assert shape["width"] == 2 * shape["height"]
    assert page.locator("#stage svg").get_attribute("viewBox") == f"0 0 {WIDTH} {HEIGHT}"
    assert np.allclose(boxes(page), EXPECTED, atol=0.01)


def test_boxes_in_pixels(show: Show) -> None:
    scale = {"x": WIDTH, "y": HEIGHT}
    pixels = {
        name: [value * scale[name[-4]] for value in values]
        for name, values in DETECTION.items()
        if "bbox" in name
    }
    assert np.allclose(boxes(show(detection(**pixels), "&pixels=1")), EXPECTED, atol=0.01)


def test_classes_and_scores_hide_boxes(show: Show) -> None:
    page = show(detection())
    assert page.locator("#classes label").all_text_contents() == ["car2", "truck1"]
    check(page, "car")
    assert names(page) == ["truck 0.60"]
    check(page, "car")
    slide(page, 0.5)
    assert names(page) == ["car 0.90", "truck 0.60"]
    slide(page, 0.61)
    assert names(page) == ["car 0.90"]
    assert page.locator("#least").text_content() == "0.61"
    page.locator("#names").click()
    assert (names(page), len(boxes(page))) == ([], 1)
    page.locator("#overlay").click()
    assert boxes(page) == []


def test_overlays_can_be_controlled_by_keyboard(show: Show) -> None:
    page = show(detection())
    page.locator("#overlay").focus()
    page.keyboard.press("Space")
    assert boxes(page) == []
    page.keyboard.press("Space")
    page.locator("#score").focus()
    page.keyboard.press("End")
    assert boxes(page) == []


def test_colours_tell_classes_apart(show: Show) -> None:
    count = 20
    record = detection(**{name: [0.5] * count for name in DETECTION if "bbox" in name})
    record |= {"image/object/class/text": [f"class {i}" for i in range(count)]}
    del record["image/object/score"], record["image/object/class/label"]
    looks = show(record).evaluate(
        "[...document.querySelectorAll('g.box .edge')]"
        ".map((one) => one.getAttribute('stroke') + one.getAttribute('stroke-dasharray'))"
    )
    assert len(set(looks)) == count


def test_highlighted_labels(show: Show) -> None:
    page = show(detection(), "&highlight=bus;truck")
    assert page.locator("g.marked text").all_text_contents() == ["truck 0.60"]
    assert page.locator("g.dim").count() == 2


def test_a_classification_shows_its_class(show: Show) -> None:
    page = show({"image/encoded": picture(), "image/class/text": "tabby", "image/class/label": 281})
    assert page.locator("figcaption b").all_text_contents() == ["tabby"]
    assert page.locator("#controls").is_hidden()


def segmentation() -> np.ndarray[Any, Any]:
    classes = np.zeros((HEIGHT, WIDTH), np.uint8)
    classes[:, WIDTH // 2 :] = 2
    classes[HEIGHT // 2 :, WIDTH // 2 :] = 255
    return classes


def test_a_segmentation_is_coloured_by_class(show: Show) -> None:
    record = {"image/encoded": picture()}
    record["image/segmentation/class/encoded"] = encoded(segmentation())
    page = show(record)
    assert pixel(page, 0.25, 0.25)[3] == 0  # the background
    assert pixel(page, 0.75, 0.25) == (*TEAL, 255)
    assert pixel(page, 0.75, 0.75) == (*GREY, 255)
    assert page.locator("#classes label").all_text_contents() == [
        *("class 050.0 %", "class 225.0 %"),
        "class 25525.0 %",
    ]
    page.locator("#classes input").nth(1).click()
    assert pixel(page, 0.75, 0.25)[3] == 0
    page.locator("#opacity").fill("0.3")
    assert page.locator("#stage canvas").evaluate("(canvas) => canvas.style.opacity") == "0.3"


@pytest.mark.parametrize(
    ("stored", "more", "colour"),
    [
        (segmentation().tobytes(), "", (7, 8, 9)),
        ((segmentation().astype("<i4") * 1000 + 7).tobytes(), "&divisor=1000", (7, 8, 9)),
        (encoded(segmentation()[::4, ::4]), "", (7, 8, 9)),  # is enlarged to the picture's size
        (encoded(segmentation() == 2), "", (4, 5, 6)),
    ],
    ids=["uint8", "int32", "small", "one bit"],
)
def test_masks_of_other_encodings(
    show: Show, stored: bytes, more: str, colour: tuple[int, ...]
) -> None:
    page = show({"image": picture(), "m": stored}, f"&segmap=m&colormap=1,2,3;4,5,6;7,8,9{more}")
    assert pixel(page, 0.25, 0.25) == (1, 2, 3, 255)
    assert pixel(page, 0.75, 0.25) == (*colour, 255)


def test_a_palette_has_its_own_colours(show: Show) -> None:
    image = Image.fromarray(segmentation(), "P")
    image.putpalette([0, 0, 0, 10, 20, 30, 200, 100, 50] + [224, 224, 192] * 253)
    page = show({"image": picture(), "segmentation_mask": encoded(image)})
    assert pixel(page, 0.25, 0.25)[3] == 0
    assert pixel(page, 0.75, 0.25) == (200, 100, 50, 255)
    assert page.locator("#classes label").nth(1).text_content() == "#c8643225.0 %"


def test_a_mask_is_shown_and_hidden_with_its_box(show: Show) -> None:
    masks = [np.zeros((HEIGHT, WIDTH), np.uint8) for _ in range(3)]
    masks[1][HEIGHT // 2 :, WIDTH // 2 :] = 1
    page = show(detection(**{"image/object/mask": [encoded(mask) for mask in masks]}))
    colour = page.locator("g.box .edge").nth(1).get_attribute("stroke")
    assert pixel(page, 0.75, 0.75) == (*bytes.fromhex(colour[1:]), 255)
    assert pixel(page, 0.25, 0.25)[3] == 0
    check(page, "truck")
    assert pixel(page, 0.75, 0.75)[3] == 0


def test_key_points(show: Show) -> None:
    keys = {"image/object/keypoint/x": [0.5, math.nan, 0.25], "image/object/keypoint/y": [0.5] * 3}
    page = show(detection(**keys))
    places = page.evaluate(
        "[...document.querySelectorAll('#stage circle')]"
        ".map((one) => [one.cx.baseVal.value, one.cy.baseVal.value])"
    )
    assert places == [[WIDTH / 2, HEIGHT / 2], [WIDTH / 4, HEIGHT / 2]]
    check(page, "car")  # the boxes 0 and 2
    assert page.locator("#stage circle").count() == 0


def test_the_overlay_parameter_selects_the_first_layer(show: Show) -> None:
    page = show(detection(segmentation_mask=encoded(segmentation())), "&overlay=")
    assert (len(boxes(page)), page.locator("#stage canvas").is_visible()) == (3, True)
    begin = page.url
    for overlay, expected in (
        ("detection", (3, False)),
        ("segmentation", (0, True)),
        ("none", (0, False)),
    ):
        page.goto(begin + overlay)
        page.locator("#stage svg[data-state=drawn]").wait_for()
        found = len(boxes(page)), page.locator("#stage canvas").is_visible()
        assert found == expected, overlay


def test_the_form_changes_the_roles_of_features(show: Show) -> None:
    page = show(detection(other=["a", "b", "c"]))
    page.locator(".roles summary").click()
    assert (
        page.locator("input[name=label]").get_attribute("placeholder") == "image/object/class/text"
    )
    page.locator("input[name=label]").fill("other")
    page.locator(".roles button").click()
    page.locator("#stage svg[data-state=drawn]").wait_for()
    assert names(page) == ["a 0.90", "b 0.60", "c 0.20"]
    assert "label=other" in page.url
    page.locator("a", has_text="Guess again").click()
    page.locator("#stage svg[data-state=drawn]").wait_for()
    assert names(page)[0] == "car 0.90"


def test_hostile_names_are_shown_as_text(show: Show) -> None:
    evil = '</script><svg onload="document.title=1">'
    record = detection(**{"image/object/class/text": [evil] * 3, evil: [evil]})
    page = show(record)
    assert names(page)[0] == f"{evil} 0.90"
    assert page.locator("#classes span").text_content() == evil
    assert page.locator("[onload]").count() == 0
    assert page.title() != "1"


def test_hostile_boxes_stay_on_the_picture(show: Show) -> None:
    rows = {"xmin": [-5.0, 1e30, 0.9], "ymin": [-5.0, -1e30, 0.9], "xmax": [9.0, 2e30, 0.1]}
    record = detection(**{f"image/object/bbox/{side}": row for side, row in rows.items()})
    record |= {"image/object/bbox/ymax": [9.0, math.nan, 0.1]}
    page = show(record, "&pixels=0")
    assert [names(page)[0], len(boxes(page))] == ["car 0.90", 2]
    assert np.allclose(boxes(page)[1], (0.1, 0.1, 0.9, 0.9), atol=0.01)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_mask_with_too_many_pixels_is_reported(show: Show) -> None:
    bomb = bytearray(encoded(np.zeros((1, 1), np.uint8)))
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2
    page = show(detection(segmentation_mask=bytes(bomb)))
    assert "A mask has too many pixels." in page.locator("#told").text_content()
    assert len(boxes(page)) == 3


def test_a_broken_picture_is_reported(tmp_path: Path, serve: Serve, tabs: Tabs) -> None:
    record = from_dict(detection(**{"image/encoded": b"\xff\xd8\xff\xe0 no picture"}))
    page = tabs.open(
        serve(write(tmp_path / "x.tfrecord", record.SerializeToString())), "/item?key=0"
    )
    page.locator("#told", has_text="The browser cannot show this picture.").wait_for()


def test_tiles_have_boxes(tmp_path: Path, serve: Serve, tabs: Tabs) -> None:
    plain = {"image/encoded": picture(), "image/class/text": "tabby"}
    page = tabs.open(serve(write(tmp_path / "x.tfrecord", detection(), plain)))
    page.locator(".tile svg rect").first.wait_for(state="attached")
    parts = page.evaluate(
        """() => {
          const image = document.querySelector(".tile img").getBoundingClientRect();
          return [...document.querySelectorAll(".tile svg rect:nth-child(2n)")].map((rect) => {
            const one = rect.getBoundingClientRect();
            return [one.left - image.left, one.top - image.top, one.right - image.left,
              one.bottom - image.top].map((side) => side / image.width);
          });
        }"""
    )
    ratio, margin = HEIGHT / WIDTH, (1 - HEIGHT / WIDTH) / 2  # the thumbnail is in a square
    square = [
        [x, margin + y * ratio, right, margin + bottom * ratio] for x, y, right, bottom in EXPECTED
    ]
    assert np.allclose(parts, square, atol=0.02)
    assert page.locator(".tile svg").count() == 1
