"""Which features annotate a picture, and what the browser receives to draw."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest

from ffrfs.tfrecord import from_dict
from ffrfs.view.annotations import BOXES_MAX, MASKS_MAX, Annotations, annotate
from ffrfs.view.features import columns
from ffrfs.view.thumbnails import picture_of
from tests.view.examples import DETECTION, detection, encoded, picture

MASK = encoded(np.zeros((2, 2), np.uint8))
SIDES = ("xmin", "ymin", "xmax", "ymax")


def marked(
    values: dict[str, Any], names: dict[str, list[str]] | None = None, **given: str
) -> Annotations:
    found = {column.name: column for column in columns(from_dict(values))}
    return annotate(found, given, lambda name, index: f"{name}#{index}", names or {})


def boxes(found: Annotations) -> list[tuple[list[float], str]]:
    return [(box["at"], box["label"]) for box in found.drawn["boxes"]]


def sides(*rows: list[float]) -> dict[str, Any]:
    return {
        f"image/object/bbox/{side}": np.array([row[i] for row in rows], np.float32)
        for i, side in enumerate(SIDES)
    }


def test_feature_names_of_object_detection() -> None:
    found = marked(detection(**{"image/object/mask": [MASK] * 3}))
    assert boxes(found) == [
        ([0.1, 0.2, 0.4, 0.6], "car"),
        ([0.5, 0.5, 0.9, 1.0], "truck"),
        ([0.25, 0.0, 0.5, 0.25], "car"),
    ]
    assert [box["score"] for box in found.drawn["boxes"]] == pytest.approx([0.9, 0.6, 0.2])
    assert found.drawn["picture"] == "image/encoded#0"
    assert found.drawn["masks"] == [f"image/object/mask#{index}" for index in range(3)]
    assert (found.title, found.notes, found.drawn["pixels"]) == ("street.jpg", [], False)


def test_feature_names_of_tfds_and_its_classes() -> None:
    values = {
        "image": picture(),
        "objects/bbox": [0.2, 0.1, 0.6, 0.4],
        "objects/label": [1],
        "label": 0,
        "segmentation_mask": MASK,
    }
    found = marked(values, {"objects/label": ["cat", "dog"], "label": ["indoor"]})
    assert boxes(found) == [([0.1, 0.2, 0.4, 0.6], "dog")]  # ymin comes first
    assert (found.classes, found.drawn["segmap"]) == (["indoor"], "segmentation_mask#0")


def test_feature_names_of_slim() -> None:
    values = {"image/encoded": picture(), "image/class/label": 281, "image/class/text": "tabby"}
    assert marked(values).classes == ["tabby"]
    assert marked(values, **{"class": "image/class/label"}).classes == ["281"]


def test_a_sequence_has_the_annotations_of_a_step() -> None:
    message = from_dict(
        {
            "context": {"label": 7},
            "feature_lists": {
                "image/encoded": [picture(), picture()],
                **{f"region/bbox/{side}": [[0.1], [0.2, 0.5]] for side in SIDES},
            },
        }
    )
    found = annotate(
        {one.name: one for one in columns(message, 1)}, {}, lambda name, at: f"{name}#{at}", {}
    )
    assert found.drawn["picture"] == "feature_lists/image/encoded[1]#0"
    assert len(found.drawn["boxes"]) == 2
    assert found.classes == ["7"]


def test_a_picture_is_found_by_its_bytes() -> None:
    values = {"bild": picture(), "maske": MASK, "mask": MASK, "image": b"no picture"}
    assert marked(values).drawn["picture"] == "bild#0"
    assert marked(values, image="maske").drawn["picture"] == "maske#0"
    assert marked(values, image="-").drawn["picture"] is None


def test_a_thumbnail_shows_the_annotated_picture() -> None:
    values = {"depth": MASK, "image/encoded": picture(), "annotation/seg": MASK}
    assert picture_of(from_dict(values).SerializeToString()) == picture()
    sequence = from_dict({"context": {"a": MASK}, "feature_lists": {"image": [[picture()]]}})
    assert picture_of(sequence.SerializeToString()) == picture()
    assert picture_of(from_dict({"x": [b"", b"II*\0"]}).SerializeToString()) == b"II*\0"
    assert picture_of(from_dict({"x": 1}).SerializeToString()) is None
    assert picture_of(b"\xff") is None


def test_many_feature_names_are_searched_quickly() -> None:
    names = {f"{number:06}": [1] for number in range(20_000)}
    found = {one.name: one for one in columns(from_dict({**names, "x/confidence": [0.5]}))}
    begin_s = time.process_time()
    chosen = annotate(found, {"score": "x/confidence"}, lambda *_: "", {}).features
    assert chosen == {"score": "x/confidence"}  # found, though not among the first names
    assert annotate(found, {}, lambda *_: "", {}).features == {}
    assert time.process_time() - begin_s < 5


def test_parameters_select_features() -> None:
    values = {"a": [0.5], "b": [0.75], "c": [1.0], "d": [2.0], "n": ["x"], "s": [0.5]}
    found = marked(values, xmin="a", ymin="b", xmax="c", ymax="d", label="n", score="s")
    assert boxes(found) == [([0.5, 0.75, 1.0, 2.0], "x")]
    assert found.drawn["boxes"][0]["score"] == 0.5
    missing = marked(values, image="<b>", xmin="n")
    assert missing.drawn["picture"] is None
    assert ["<b>" in note or "'n'" in note for note in missing.notes] == [True, True]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("", [2, 1, 4, 3]), ("xyxy", [1, 2, 3, 4]), ("xywh", [1, 2, 4, 6]), ("bad", [2, 1, 4, 3])],
)
def test_the_order_of_four_numbers(order: str, expected: list[float]) -> None:
    found = marked({"objects/bbox": [1.0, 2.0, 3.0, 4.0]}, order=order)
    assert boxes(found) == [(expected, "")]


def test_pixel_units_are_guessed_or_set_by_a_parameter() -> None:
    pixels = sides([10, 20, 110, 90], [1, 1, 2, 2], [5, 5, 50, 50])
    parts = sides([0, 0, 1, 1], [0, 0, 0.5, 1.1], [0, 0, 1e9, 1e9])
    assert marked(pixels).drawn["pixels"] is True
    assert marked(parts).drawn["pixels"] is False  # one wrong box changes nothing
    assert marked(parts, pixels="1").drawn["pixels"] is True
    assert marked(pixels, pixels="0").drawn["pixels"] is False


def test_boxes_with_nan_or_infinite_sides_are_not_drawn() -> None:
    rows = [[0, 0, 1, 1], [math.nan, 0, 1, 1], [0, math.inf, 1, 1], [-1, -1, -2, -2]]
    found = marked(
        {
            **sides(*rows),
            "image/object/class/text": list("abcd"),
            "image/object/score": [math.nan] * 4,
        }
    )
    assert boxes(found) == [([0, 0, 1, 1], "a"), ([-1, -1, -2, -2], "d")]
    assert [box["index"] for box in found.drawn["boxes"]] == [0, 3]
    assert [box["score"] for box in found.drawn["boxes"]] == [None, None]
    assert found.notes == [
        "Boxes with a side that is no finite number: 2.",
        "Boxes with a minimum above their maximum: 1.",
    ]


def test_infinite_boxes_in_another_order_are_reported() -> None:
    found = marked({"bbox": [math.inf, 0.0, -math.inf, 0.0]}, order="xywh")
    assert found.notes == ["Boxes with a side that is no finite number: 1."]


def test_counts_that_differ_are_reported() -> None:
    found = marked({**sides([0, 0, 1, 1], [0, 0, 1, 1]), "image/object/class/text": ["one"]})
    assert boxes(found) == [([0, 0, 1, 1], "")] * 2
    assert found.notes == ["There are 1 labels for 2 boxes: none is shown."]
    uneven = marked({**DETECTION, "image/object/bbox/xmin": [0.5, 0.5]})
    assert len(uneven.drawn["boxes"]) == 2
    assert "The sides of the boxes are 2 to 3 values." in uneven.notes
    assert marked({"bbox": [1.0] * 6}).notes == [
        "The boxes have 6 values, which is no multiple of 4."
    ]


def test_counts_have_limits() -> None:
    count = 10_000
    found = marked(
        {
            "objects/bbox": np.zeros(4 * count, np.float32),
            "objects/label": np.ones(count, np.int64),
            "objects/mask": [b""] * (MASKS_MAX + 1),
        }
    )
    assert len(found.drawn["boxes"]) == BOXES_MAX
    assert found.notes == ["Only the first 1,000 of 10,000 boxes are drawn."]
    assert len(found.drawn["masks"]) == MASKS_MAX


def test_key_points_belong_to_boxes() -> None:
    keys = {"image/object/keypoint/x": [0.1, 0.2, math.nan, 0.4, 0.5, 0.6]}
    keys["image/object/keypoint/y"] = [0.5] * 6
    points = [[0.1, 0.5, 0], [0.2, 0.5, 0], [0.4, 0.5, 1], [0.5, 0.5, 2], [0.6, 0.5, 2]]
    assert marked({**DETECTION, **keys}).drawn["points"] == points
    assert [point[2] for point in marked(keys).drawn["points"]] == [-1] * 5
    keys["image/object/keypoint/y"] = [0.5]
    assert marked(keys).notes == ["The key points have 6 x and 1 y."]


def test_label_texts_are_cut_and_valid_utf8() -> None:
    found = marked({**sides([0, 0, 1, 1]), "image/object/class/text": [b"\xff<i>" + b"x" * 5000]})
    assert boxes(found)[0][1] == "\ufffd<i>" + "x" * 96
