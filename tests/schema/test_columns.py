"""Columns have all values of all records, with any features in any order."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs.errors import FormatError
from ffrfs.schema import generate_statistics
from ffrfs.schema.columns import _CELLS_MAX, SEQUENCE, BadRecordError, Column, ColumnParser
from tests.checkout import CHECKOUT
from tests.interpreter import python
from tests.schema.records import FLOATS, INTS, by_name, example, sequence, statistics_of
from tests.tfrecord_file import write_tfrecord

# Each name has one type.
INT = st.none() | st.just(INTS) | st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1)
FLOAT = st.none() | st.just(FLOATS) | st.lists(st.floats(width=32, allow_nan=False), min_size=1)
BYTES = st.none() | st.lists(st.binary(max_size=5))
KINDS = {"i": INT, "f": FLOAT, "b": BYTES}
FEATURES = {f"{name}{i}": kind for i in range(3) for name, kind in KINDS.items()}
CONTEXTS = st.fixed_dictionaries({}, optional=FEATURES)
LISTS = st.fixed_dictionaries({}, optional={f"s{n}": st.lists(v) for n, v in FEATURES.items()})


def collected(columns: Any) -> dict[Any, tuple[list[Any], list[int]]]:
    """Return for each path its sorted values, and its sorted numbers of values."""
    found: dict[Any, tuple[list[Any], list[int]]] = defaultdict(lambda: ([], []))
    for path, column in columns:
        assert isinstance(column, Column)
        found[path][0].extend(
            column.values if isinstance(column.values, list) else column.values.tolist()
        )
        found[path][1].extend(column.value_counts.tolist())
    return {path: (sorted(values), sorted(counts)) for path, (values, counts) in found.items()}


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(CONTEXTS, LISTS), max_size=12), st.lists(CONTEXTS, max_size=3))
def test_all_values(records: list[Any], known: list[Any]) -> None:
    wanted: dict[Any, tuple[list[Any], list[int]]] = defaultdict(lambda: ([], []))
    for context, lists in records:
        for name, values in context.items():
            there = wanted[(name,)]
            if values is not None:
                there[0].extend(values)
                there[1].append(len(values))
        for name, steps in lists.items():
            leaves = [one for step in steps if step is not None for one in step]
            wanted[SEQUENCE, name][0].extend(leaves)
            wanted[SEQUENCE, name][1].append(len(leaves))
        if lists:
            wanted[(SEQUENCE,)][1].append(1)
    for cells_max in (_CELLS_MAX, 0):  # with either parser
        parser = ColumnParser()
        list(parser.parse([example(**one) for one in known]))  # known features must not matter
        with patch("ffrfs.schema.columns._CELLS_MAX", cells_max):
            found = collected(parser.parse([sequence(*one) for one in records]))
        assert found == {path: (sorted(v), sorted(c)) for path, (v, c) in wanted.items()}


def test_steps() -> None:
    records = [
        sequence({}, {"a": [[1, 2], None, INTS], "b": []}),
        sequence({}, {"a": [[3]]}),
        example(a=[1.0]),
    ]
    columns = dict(ColumnParser().parse(records))
    steps = columns[SEQUENCE, "a"]
    assert steps.step_counts is not None and steps.step_value_counts is not None
    assert steps.step_counts.tolist() == [3, 1]
    assert steps.step_value_counts.tolist() == [2, 0, 1]
    assert steps.missing_step_count == 1
    empty = columns[SEQUENCE, "b"]
    assert empty.step_counts is not None
    assert (empty.kind, empty.step_counts.tolist()) == (None, [0])


def test_a_feature_that_occurs_twice() -> None:
    """As in protobuf, the last one counts."""
    once, again = example(a=[1], b=[b"x"]), example(a=[2, 3])
    joined = once + again  # joined messages are merged
    found = collected(ColumnParser().parse([joined, example(a=[4], b=[b"y"])]))
    assert found == {("a",): ([2, 3, 4], [1, 2]), ("b",): ([b"x", b"y"], [1, 1])}


def test_unpacked_lists() -> None:
    # Feature a: int64_list with two values of a field each.
    record = example(a=[1, 2]).replace(b"\x0a\x02\x01\x02", b"\x08\x01\x08\x02")
    assert collected(ColumnParser().parse([record])) == {("a",): ([1, 2], [2])}


@pytest.mark.parametrize("before", [0, 1, 20])
def test_a_record_that_is_no_example(before: int) -> None:
    records = [example(a=[1])] * before + [b"\xff\xff", example(a=[1])]
    with pytest.raises(BadRecordError, match="is not an Example") as caught:
        list(ColumnParser().parse(records))
    assert (caught.value.row, caught.value.is_damaged) == (before, True)


@pytest.mark.parametrize("count", [1, 9_000])
def test_two_types_of_one_feature(tmp_path: Path, count: int) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [example(a=[1])] * count + [example(a=["x"])])
    with pytest.raises(FormatError) as caught:
        generate_statistics(file)
    assert str(caught.value) == (
        f'{file}: record {count:,}: feature "a" is bytes here, and int64 in an earlier record'
    )
    assert (caught.value.file, caught.value.record) == (str(file), count)


def test_two_types_in_two_files(tmp_path: Path) -> None:
    first = write_tfrecord(tmp_path / "1.tfrecord", [example(a=[1])])
    second = write_tfrecord(tmp_path / "2.tfrecord", [example(a=[1.0])])
    for jobs in (1, 2):
        with pytest.raises(FormatError, match=r'2\.tfrecord: feature "a" is float32 here'):
            generate_statistics([first, second], jobs=jobs)


def test_features_that_first_occur_late(tmp_path: Path) -> None:
    """Each one is found, also in batches of thousands of records."""
    records = [
        example(a=[1.0], **{f"late{i}": [i]} if i % 1000 == 999 else {}) for i in range(9000)
    ]
    found = by_name(statistics_of(tmp_path, records))
    assert sorted(found) == sorted(["a", *(f"late{i}" for i in range(999, 9000, 1000))])
    assert found["a"].num_stats.common_stats.num_non_missing == 9000
    for i in range(999, 9000, 1000):
        late = found[f"late{i}"].num_stats
        assert (late.common_stats.num_non_missing, late.min, late.max) == (1, i, i)


def test_too_many_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ffrfs.schema.columns.FEATURE_LIMIT", 10)
    file = write_tfrecord(tmp_path / "x.tfrecord", [example(**{f"f{i}": [1]}) for i in range(20)])
    with pytest.raises(FormatError, match="more than 10 features"):
        generate_statistics(file)


def test_too_many_features_that_only_protobuf_parses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ffrfs.schema.columns.FEATURE_LIMIT", 10)
    records = [sequence({}, {f"f{i}": [[1]]}) for i in range(20)]
    with pytest.raises(BadRecordError, match="more than 10 features"):
        list(ColumnParser().parse(records))


MANY_NAMES = """
import resource
from ffrfs.schema.columns import ColumnParser
from tests.schema.records import example
records = [example(**{f"{i}": [i] for i in range(first, first + 60)})
           for first in range(0, 60_000, 60)]
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (300 << 20), now + (300 << 20)))
assert len(dict(ColumnParser().parse(records))) == 60_000
"""


def test_memory_for_features_that_most_records_lack() -> None:
    """A megabyte of records has 60 features in each record, and none is in two records."""
    assert python("-c", MANY_NAMES, cwd=CHECKOUT).returncode == 0


def test_features_without_any_type(tmp_path: Path) -> None:
    """TFDV treats these features as strings that are missing everywhere."""
    (found,) = statistics_of(tmp_path, [example(a=None), example()]).features
    assert found.type == found.STRING
    assert found.string_stats.common_stats.num_missing == 2
    assert found.string_stats.common_stats.num_non_missing == 0


def test_statistics_of_text(tmp_path: Path) -> None:
    long, longer = "x" * 2000, "x" * 70_000
    records = [example(a=["é", b"\xff", long, longer]), example(a=["é"])]
    (found,) = statistics_of(tmp_path, records).features
    stats = found.string_stats
    assert {one.value: one.frequency for one in stats.top_values} == {
        "é": 2,
        long: 1,
        "__BYTES_VALUE__": 1,
        "__LARGE_BYTES__": 1,
    }
    assert (stats.unique, stats.invalid_utf8_count) == (4, 1)
    assert stats.avg_length == pytest.approx((2 + 1 + 2000 + 70_000 + 2) / 5)
