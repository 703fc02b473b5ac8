"""Boxes over thumbnails in the gallery."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.view.browser.conftest import Tabs
from tests.view.conftest import Serve
from tests.view.examples import HEIGHT, WIDTH, detection, picture, write


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
    expected = [[0.1, 0.2, 0.4, 0.6], [0.5, 0.5, 0.9, 1.0], [0.25, 0.0, 0.5, 0.25]]
    square = [
        [x, margin + y * ratio, right, margin + bottom * ratio] for x, y, right, bottom in expected
    ]
    assert np.allclose(parts, square, atol=0.02)
    assert page.locator(".tile svg").count() == 1
