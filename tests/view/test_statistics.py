"""The page of statistics: the numbers of `ffrfs schema stats`, and what a pack has."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ffrfs.cli.main import main
from ffrfs.errors import FormatError, OptionError
from ffrfs.view.folder_sizes import Area, squarified
from tests.schema.records import example
from tests.tfrecord_file import write_tfrecord
from tests.view.conftest import Serve
from tests.view.examples import packed
from tests.view.pages import Pages


def records(count: int, shift: float = 0.0, words: str = "ab") -> list[bytes]:
    return [
        example(
            label=[number % 7],
            score=[number / 10 + shift, shift],
            **({"word": [words[number % len(words)]]} if number % 4 else {}),
        )
        for number in range(count)
    ]


def stats(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Return the features by name, as `ffrfs schema stats` prints them."""
    assert main(["schema", "stats", "--json", str(file)]) == 0
    features = json.loads(capsys.readouterr().out)["datasets"][0]["features"]
    return {feature["path"]["step"][0]: feature for feature in features}


def test_numbers_equal_those_of_schema_stats(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", records(100))
    found = serve(file).ended("/statistics")
    assert (found["kind"], found["examples"], found["skipped"]) == ("examples", [100], [0])
    rows = {row["name"]: row for row in found["features"]}
    expected = stats(file, capsys)
    assert rows.keys() == expected.keys() == {"label", "score", "word"}
    for name in ("label", "score"):
        numbers, (row,) = expected[name]["num_stats"], rows[name]["sets"]
        for mine, theirs in (("mean", "mean"), ("std_dev", "std_dev"), ("median", "median")):
            assert row[mine] == numbers.get(theirs, 0.0)
        assert (row["min"], row["max"]) == (numbers.get("min", 0.0), numbers["max"])
        assert row["values"] == int(numbers["common_stats"]["tot_num_values"])
        assert row["zeros"] == int(numbers["num_zeros"]) / row["values"]
        buckets = numbers["histograms"][0]["buckets"]
        bars = rows[name]["chart"]["series"][0]
        assert [bar["count"] for bar in bars] == [
            bucket.get("sample_count", 0) for bucket in buckets
        ]
    strings, (row,) = expected["word"]["string_stats"], rows["word"]["sets"]
    assert row["missing"] == 0.25
    assert row["unique"] == int(strings["unique"])
    assert row["average_length"] == strings["avg_length"]
    assert row["top"] == [[one["value"], one["frequency"]] for one in strings["top_values"]]


def test_modules_in_the_data_directory_are_not_imported(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user may run the viewer in the directory of a data set, whose files others wrote."""
    file = write_tfrecord(tmp_path / "x.tfrecord", records(3))
    (tmp_path / "json.py").write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    found = serve(file).ended("/statistics")
    assert found["examples"] == [3]


def test_order_of_features(serve: Serve, tmp_path: Path) -> None:
    first = write_tfrecord(tmp_path / "a.tfrecord", records(40))
    second = write_tfrecord(tmp_path / "b.tfrecord", records(40, 2.0))
    pages = serve(first, second=second)
    orders = {
        sort: [row["name"] for row in pages.ended("/statistics", sort=sort)["features"]]
        for sort in ("order", "name", "missing", "distance", "nothing")
    }
    assert orders["order"] == orders["name"] == orders["nothing"] == ["label", "score", "word"]
    assert orders["missing"][0] == "word"
    assert orders["distance"][0] == "score"


def test_scales(serve: Serve, tmp_path: Path) -> None:
    """Bars are in proportion to counts, or to their logarithms; both sets share one scale."""
    values = [1] * 90 + [5] * 9 + [9]
    first = write_tfrecord(tmp_path / "a.tfrecord", (example(x=[one]) for one in values))
    second = write_tfrecord(tmp_path / "b.tfrecord", (example(x=[one]) for one in values * 2))
    pages = serve(first, second=second)

    def heights(**parameters: object) -> list[list[float]]:
        chart = pages.ended("/statistics", **parameters)["features"][0]["chart"]
        return [[bar["height"] for bar in bars if bar["count"]] for bars in chart["series"]]

    one, two = heights()
    assert one == pytest.approx([0.5, 0.05, 1 / 180], abs=0.01)
    assert two == pytest.approx([1.0, 0.1, 1 / 90], abs=0.01)
    assert heights(scale="log")[0][2] > 0.1
    one, two = heights(**{"as": "percent"})
    assert one == pytest.approx(two)
    quantiles = pages.ended("/statistics", chart="quantiles")["features"][0]["chart"]["series"][0]
    assert len(quantiles) == 10 and quantiles[0]["label"] == "1 to 1"


def test_second_set_is_compared(serve: Serve, tmp_path: Path) -> None:
    first = write_tfrecord(tmp_path / "a.tfrecord", records(40))
    second = write_tfrecord(tmp_path / "b.tfrecord", records(40, words="abx"))
    found = serve(first, second=second).ended("/statistics")
    assert found["sets"] == [str(first), str(second)]
    (anomaly,) = found["anomalies"]
    assert [row[0] for row in anomaly["rows"]] == ["word"]
    assert "x" in anomaly["rows"][0][2]


def test_schema_is_compared(serve: Serve, tmp_path: Path) -> None:
    first = write_tfrecord(tmp_path / "a.tfrecord", records(40))
    second = write_tfrecord(tmp_path / "b.tfrecord", records(40, words="abx"))
    schema = tmp_path / "schema.pbtxt"
    assert main(["schema", "infer", "-o", str(schema), str(first)]) == 0
    (anomaly,) = serve(second, schema=schema).ended("/statistics")["anomalies"]
    assert (anomaly["of"], len(anomaly["rows"])) == ("the schema", 1)
    with pytest.raises(FormatError, match="Schema"):
        serve(second, schema=first)


def test_infinite_and_nan_values(serve: Serve, tmp_path: Path) -> None:
    """JSON has no infinity, and a chart cannot show one."""
    inf, nan = float("inf"), float("nan")
    rows = [example(x=[inf, 1.0], y=[nan], z=[-3e38, 3e38], none=None) for _ in range(3)]
    pages = serve(write_tfrecord(tmp_path / "x.tfrecord", rows))
    found = {row["name"]: row for row in pages.ended("/statistics")["features"]}
    assert found["x"]["sets"][0]["max"] == "Infinity"
    assert found["y"]["chart"] is None
    assert "no values" in pages.get("/statistics").text


def test_damage_is_left_out_and_counted(serve: Serve, tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [*records(20), b"no Example"])
    found = serve(file).ended("/statistics")
    assert (found["examples"], found["skipped"]) == ([20], [1])


def test_error_is_shown_until_the_count_is_repeated(serve: Serve, tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [b"no Example"])
    pages = serve(file)
    (job,) = pages.ended("/statistics")["jobs"]
    assert "no records" in job["error"] and str(file) in job["error"]
    assert "Try again" in pages.get("/statistics").text
    answer = pages.get("/statistics", again=1, sort="name")  # polling must not repeat again=1
    assert (answer.status, answer.headers["location"]) == (303, "/statistics?sort=name")
    assert "no records" in pages.ended("/statistics")["jobs"][0]["error"]


def test_names_of_features_are_escaped(serve: Serve, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>"
    pages = serve(write_tfrecord(tmp_path / "x.tfrecord", [example(**{name: [name]})] * 3))
    pages.ended("/statistics")
    text = pages.get("/statistics").text
    assert name not in text and "&lt;script&gt;" in text


def test_files_of_a_pack(serve: Serve, tmp_path: Path) -> None:
    sizes = {"a/x/1.jpg": 100, "a/y/2.JPG": 200, "b/3.txt": 1000, "4": 0}
    files = {name: b"x" * size for name, size in sizes.items()}
    pages = serve(packed(tmp_path / "p.ffr", files))
    values = pages.ended("/statistics")
    (job,), (found,) = values["jobs"], values["packs"]
    assert (job["done"], job["total"]) == (4, 4)  # directories and the index do not count
    assert (found["count"], found["size"]) == (4, 1300)
    types = {one["type"]: (one["count"], one["size"]) for one in found["types"]}
    assert types == {".jpg": (2, 300), ".txt": (1, 1000), "(none)": (1, 0)}
    counts = {one["label"]: one["count"] for one in found["sizes"] if one["count"]}
    assert counts == {"0 B": 1, "64 B to 128 B": 1, "128 B to 256 B": 1, "512 B to 1.0 KiB": 1}
    folders = {one["path"]: (one["count"], one["size"]) for one in found["folders"]}
    assert folders == {"b": (1, 1000), "a": (2, 300)}
    assert [part["name"] for part in found["folders"][1]["inside"]] == ["y", "x"]
    assert 'href="/?folder=a"' in pages.get("/statistics").text


def test_files_and_examples_are_not_compared(serve: Serve, pack: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="not compared"):
        serve(pack, second=write_tfrecord(tmp_path / "x.tfrecord", records(3)))
    (tmp_path / "schema.pbtxt").touch()
    with pytest.raises(OptionError, match="have no features for a schema"):
        serve(pack, schema=tmp_path / "schema.pbtxt")


def test_close_ends_counting(serve: Serve, tmp_path: Path) -> None:
    from ffrfs.view.view import view

    file = write_tfrecord(tmp_path / "x.tfrecord", records(20_000))
    with view(file) as served:
        assert Pages(served.url).data("/statistics")["jobs"][0]["is_running"]
    assert [one for one in threading.enumerate() if one.name == "ffrfs Examples"] == []


LIMITED = """
import json, resource, sys
from multiprocessing import Pipe
from ffrfs.view import counting
ours, theirs = Pipe()
ours.send_bytes(json.dumps(["x", sys.argv[1]]).encode())
counting._count(theirs)
print(resource.getrlimit(resource.RLIMIT_AS)[1] >> 30, ours.poll())
"""


def test_counting_has_a_memory_limit(tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", records(3))
    command = [sys.executable, "-c", LIMITED, str(file)]
    assert subprocess.check_output(command, text=True) == "4 True\n"


def test_areas_are_proportional_to_sizes() -> None:
    sizes = [6, 6, 4, 3, 2, 2, 1]
    areas = list(squarified(sizes, Area(0, 0, 6, 4)))
    assert [area.width * area.height for area in areas] == pytest.approx(sizes)
    assert all(area.width / area.height < 3 and area.height / area.width < 3 for area in areas)
    assert areas[0] == pytest.approx(Area(0, 0, 3, 2))


def test_sizes_lost_to_rounding_get_empty_areas() -> None:
    first, second, third = squarified([1e17, 1, 1], Area(0, 0, 1, 1))
    assert first == Area(0, 0, 1, 1)
    assert second.width * second.height == third.width * third.height == 0
