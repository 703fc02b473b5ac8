"""The boxes over the thumbnail of an Example."""

from __future__ import annotations

from pathlib import Path

import pytest

import ffrfs
from tests.view.conftest import Serve
from tests.view.examples import DETECTION, HEIGHT, WIDTH, detection, picture, turned, write

EXPECTED = [[0.1, 0.2, 0.4, 0.6], [0.5, 0.5, 0.9, 1.0], [0.25, 0.0, 0.5, 0.25]]
SCALES = {"x": WIDTH, "y": HEIGHT}


def test_box_coordinates_are_fractions_of_the_sides(tmp_path: Path, serve: Serve) -> None:
    pixels = {
        name: [value * SCALES[name[-4]] for value in values]
        for name, values in DETECTION.items()
        if "bbox" in name
    }
    sides = {"image/width": WIDTH, "image/height": HEIGHT}
    texts = {name: str(side).encode() for name, side in sides.items()}
    unknown = (detection(**pixels), detection(**pixels, **texts), {"x": 1}, b"\xff")
    records = (detection(), detection(**pixels, **sides), *unknown)
    pages = serve(write(tmp_path / "x.tfrecord", *records))
    for key in (0, 1):
        found = pages.data("/boxes", key=key)["boxes"]
        assert [at for at, _ in found] == [pytest.approx(box) for box in EXPECTED]
        assert [label for _, label in found] == ["car", "truck", "car"]
    # Without the picture's width and height, boxes in pixels have no known place.
    assert [pages.data("/boxes", key=key)["boxes"] for key in (2, 3, 4, 5)] == [[]] * 4
    assert pages.get("/boxes", key=6).status == 404


def test_a_picture_rotated_by_exif_has_no_tile_boxes(tmp_path: Path, serve: Serve) -> None:
    record = detection(**{"image/encoded": picture(exif=turned())})
    assert serve(write(tmp_path / "x.tfrecord", record)).data("/boxes", key=0) == {"boxes": []}


def test_files_have_no_tile_boxes(tmp_path: Path, serve: Serve) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/a.jpg").write_bytes(picture())
    ffrfs.pack_folder(tmp_path / "folder", tmp_path / "x.ffr")
    assert serve(tmp_path / "x.ffr").get("/boxes", key="a.jpg").status == 404
