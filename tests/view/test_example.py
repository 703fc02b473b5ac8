"""The page of an Example or SequenceExample: its features, its bytes, what is wrong with it; and
the boxes over its thumbnail.
"""

from __future__ import annotations

import base64
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ffrfs.errors import PathNotFoundError
from ffrfs.tfrecord import from_dict, serialize_tensor
from ffrfs.view.features import feature_bytes
from tests.checkout import CHECKOUT
from tests.tfrecord_example import example, floats
from tests.view.conftest import Serve
from tests.view.examples import DETECTION, HEIGHT, WIDTH, detection, picture, turned, write
from tests.view.pages import Pages

TFDS = CHECKOUT / "tests/golden/tfds/1.0.0"
EXPECTED = [[0.1, 0.2, 0.4, 0.6], [0.5, 0.5, 0.9, 1.0], [0.25, 0.0, 0.5, 0.25]]
SCALES = {"x": WIDTH, "y": HEIGHT}


def rows(page: dict[str, Any]) -> dict[str, Any]:
    return {row["name"]: row for row in page["rows"]}


def test_features_are_rows(tmp_path: Path, serve: Serve) -> None:
    values = {"many": np.arange(1212), "half": [0.5, float("nan")], "none": None, "text": "Grüße"}
    pages = serve(write(tmp_path / "x.tfrecord", values))
    page = pages.data("/item", key=0)
    found = rows(page)
    assert (page["kind"], list(found)) == ("Example", ["half", "many", "none", "text"])
    assert found["many"]["count"] == 1212
    assert found["many"]["values"] == list(range(1212))
    assert found["half"]["values"] == [0.5, "nan"]
    assert (found["none"]["kind"], found["none"]["values"]) == ("none", [])
    (text,) = found["text"]["values"]
    assert (text["what"], text["text"]) == ("text", "Grüße")
    assert base64.b64decode(text["base64"]).decode() == "Grüße"
    shown = pages.get("/item", key=0).text
    assert "0, 1, 2, 3, 4, 5, 6, 7" in shown
    assert "… 1,204 more" in shown
    assert "1210, 1211" in shown


def test_bytes_are_shown_by_their_content(tmp_path: Path, serve: Serve) -> None:
    many = b"\x08\x01\x12\x08\x12\x06\x08\xff\xff\xff\xff\x07"  # a tensor of 8 GiB in 12 bytes
    values = {
        "picture": picture(),
        "sound": b"RIFF\x24\0\0\0WAVEfmt ",
        "tensor": serialize_tensor(np.arange(12, dtype=np.float32).reshape(3, 4)),
        "large": many,
        "zlib": zlib.compress(b"hello"),
        "bomb": zlib.compress(b"\0" * 10_000_000),
        "hex": b"\xff\xfe\x00\x01",
        "html": b"<html><script>alert(1)</script>",
    }
    page = serve(write(tmp_path / "x.tfrecord", values)).data("/item", key=0)
    found = {
        name: (row["values"][0]["what"], row["values"][0]["text"])
        for name, row in rows(page).items()
    }
    assert found == {
        "picture": ("image", "JPEG"),
        "sound": ("audio", "WAV"),
        "tensor": ("tensor", "float32 (3, 4): 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0 …"),
        "large": ("tensor", "float32 (2147483647,)"),
        "zlib": ("compressed", "zlib of 'hello'"),
        "bomb": ("compressed", f"zlib of {' '.join(['00'] * 32)} …"),
        "hex": ("bytes", "ff fe 00 01"),
        "html": ("text", "<html><script>alert(1)</script>"),
    }


def test_the_bytes_of_a_feature(tmp_path: Path, serve: Serve) -> None:
    pages = serve(write(tmp_path / "x.tfrecord", detection(page=["<b>", "two"])))
    answer = pages.get("/bytes", key=0, feature="image/encoded")
    assert (answer.status, answer.body) == (200, picture())
    assert answer.headers["content-type"] == "image/jpeg"
    second = pages.get("/bytes", key=0, feature="page", index=1)
    assert (second.status, second.body) == (200, b"two")
    assert second.headers["content-disposition"].startswith("attachment")
    for feature, index in (("page", 2), ("x", 0), ("image/object/score", 0)):
        assert pages.get("/bytes", key=0, feature=feature, index=index).status == 404


def test_bytes_of_a_step() -> None:
    lists = {"a": [[b"1", b"2"], None, [7], [b"3"]], "a[3]": [[b"4"]]}
    record = from_dict({"context": {"a": b"0"}, "feature_lists": lists}).SerializeToString()
    places = {
        ("context/a", 0): b"0",
        ("feature_lists/a[0]", 1): b"2",
        ("feature_lists/a[3]", 0): b"3",
        ("feature_lists/a[3][0]", 0): b"4",
    }
    assert {place: feature_bytes(record, *place) for place in places} == places
    for feature, index in (
        *(("feature_lists/a[0]", 2), ("feature_lists/a[1]", 0), ("feature_lists/a[2]", 0)),
        *(("feature_lists/a[4]", 0), ("feature_lists/a[03]", 0), ("feature_lists/a", 0)),
        *(("a", 0), ("feature_lists/a[0]", -1)),
    ):
        with pytest.raises(PathNotFoundError, match="the record has no bytes"):
            feature_bytes(record, feature, index)


def test_steps_of_a_sequence(tmp_path: Path, serve: Serve) -> None:
    record = {"context": {"id": "clip"}, "feature_lists": {"f": [[1, 2], [3]], "g": [["x"]]}}
    pages = serve(write(tmp_path / "x.tfrecord", record))
    page = pages.data("/item", key=0, step=1)
    found = rows(page)
    assert (page["kind"], page["step_count"]) == ("SequenceExample", 2)
    assert list(found) == ["context/id", "feature_lists/f", "feature_lists/g"]
    first, second = found["feature_lists/f"], found["feature_lists/g"]
    assert (first["values"], first["steps"]) == ([3], [[1, 2], [3]])
    assert (second["values"], second["step_count"]) == ([], 1)
    shown = pages.get("/item", key=0, step=1).text
    assert "step=0" in shown
    assert "step=2" not in shown


def test_a_tfds_directory_adds_declared_types_and_class_names(serve: Serve) -> None:
    found = rows(serve(TFDS).data("/item", key=0))
    assert found["box"]["declared"].startswith("BBoxFeature float32 (4,)")
    (number,) = found["label"]["values"]
    assert found["label"]["declared"] == "ClassLabel int64"
    assert found["label"]["classes"] == [["cat", "dog"][number]]


def test_a_damaged_declaration_is_a_note(tmp_path: Path, serve: Serve) -> None:
    folder = shutil.copytree(TFDS, tmp_path / "tfds")
    (folder / "features.json").write_text("{")
    pages = serve(folder)
    page = pages.data("/item", key=0)
    assert [note for note in page["notes"] if "features.json: not JSON" in note] == page["notes"]
    assert page["rows"]
    assert pages.get("/boxes", key=0).status == 200


def test_facts_give_the_offset_and_commands_read_the_record(tmp_path: Path, serve: Serve) -> None:
    file = write(tmp_path / "a b.tfrecord", {"x": 1}, {"x": 2}, {"x": 3})
    pages = serve(file)
    page = pages.data("/item", key=1)
    record = from_dict({"x": 2}).SerializeToString()
    assert page["facts"] == {
        "pack": str(file),
        "record": 1,
        "offset": len(record) + 16,
        "size": len(record),
        "checksum": None,
    }
    assert (page["previous"], page["next"]) == ("0", "2")
    assert page["commands"]["shell"] == f"ffrfs cat --example '{file}' 1"
    names: dict[str, Any] = {}
    exec(page["commands"]["python"], names)
    assert names["example"] == from_dict({"x": 2})
    shown = pages.get("/item", key=1, image="none").text
    assert '<a class="button" rel="prev" href="/item?key=0&amp;image=none">' in shown
    assert '<a class="button" rel="next" href="/item?key=2&amp;image=none">' in shown
    assert pages.get("/item", key=3).status == 404
    assert pages.get("/item").status == 404


def test_names_and_texts_are_escaped(tmp_path: Path, serve: Serve) -> None:
    evil = '</script><img src=x onerror="alert(1)">'
    record = detection(**{evil: [evil], "image/object/class/text": [evil] * 3})
    record["image/filename"] = evil
    pages = serve(write(tmp_path / "x.tfrecord", record))
    shown = pages.get("/item", key=0, label=evil, colormap=evil, image=evil).text
    shown += pages.get("/item", key=0).text
    assert evil not in shown
    assert "<img src=x" not in shown
    assert pages.data("/item", key=0)["drawn"]["boxes"][0]["label"] == evil


def test_a_record_that_is_not_an_example_is_shown_in_hex(tmp_path: Path, serve: Serve) -> None:
    pages = serve(write(tmp_path / "x.tfrecord", b"\x0bno <Example> at all" + bytes(5000), {}))
    answer = pages.get("/item", key=0)
    assert answer.status == 200
    assert "This record is no Example" in answer.text
    assert "0b 6e 6f 20 3c 45" in answer.text
    assert len(answer.body) < 20_000
    assert pages.data("/item", key=0)["kind"] is None
    assert pages.data("/item", key=1)["rows"] == []


def test_a_damaged_record(tmp_path: Path, serve: Serve) -> None:
    file = write(tmp_path / "x.tfrecord", {"x": 1}, {"x": b"payload"}, {"x": 3})
    file.write_bytes(file.read_bytes().replace(b"payload", b"PAYLOAD"))
    pages = serve(file)
    answer = pages.get("/item", key=1)
    damage = pages.ask("/item?key=1&format=json", headers={"Cookie": pages.cookie}).json["damage"]
    assert answer.status == 500
    assert str(file) in damage
    assert "record 1" in damage
    assert "\n" not in damage
    assert "PAYLOAD" not in answer.text
    assert 'rel="next" href="/item?key=2"' in answer.text
    assert "All bytes matched just now" not in answer.text
    assert "All bytes matched just now" in pages.get("/item", key=2).text


def test_large_records_have_small_pages(tmp_path: Path, serve: Serve) -> None:
    boxes = {"objects/bbox": floats(bytes(1_000_000 * 4 * 4))}
    few = {name: value for name, value in detection().items() if "bbox" not in name}
    many = from_dict(few).SerializeToString() + example(**boxes)  # protobuf merges the two messages
    names = {f"f{number}": [1] * 100 for number in range(600)}
    steps = {"feature_lists": {"f": [[1]] * 20_000}, "context": {}}
    pages = serve(write(tmp_path / "x.tfrecord", many, names, steps))
    first = pages.get("/item", key=0)
    assert "Only the first 1,000 of 1,000,000 boxes are drawn." in first.text
    assert len(first.body) < 400_000
    assert "There are 3 labels for 1,000,000 boxes: none is shown." in first.text
    second = pages.get("/item", key=1)
    assert "The first 500 of 600 features are shown." in second.text
    assert len(second.body) < 600_000
    third = pages.data("/item", key=2, step=10**10)
    (row,) = third["rows"]
    assert (row["step_count"], len(row["steps"]), third["step"]) == (20_000, 100, 19_999)


def test_a_record_that_is_too_large_is_not_parsed(tmp_path: Path, serve: Serve) -> None:
    """Parsing could take thirty times its size in memory; its bytes can still be downloaded."""
    pages = serve(write(tmp_path / "x.tfrecord", {"a": bytes(33 << 20)}))
    answer = pages.get("/item", key=0)
    assert answer.status == 500
    assert "pages show the features of Examples of at most 32 MiB" in answer.text
    assert "damaged" not in answer.text.lower() and "Not checked" in answer.text
    assert "too large" in pages.get("/bytes", key=0, feature="a").text
    assert len(pages.get("/bytes", key=0).body) > 33 << 20


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


def test_files_have_no_tile_boxes(pages: Pages) -> None:
    assert pages.get("/boxes", key="a").status == 404
