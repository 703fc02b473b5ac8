"""Files that a child process decodes: arrays, tensors, Parquet tables."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ffrfs.view import sandbox
from tests.ffrecord_file import write_folder
from tests.view.conftest import Serve, ViewOf
from tests.view.examples import npy

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

GREY = np.arange(20 * 30).reshape(20, 30)
COLOURS = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)


def npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def pixels(shown: Any) -> np.ndarray:
    begin, _, data = shown["image"].partition(",")
    assert begin == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_a_row_of_values_is_drawn_as_a_line(view_of: ViewOf) -> None:
    shown = view_of("a.npy", npy(np.array([1.0, 5.0, np.nan, -3.0])))
    assert shown["facts"] == [
        ["Shape", "4"],
        ["Type", "float64"],
        ["Least", "-3"],
        ["Mean", "1"],
        ["Greatest", "5"],
        ["Not finite", "1"],
    ]
    assert shown["line"] == {
        "points": "0.0,100.0 128.0,4.0 384.0,196.0",
        "low": "-3",
        "high": "5",
        "count": 4,
    }
    assert shown["text"] == "1.0  5.0  nan  -3.0"


def test_a_thinned_line_keeps_its_peak(view_of: ViewOf) -> None:
    values = np.zeros(1_000_000, np.float32)
    values[345_678] = 7
    line = view_of("a.npy", npy(values))["line"]
    assert (line["high"], line["count"]) == ("7", 1_000_000)
    assert line["points"].count(",") == 1024
    assert [point.split(",")[1] for point in line["points"].split()].count("4.0") == 1


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (COLOURS, COLOURS),
        (np.asfortranarray(COLOURS), COLOURS),
        (np.moveaxis(COLOURS, -1, 0), COLOURS),
        (np.stack([COLOURS, COLOURS // 2]), COLOURS),
        (COLOURS[:, :, :1], COLOURS[:, :, 0]),
        (GREY, (GREY / GREY.max() * 255).astype(np.uint8)),
        (np.asfortranarray(GREY), (GREY / GREY.max() * 255).astype(np.uint8)),
        (GREY > 100, (GREY > 100) * np.uint8(255)),
        (GREY.astype("<f2") - 100, (GREY.astype("<f2") / GREY.max() * 255).astype(np.uint8)),
    ],
    ids=["HWC", "fortran", "CHW", "NHWC", "HW1", "HW", "HW fortran", "bool", "float16"],
)
def test_arrays_that_are_pictures(view_of: ViewOf, array: np.ndarray, expected: Any) -> None:
    found = pixels(view_of("a.npy", npy(array)))
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected).max() <= 1


def test_a_large_picture_is_thinned(view_of: ViewOf) -> None:
    large = np.zeros((1500, 600), np.uint8)
    assert pixels(view_of("a.npy", npy(large))).shape == (500, 300)


def test_other_values(view_of: ViewOf) -> None:
    assert view_of("a.npy", npy(np.array(["ä", "bc"])))["text"] == "ä  bc"
    assert view_of("a.npy", npy(np.array(5)))["facts"][0] == ["Shape", "a single value"]
    assert view_of("a.npy", npy(np.zeros((3, 0))))["note"] == "It has no values."
    fields = np.array([(1, 2.5), (3, 4)], [("id", "i4"), ("w", "f8")])
    assert view_of("a.npy", npy(fields))["table"] == {
        "columns": ["id", "w"],
        "rows": [["1", "2.5"], ["3", "4.0"]],
    }
    assert view_of("a.npy", npy(np.array([1j, 3 + 4j])))["line"]["high"] == "5"


def test_arrays_of_python_objects_are_not_decoded(view_of: ViewOf) -> None:
    shown = view_of("a.npy", npy(np.array([{"a": 1}], object)))
    assert shown["note"] == "It has Python objects, which are not read."
    assert shown["facts"] == [["Shape", "1"], ["Type", "object"]]


def test_a_truncated_array_is_reported(view_of: ViewOf) -> None:
    shown = view_of("a.npy", npy(np.arange(100, dtype="u1"))[:-40])
    assert shown["note"] == "It is cut: it has 60 of 100 values."


def test_values_that_are_too_large(view_of: ViewOf) -> None:
    stream = io.BytesIO()
    header = {"descr": "<U100000000", "fortran_order": False, "shape": (5,)}
    np.lib.format.write_array_header_1_0(stream, header)
    shown = view_of("a.npy", stream.getvalue())
    assert shown["note"] == "Its values are too large to be shown."
    assert shown["facts"] == [["Shape", "5"], ["Type", "<U100000000"]]


def test_npz(view_of: ViewOf) -> None:
    data = npz({"grey": GREY, "line": np.arange(5)})
    first = view_of("a.npz", data)
    assert first["arrays"] == [["grey", "20 by 30", "int64"], ["line", "5", "int64"]]
    assert first["facts"][:2] == [["Array", "grey"], ["Shape", "20 by 30"]]
    assert pixels(first).shape == (20, 30)
    assert view_of("a.npz", data, array="line")["line"]["count"] == 5
    assert view_of("a.npz", npz({}))["arrays"] == []
    many = view_of("a.npz", npz({f"{number}": np.zeros(1) for number in range(101)}))
    assert (len(many["arrays"]), many["note"]) == (100, "Only the first 100 arrays are listed.")


def test_safetensors(view_of: ViewOf) -> None:
    tensors = {
        "__metadata__": {"format": "pt"},
        "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    }
    header = json.dumps(tensors).encode()
    shown = view_of("m.safetensors", struct.pack("<Q", len(header)) + header + bytes(24))
    assert shown["facts"] == [["Tensors", "1"], ["format", "pt"]]
    assert shown["table"] == {
        "columns": ["Tensor", "Type", "Shape", "Bytes"],
        "rows": [["w", "F32", "[2, 3]", "[0, 24]"]],
    }


def test_parquet(view_of: ViewOf) -> None:
    stream = io.BytesIO()
    columns = {"id": range(1000), "name": ["ä", None] * 500, "tags": [[1, 2]] * 1000}
    pq.write_table(pa.table(columns), stream, row_group_size=300)
    shown = view_of("data", stream.getvalue())
    assert shown["facts"][:3] == [["Rows", "1,000"], ["Columns", "3"], ["Row groups", "4"]]
    assert shown["table"]["columns"] == ["id", "name", "tags"]
    assert shown["table"]["rows"][:2] == [["0", "ä", "[1, 2]"], ["1", "", "[1, 2]"]]
    assert len(shown["table"]["rows"]) == 100
    assert shown["note"] == "Rows and columns after the first 100 are not shown."


def test_parquet_without_its_package(
    tmp_path: Path, view_of: ViewOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent/pyarrow.py").write_text("raise ModuleNotFoundError")
    stream = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), stream)
    monkeypatch.syspath_prepend(tmp_path / "absent")
    sandbox.end_ahead()  # the child that already runs has the old import path
    shown = view_of("a.parquet", stream.getvalue())
    sandbox.end_ahead()
    assert shown["kind"] == "hex"
    assert shown["note"].endswith(
        "a Parquet table needs the package pyarrow; to install it: pip install 'ffrfs[parquet]'"
    )


def test_table_cells_may_contain_any_character(view_of: ViewOf) -> None:
    found = view_of("a.csv", "a,b\r\n1\u20282,\x0b3\r\n".encode())
    assert found["table"]["columns"] == ["a", "b"]
    assert found["table"]["rows"] == [["1\u20282", "\x0b3"]]


def test_pages(tmp_path: Path, serve: Serve) -> None:
    files = {"a.npy": npy(np.arange(9)), "b.npz": npz({"<i>": GREY})}
    pages = serve(write_folder(tmp_path / "x.ffr", files))
    line, picture = (pages.get("/item", key=key).text for key in files)
    assert '<polyline points="0.0,196.0' in line
    assert '<img class="shown array" src="data:image/png;base64,' in picture
    assert 'href="/item?key=b.npz&amp;array=%3Ci%3E">&lt;i&gt;</a>' in picture


def test_undecodable_content_is_shown_in_hex(view_of: ViewOf) -> None:
    shown = view_of("a.npy", b"\x93NUMPY\1\0\x10\0 nonsense")
    assert shown["kind"] == "hex"
    assert shown["note"].startswith("it cannot be decoded: ")
    assert shown["hex"][0][0] == "00000000"
