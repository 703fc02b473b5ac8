"""The table of TFDV in docs/compatibility.md: every row is true."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

from ffrfs import schema
from ffrfs.cli.main import main
from ffrfs.errors import FormatError
from tests.checkout import CHECKOUT
from tests.docs.compatibility import row_names
from tests.schema.records import example, sequence
from tests.tfrecord_file import write_tfrecord

ROWS = row_names("TensorFlow Data Validation")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    records = [example(a=["x" if i % 3 else "y"], n=[i]) for i in range(9)]
    return write_tfrecord(tmp_path / "x.tfrecord", records)


def statistics(file: Path) -> Any:
    return schema.generate_statistics(file).statistics


def check_generate(file: Path) -> None:
    assert statistics(file.parent).datasets[0].num_examples == 9
    write_tfrecord(file, [sequence({}, {"s": [[1]]})])
    names = [list(one.path.step) for one in statistics(file).datasets[0].features]
    assert names == [["##SEQUENCE##"], ["##SEQUENCE##", "s"]]
    write_tfrecord(file, [example(a=[1]), example(a=["x"])])
    with pytest.raises(FormatError, match="record 1"):
        statistics(file)


def check_sizes(file: Path) -> None:
    assert schema.Sizes() == (20, 1000, 10, 10, 10)
    sizes = schema.Sizes(num_top_values=1, num_histogram_buckets=3)
    found = schema.generate_statistics(file, sizes=sizes).statistics.datasets[0].features
    assert len(found[0].string_stats.top_values) == 1
    assert [len(one.buckets) for one in found[1].num_stats.histograms] == [3, 10]


def check_infer(file: Path) -> None:
    parameters = list(inspect.signature(schema.infer_schema).parameters.values())
    assert [(one.name, one.default) for one in parameters[1:]] == [
        ("infer_feature_shape", True),
        ("max_string_domain_size", 100),
    ]
    found = statistics(file)
    assert len(schema.infer_schema(found).string_domain) == 1
    found.datasets[0].features[0].string_stats.unique = 9  # more than there are labels
    assert len(schema.infer_schema(found).string_domain) == 0


def check_validate(file: Path) -> None:
    names = list(inspect.signature(schema.validate_statistics).parameters)
    wanted = ["statistics", "schema", "environment", "previous_statistics", "serving_statistics"]
    assert names == wanted
    numbers = [example(a=[number]) for number in (1.0, 2.0, math.inf, -math.inf, math.nan)]
    found = statistics(write_tfrecord(file, numbers))
    limits = text_format.Parse(
        'feature { name: "a" type: FLOAT '
        "drift_comparator { jensen_shannon_divergence { threshold: 0 } } }",
        schema.Schema(),
    )
    anomalies = schema.validate_statistics(found, limits, previous_statistics=found)
    assert [one.value for one in anomalies.drift_skew_info[0].drift_measurements] == [0]
    changed = schema.validate_statistics(found, schema.Schema()).anomaly_info["a"]
    assert list(changed.diff_regions) == []


def message(kind: str, file: Path) -> Any:
    found = statistics(file)
    if kind == "Statistics":
        return found
    inferred = schema.infer_schema(found)
    return inferred if kind == "Schema" else schema.validate_statistics(found, inferred)


def keeps(kind: str, end: str) -> Callable[[Path], None]:
    """Return a check that a message is the same after storing and loading; text is protobuf's."""

    def check(file: Path) -> None:
        stored = message(kind, file)
        for name in {f"m{end}", "m.pbtxt", "m.json", "m.pb"}:
            place = file.with_name(name)
            schema.store(place, stored)
            assert schema.load(place, getattr(schema, kind)) == stored
        assert text_format.Parse(file.with_name("m.pbtxt").read_text(), type(stored)()) == stored
        assert type(stored).FromString(file.with_name("m.pb").read_bytes()) == stored

    return check


def shows(*titles: str) -> Callable[[Path, pytest.CaptureFixture[str]], None]:
    def check(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        stored = file.with_name("schema.pbtxt")
        changed = message("Schema", file)
        changed.feature[0].name = "renamed"
        changed.feature[1].drift_comparator.jensen_shannon_divergence.threshold = 1
        schema.store(stored, changed)
        options = ["--schema", str(stored), "--previous", str(file)]
        main(["schema", "show", str(stored)])
        main(["schema", "validate", *options, str(file)])
        main(["schema", "stats", str(file)])
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        for title in titles:
            assert title in lines

    return check


CHECKS: dict[str, Callable[..., None]] = {
    "tfdv.generate_statistics_from_tfrecord": check_generate,
    "tfdv.StatsOptions": check_sizes,
    "tfdv.infer_schema": check_infer,
    "tfdv.validate_statistics": check_validate,
    "tfdv.load_schema_text": keeps("Schema", ".txt"),
    "tfdv.write_schema_text": keeps("Schema", ".pbtxt"),
    "tfdv.load_stats_binary": keeps("Statistics", ".pb"),
    "tfdv.write_stats_text": keeps("Statistics", ".pbtxt"),
    "tfdv.load_anomalies_text": keeps("Anomalies", ".txt"),
    "tfdv.write_anomalies_text": keeps("Anomalies", ".pbtxt"),
    "tfdv.display_schema": shows("feature type presence valency domain"),
    "tfdv.display_anomalies": shows(
        "feature anomaly what was found", "n drift JENSEN_SHANNON_DIVERGENCE 0 1"
    ),
    "tfdv.visualize_statistics": shows("n INT 0 1 4 2.58199 1 0 4 8"),
}


def test_every_row_has_a_check() -> None:
    assert list(CHECKS) == ROWS


@pytest.mark.parametrize("row", CHECKS)
def test_row(file: Path, row: str, capsys: pytest.CaptureFixture[str]) -> None:
    check = CHECKS[row]
    if len(inspect.signature(check).parameters) == 2:
        check(file, capsys)
    else:
        check(file)


# The numbers of our fields in Facets' facets_overview/proto/feature_statistics.proto.
FACETS = {
    "DatasetFeatureStatisticsList": {"datasets": 1},
    "DatasetFeatureStatistics": {"name": 1, "num_examples": 2, "features": 3},
    "Path": {"step": 1},
    "FeatureNameStatistics": {
        "path": 8, "type": 2, "num_stats": 3, "string_stats": 4, "struct_stats": 7,
        "custom_stats": 6,
    },
    "CustomStatistic": {"name": 1, "histogram": 4},
    "NumericStatistics": {
        "common_stats": 1, "mean": 2, "std_dev": 3, "num_zeros": 4, "min": 5, "median": 6,
        "max": 7, "histograms": 8,
    },
    "StringStatistics": {
        "common_stats": 1, "unique": 2, "top_values": 3, "avg_length": 4, "rank_histogram": 5,
    },
    "FreqAndValue": {"value": 2, "frequency": 3},
    "StructStatistics": {"common_stats": 1},
    "CommonStatistics": {
        "num_non_missing": 1, "num_missing": 2, "min_num_values": 3, "max_num_values": 4,
        "avg_num_values": 5, "tot_num_values": 8, "num_values_histogram": 6,
    },
    "Histogram": {"num_nan": 1, "buckets": 3, "type": 4},
    "RankHistogram": {"buckets": 1},
    "Bucket": {
        "low_value": 1, "high_value": 2, "low_rank": 1, "high_rank": 2, "label": 4,
        "sample_count": (4, 5),
    },
}  # fmt: skip
# Facets has no fields of these numbers, and ignores them.
UNKNOWN_TO_FACETS = {"invalid_utf8_count", "presence_and_valency_stats"}


def check_numbers(found: Any) -> set[str]:
    """Assert that a message has Facets' field numbers; return the names of its messages."""
    seen = {found.DESCRIPTOR.name}
    for field, value in found.ListFields():
        if field.name in UNKNOWN_TO_FACETS:
            continue
        number = FACETS[found.DESCRIPTOR.name][field.name]
        assert field.number in (number if isinstance(number, tuple) else (number,)), field.name
        if field.message_type:
            for one in [value] if isinstance(value, Message) else value:
                seen |= check_numbers(one)
    return seen


def test_facets_reads_statistics(tmp_path: Path) -> None:
    records = [
        example(a=["x", b"\xff"], f=[1.0, math.nan], n=[0, 5]),
        sequence({"a": None}, {"s": [[1], [2, 3]]}),
    ]
    file = write_tfrecord(tmp_path / "x.tfrecord", records)
    assert check_numbers(schema.generate_statistics(file, name="x").statistics) == set(FACETS)


def test_the_program_of_the_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of the page runs, and its schema can be checked."""
    page = (CHECKOUT / "docs/schema.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "tuesday").mkdir()
    records = [example(payment_type=["Cash"], fare=[number / 4]) for number in range(9)]
    write_tfrecord(tmp_path / "tuesday" / "x.tfrecord", records)
    monkeypatch.chdir(tmp_path)
    exec(program, {"__name__": "page"})
    (added,) = re.findall(r"```\n(feature .*?)```", page, re.DOTALL)
    (tmp_path / "schema.pbtxt").write_text(added + 'string_domain { name: "payment_type" }')
    found = statistics(tmp_path / "tuesday")
    limits = schema.load("schema.pbtxt", schema.Schema)
    anomalies = schema.validate_statistics(found, limits, None, found, found)
    assert list(anomalies.anomaly_info) == ["payment_type"]  # "Cash" is not in the domain
    assert len(anomalies.drift_skew_info) == 2
