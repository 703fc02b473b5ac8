"""`ffrfs schema`: its output and files, its errors, and its status."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import pstdev

import pytest

from ffrfs.schema import Anomalies, Schema, Statistics, load, messages, store
from tests.cli.command_run import Run
from tests.interpreter import python
from tests.schema.records import example, sequence
from tests.terminal import run_on_terminal
from tests.tfrecord_file import write_tfrecord


def records(count: int = 20, more: int = 0) -> list[bytes]:
    words = ["red", "green", "blue"][: 2 + more]
    return [
        example(color=[words[i % len(words)]], size=[i], weight=[i / 2 + more] if i % 4 else None)
        for i in range(count)
    ]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", records())


@pytest.fixture
def schema(ffrfs: Run, data: Path, tmp_path: Path) -> Path:
    file = tmp_path / "schema.pbtxt"
    assert ffrfs("schema", "infer", "-o", file, data).status == 0
    return file


@pytest.mark.promise("S70")
def test_a_schema_that_was_edited_is_kept(ffrfs: Run, schema: Path, tmp_path: Path) -> None:
    schema.write_text(schema.read_text() + "# mine\n")
    before = schema.read_bytes()
    # This fails before any data is read: there is none.
    assert ffrfs("schema", "infer", "-o", schema, tmp_path / "none").complaint == (
        f"{schema}: exists (a text file); write to another file, or replace it with --force"
    )
    assert schema.read_bytes() == before
    data = tmp_path / "x.tfrecord"
    assert ffrfs("schema", "infer", "--force", "-o", schema, data).status == 0
    assert schema.read_bytes() + b"# mine\n" == before


def test_stats(ffrfs: Run, data: Path) -> None:
    deviation = f"{pstdev(i / 2 for i in range(20) if i % 4):.6g}"
    lines = ffrfs("schema", "stats", data).said
    assert [" ".join(line.split()) for line in lines if line] == [
        "20 Examples",
        "numbers type missing values mean std_dev zeros min median max",
        "size INT 0 1 9.5 5.76628 1 0 10 19",
        f"weight FLOAT 25.0% 1 5 {deviation} 0 0.5 5 9.5",
        "bytes type missing values unique avg_length most frequent",
        "color STRING 0 1 2 4 'red' 10, 'green' 10",
    ]


@pytest.mark.parametrize("end", ["pb", "pbtxt", "json"])
def test_commands_accept_statistics_in_place_of_data(
    ffrfs: Run, data: Path, tmp_path: Path, end: str
) -> None:
    """The other commands accept the statistics that stats wrote, in place of the records."""
    file = tmp_path / f"stats.{end}"
    assert ffrfs("schema", "stats", "-o", file, data).out == b""
    (dataset,) = load(file, Statistics).datasets
    assert (dataset.name, dataset.num_examples) == (str(data), 20)
    shown = ffrfs("schema", "show", file)
    assert shown.out == ffrfs("schema", "stats", data).out
    assert ffrfs("schema", "infer", file).out == ffrfs("schema", "infer", data).out


def test_rows_stay_short_with_a_long_feature_name(ffrfs: Run, tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [example(**{"x" * 5000: [1], "a": [b""]})])
    assert ffrfs("schema", "infer", "-o", tmp_path / "x.pbtxt", file).status == 0
    for words in (("schema", "stats", file), ("info", "--schema", file)):
        assert max(map(len, ffrfs(*words).lines)) < 250
    lines = ffrfs("schema", "show", tmp_path / "x.pbtxt").lines
    assert lines[0].startswith("feature")
    assert max(map(len, lines)) < 250


def test_infer(ffrfs: Run, data: Path, schema: Path) -> None:
    found = load(schema, Schema)
    assert [feature.name for feature in found.feature] == ["color", "size", "weight"]
    assert list(found.string_domain[0].value) == ["green", "red"]
    assert ffrfs("schema", "infer", data).out == schema.read_bytes()
    plain = ffrfs("schema", "infer", "--no-shape", "--max-domain", "1", data)
    assert b"shape" not in plain.out and b"domain" not in plain.out
    as_json = json.loads(ffrfs("schema", "infer", "--json", data).out)
    assert [feature["name"] for feature in as_json["feature"]] == ["color", "size", "weight"]


def test_show_schema(ffrfs: Run, schema: Path) -> None:
    assert [line.split() for line in ffrfs("schema", "show", schema).lines if line] == [
        ["feature", "type", "presence", "valency", "domain"],
        ["color", "STRING", "required", "single", "'color'"],
        ["size", "INT", "required", "single", "-"],
        ["weight", "FLOAT", "optional", "single", "-"],
        ["domain", "values"],
        ["'color'", "'green',", "'red'"],
    ]


def test_validate(ffrfs: Run, data: Path, schema: Path, tmp_path: Path) -> None:
    same = ffrfs("schema", "validate", "--schema", schema, data)
    assert (same.status, same.lines, same.err) == (0, ["no anomalies"], "")
    other = write_tfrecord(tmp_path / "y.tfrecord", records(more=1))
    written = tmp_path / "anomalies.pbtxt"
    done = ffrfs("schema", "validate", "--schema", schema, "-o", written, other)
    assert done.status == 1
    assert done.lines == [
        "feature  anomaly                   what was found",
        "color    Unexpected string values  Examples contain values missing from the schema: "
        "blue (~30%).",
    ]
    assert list(load(written, Anomalies).anomaly_info) == ["color"]
    assert ffrfs("schema", "show", written).lines == done.lines
    as_json = json.loads(ffrfs("schema", "validate", "--json", "--schema", schema, other).out)
    (reason,) = as_json["anomaly_info"]["color"]["reason"]
    assert reason["type"] == "ENUM_TYPE_UNEXPECTED_STRING_VALUES"


def test_drift_and_skew(ffrfs: Run, data: Path, schema: Path, tmp_path: Path) -> None:
    found = load(schema, Schema)
    found.feature[0].drift_comparator.infinity_norm.threshold = 0.1
    found.feature[2].skew_comparator.jensen_shannon_divergence.threshold = 0.1
    found.string_domain[0].value.append("blue")
    store(schema, found, force=True)
    other = write_tfrecord(tmp_path / "y.tfrecord", records(more=1))
    stored = tmp_path / "y.pb"
    ffrfs("schema", "stats", "-o", stored, other)
    options = ("--previous", other, "--serving", stored)
    done = ffrfs("schema", "validate", "--schema", schema, *options, data)
    assert done.status == 1
    rows = [line.split() for line in done.lines]
    assert rows[1][:2] == ["color", "High"]
    assert ["color", "drift", "L_INFTY", "0.3", "0.1"] in rows
    (skew,) = (row for row in rows if row[1:2] == ["skew"])
    assert skew[:3] == ["weight", "skew", "JENSEN_SHANNON_DIVERGENCE"]


@pytest.mark.parametrize("option", ["--previous", "--serving"])
def test_an_empty_file_name_is_refused(ffrfs: Run, data: Path, schema: Path, option: str) -> None:
    assert ffrfs("schema", "validate", "--schema", schema, option, "", data).status == 1


def test_environment(ffrfs: Run, data: Path, schema: Path) -> None:
    found = load(schema, Schema)
    found.default_environment.append("SERVING")
    label = found.feature.add(name="label", type=2, not_in_environment=["SERVING"])
    label.presence.min_count = 1
    store(schema, found, force=True)
    validate = ("schema", "validate", "--schema", schema)
    assert ffrfs(*validate, data).status == 1
    assert ffrfs(*validate, "--environment", "SERVING", data).status == 0


def test_directory_and_jobs(ffrfs: Run, tmp_path: Path) -> None:
    folder = tmp_path / "train"
    folder.mkdir()
    for number in range(3):
        write_tfrecord(folder / f"x.tfrecord-{number}", records(10))
    for jobs in ("1", "2"):
        done = ffrfs("schema", "stats", "--jobs", jobs, folder)
        assert done.lines[0] == "30 Examples"


def test_skipped_records(ffrfs: Run, tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [*records(), b"\xff"])
    assert ffrfs("schema", "stats", file).complaint == f"{file}: record 20: is not an Example"
    done = ffrfs("schema", "stats", "--on-error", "skip", file)
    assert (done.status, done.lines[0]) == (0, "20 Examples")
    assert done.err == f"ffrfs: {file}: left out 1 damaged record\n"


def test_sequences_are_shown(ffrfs: Run, tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [sequence({}, {"a": [["x"], ["y", "z"]]})])
    rows = [line.split()[:4] for line in ffrfs("schema", "stats", file).lines]
    assert ["##SEQUENCE##", "STRUCT", "0", "1"] in rows
    assert ["##SEQUENCE##.a", "STRING", "0", "3"] in rows
    assert '  name: "##SEQUENCE##"' in ffrfs("schema", "infer", file).lines


def test_hostile_names(ffrfs: Run, tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [example(**{"a\nb\x1b": ["c\nd"]})])
    out = ffrfs("schema", "stats", file).out
    assert b"\x1b" not in out
    assert rb"a\nb\x1b" in out and rb"'c\nd'" in out


@pytest.mark.parametrize("end", ["pb", "pbtxt", "json"])
@pytest.mark.parametrize("content", [b"", b"\xff\xff no message {", b"{"])
def test_files_without_a_valid_message(
    ffrfs: Run, data: Path, tmp_path: Path, end: str, content: bytes
) -> None:
    file = tmp_path / f"bad.{end}"
    file.write_bytes(content)
    for action in ("show", "infer"):
        assert ffrfs("schema", action, file).complaint.startswith(f"{file}: ")
    if content:
        done = ffrfs("schema", "validate", "--schema", file, data)
        assert done.complaint.startswith(f"{file}: not a Schema in this form")


def test_several_files_of_statistics(ffrfs: Run, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.pb"
    ffrfs("schema", "stats", "-o", file, data)
    done = ffrfs("schema", "infer", file, data)
    assert done.err == f"ffrfs: {file}: a file of statistics is a data set; give it alone\n"


def test_too_large_files(ffrfs: Run, schema: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_SIZE_MAX", 10)
    assert "over 1 GiB" in ffrfs("schema", "show", schema).err


def test_without_the_package(data: Path) -> None:
    program = (
        "import sys; sys.modules['tensorflow_metadata'] = None; "
        "from ffrfs.cli.main import main; sys.exit(main(['schema', 'stats', sys.argv[1]]))"
    )
    done = python("-c", program, str(data))
    assert (done.returncode, done.stderr) == (
        1,
        "ffrfs: schemas and statistics need the package tensorflow-metadata; to install it: "
        "pip install 'ffrfs[schema]'\n",
    )


def test_a_terminal_gets_the_same_lines(data: Path) -> None:
    """A terminal gets the same lines as a file."""
    for options in ((), ("--json",)):
        shown = run_on_terminal("-m", "ffrfs", "schema", "infer", *options, "--jobs", "1", data)
        assert len(shown.decode().splitlines()) > 20
        assert b"\\n" not in shown
