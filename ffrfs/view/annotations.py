"""Annotations: which features of an Example are its picture, boxes, labels, masks and key points.

They are guessed by names and kinds, as TensorFlow's Object Detection API, TF-Slim, TFDS, Open
Images and MediaPipe write them; parameters of the page's URL override the guesses. The browser
(static/overlay.js) draws the result of annotate(): numbers and texts, never HTML.

Values are hostile: values that are not numbers are left out and counted, and all counts have
limits. Stateless; any thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ffrfs.view.features import Column
from ffrfs.view.safe_bytes import safe_type

Values: TypeAlias = Mapping[str, Sequence[Any]]  # by role: all are bytes, or all are numbers

BOXES_MAX = 1000
MASKS_MAX = 100
POINTS_MAX = 10_000
_NAMES_MAX = 10_000  # among which features are guessed
_TEXT_SIZE_MAX = 100
_CLASSES_MAX = 20
_NO_FEATURE = "-"
_SIDES = ("xmin", "ymin", "xmax", "ymax")

# The roles of features: for each its kind, and names in the order in which they are tried.
_ROLES = {
    "image": ("bytes", "image/encoded image image/data jpeg jpg png *image/encoded *image"),
    "filename": ("bytes", "image/filename filename file_name image/file_name fname __key__"),
    "class": (
        "any",
        "image/class/text class/text image/class/label label class class_name image/label/string",
    ),
    **{side: ("number", f"image/object/bbox/{side} *bbox/{side} {side}") for side in _SIDES},
    "box": ("number", "objects/bbox bobjects/bbox image/object/bbox objects/boxes bbox *bbox"),
    "label": (
        "any",
        "image/object/class/text image/object/class/label objects/label bobjects/label "
        "objects/class region/label/string bbox/label *object/label *objects/label",
    ),
    "score": ("number", "image/object/score image/object/class/score *objects/score *confidence"),
    "mask": ("bytes", "image/object/mask objects/mask"),
    "segmap": (
        "bytes",
        "image/segmentation/class/encoded segmentation_mask segmentation_label segmentation_map "
        "*segmentation/encoded *segmentation_mask segmentation mask",
    ),
    "keypoint_x": ("number", "image/object/keypoint/x *keypoint/x *keypoints/x"),
    "keypoint_y": ("number", "image/object/keypoint/y *keypoint/y *keypoints/y"),
}
# The parameters; overlay.js reads those from `divisor` on.
ROLES = tuple(_ROLES)
PARAMETERS = (*ROLES, "pixels", "order", "divisor", "colormap", "highlight", "overlay")
_ORDERS = {"yxyx": (1, 0, 3, 2), "xyxy": (0, 1, 2, 3), "xywh": (0, 1, 2, 3)}


class Annotations(NamedTuple):
    features: dict[str, str]  # by role
    title: str | None
    classes: list[str]  # of the whole picture
    drawn: dict[str, Any]
    notes: list[str]  # annotations that are not drawn, and why


def annotate(
    columns: Mapping[str, Column],
    given: Mapping[str, str],
    url: Callable[[str, int], str],
    class_names: Mapping[str, Sequence[str]],
) -> Annotations:
    """Return what to draw over a picture.

    `given`: parameters of PARAMETERS. `url`: where a feature's value with an index is.
    """
    notes: list[str] = []
    features = _choose(columns, given, notes)
    used = {role: columns[name].values for role, name in features.items()}

    def urls(role: str, count: int) -> list[str]:
        numbers = range(min(count, len(used.get(role, ()))))
        return [url(columns[features[role]].path, number) for number in numbers]

    def texts(role: str, values: Sequence[Any]) -> list[str]:
        names = class_names.get(features.get(role, ""), ())
        return [_text(value, names) for value in values]

    boxes, count = _boxes(used, given.get("order", ""), notes)
    labels = texts("label", _per_box("label", used, count, notes))
    scores = _per_box("score", used, count, notes)
    is_finite = np.isfinite(boxes).all(axis=1)
    sound = boxes[is_finite]
    drawn = {
        "picture": next(iter(urls("image", 1)), None),
        "segmap": next(iter(urls("segmap", 1)), None),
        "masks": urls("mask", MASKS_MAX),
        "boxes": [
            {
                "at": [round(side, 5) for side in boxes[index].tolist()],
                "index": index,
                "label": labels[index] if labels else "",
                "score": scores[index] if scores and math.isfinite(scores[index]) else None,
            }
            for index in np.flatnonzero(is_finite).tolist()
        ],
        "pixels": _is_pixels(sound, given.get("pixels", "")),
        "points": _points(used, count, notes),
    }
    if count > len(boxes):
        notes.append(f"Only the first {len(boxes):,} of {count:,} boxes are drawn.")
    if len(boxes) > len(sound):
        notes.append(f"Boxes with a side that is no finite number: {len(boxes) - len(sound):,}.")
    if inverted := int((sound[:, :2] > sound[:, 2:]).any(axis=1).sum()):
        notes.append(f"Boxes with a minimum above their maximum: {inverted:,}.")
    title = next(iter(texts("filename", used.get("filename", [])[:1])), None)
    classes = texts("class", used.get("class", [])[:_CLASSES_MAX])
    return Annotations(features, title, classes, drawn, notes)


def picture_feature(columns: Mapping[str, Column]) -> str | None:
    """Return the name of the feature that is the picture, as far as it can be guessed."""
    return _choose(columns, {}, []).get("image")


def _choose(
    columns: Mapping[str, Column], given: Mapping[str, str], notes: list[str]
) -> dict[str, str]:
    chosen: dict[str, str] = {}
    values = {name: column.values for name, column in columns.items() if len(column.values)}
    guessed = dict(islice(values.items(), _NAMES_MAX))
    for role, (kind, patterns) in _ROLES.items():
        if wanted := given.get(role):
            if wanted in values and _is(kind, values[wanted][0]):
                chosen[role] = wanted
            elif wanted != _NO_FEATURE:
                notes.append(f"{role}: the record has no such values in a feature {wanted!r}.")
            continue
        fit = [name for name, found in guessed.items() if _is(kind, found[0])]
        if role in ("image", "segmap"):
            fit = [name for name in fit if _is_picture(values[name][0])]
        name = _first(patterns.split(), fit)
        if role == "image" and name is None:
            name = next((one for one in fit if "mask" not in one and "seg" not in one), None)
        if name is not None and name not in chosen.values():
            chosen[role] = name
    return chosen


def _is(kind: str, value: object) -> bool:
    return kind == "any" or isinstance(value, bytes) == (kind == "bytes")


def _is_picture(value: bytes) -> bool:
    return (safe_type("", value[:32]) or "").startswith("image/")


def _first(patterns: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the name that fits the first of the patterns that any name fits, or None.

    Patterns leave out the part of a SequenceExample with which a name begins. `*`, which is only
    their first character, stands for any text.
    """
    plain = {name.removeprefix("context/").removeprefix("feature_lists/"): name for name in names}
    for pattern in patterns:
        if pattern in plain:
            return plain[pattern]
        end = pattern.removeprefix("*")
        found = next((one for one in plain if one.endswith(end)), None) if end != pattern else None
        if found is not None:
            return plain[found]
    return None


def _boxes(used: Values, order: str, notes: list[str]) -> tuple[NDArray[np.float64], int]:
    """Return xmin, ymin, xmax, ymax of the first boxes, and how many there are."""
    if all(side in used for side in _SIDES):
        counts = {len(used[side]) for side in _SIDES}
        if len(counts) > 1:
            notes.append(f"The sides of the boxes are {min(counts):,} to {max(counts):,} values.")
        first = min(*counts, BOXES_MAX)
        rows = np.array([used[side][:first] for side in _SIDES], np.float64).T
        return rows.reshape(-1, 4), min(counts)
    flat = used.get("box", [])
    if len(flat) % 4:
        notes.append(f"The boxes have {len(flat):,} values, which is no multiple of 4.")
    count = len(flat) // 4
    rows = np.array(flat[: 4 * min(count, BOXES_MAX)], np.float64).reshape(-1, 4)
    rows = rows[:, _ORDERS.get(order, _ORDERS["yxyx"])]
    if order == "xywh":
        with np.errstate(invalid="ignore"):
            rows[:, 2:] += rows[:, :2]
    return rows, count


def _per_box(role: str, used: Values, count: int, notes: list[str]) -> list[Any]:
    """Return the values of the boxes, or none if their number differs."""
    found = used.get(role, [])
    if not count or not len(found):
        return []
    if len(found) != count:
        notes.append(f"There are {len(found):,} {role}s for {count:,} boxes: none is shown.")
        return []
    return list(found[:BOXES_MAX])


def _points(used: Values, box_count: int, notes: list[str]) -> list[list[float]]:
    """Return x, y and the number of its box, for key points that are numbers."""
    x, y = used.get("keypoint_x", []), used.get("keypoint_y", [])
    if len(x) != len(y):
        notes.append(f"The key points have {len(x):,} x and {len(y):,} y.")
    count = min(len(x), len(y))
    if count > POINTS_MAX:
        notes.append(f"Only the first {POINTS_MAX:,} of {count:,} key points are drawn.")
    each = count // box_count if box_count and count % box_count == 0 else 0
    return [
        [round(left, 5), round(top, 5), number // each if each else -1]
        for number, (left, top) in enumerate(zip(x[:POINTS_MAX], y[:POINTS_MAX], strict=False))
        if number < count and math.isfinite(left) and math.isfinite(top)
    ]


def _is_pixels(boxes: NDArray[np.float64], given: str) -> bool:
    """Return whether boxes are in pixels: a guess by the median, which no single box changes."""
    if given in ("0", "1"):
        return given == "1"
    return len(boxes) > 0 and float(np.median(boxes.max(axis=1))) > 2


def _text(value: bytes | float, names: Sequence[str]) -> str:
    if isinstance(value, bytes):
        return value[:_TEXT_SIZE_MAX].decode(errors="replace")
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else str(value)
