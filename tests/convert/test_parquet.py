"""Parquet: every Example comes back, other programs' tables are read, and the rest is refused."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from ffrfs.convert import columns
from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.convert.kind import kind_of
from ffrfs.convert.parquet import ParquetSource
from ffrfs.errors import FormatError, PackError
from tests.convert.messages import examples_of, records_of, serialized
from tests.interpreter import python
from tests.tfrecord_file import framed, write_tfrecord

NAMES = st.text(st.characters(codec="utf-8"), max_size=8)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(max_size=20),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
}

EMPTY_LISTS = b"\x0a\x00\x12\x00"  # a SequenceExample
STEPS = {"context": {}, "feature_lists": {"a": [[1]]}}


def values(kind: str) -> st.SearchStrategy[Any]:
    """Draw one value, or any number of values: both kinds of columns must come up."""
    dtype = {"int64": np.int64, "float": np.float32}.get(kind)
    lists = st.one_of(
        st.lists(KINDS[kind], min_size=1, max_size=1), st.lists(KINDS[kind], max_size=3)
    )
    typed = lists if dtype is None else lists.map(lambda given: np.array(given, dtype))
    return st.one_of(typed, typed, st.none())  # None: a feature without a list


@st.composite
def records(draw: st.DrawFn, sequences: bool) -> list[dict[str, Any]]:
    names = draw(st.lists(NAMES, min_size=2, max_size=6, unique=True))
    kinds = {name: draw(st.sampled_from(sorted(KINDS))) for name in names}
    context, lists = (names[::2], names[1::2]) if sequences else (names, [])

    def some(of: list[str]) -> dict[str, Any]:
        return {name: draw(values(kinds[name])) for name in of if draw(st.booleans())}

    def steps() -> dict[str, Any]:
        listed = {name: st.lists(values(kinds[name]), max_size=3) for name in lists}
        return {name: draw(listed[name]) for name in lists if draw(st.booleans())}

    found = [{names[0]: draw(values(kinds[names[0]]))}] if not sequences else []
    for _ in range(draw(st.integers(0, 4))):
        found.append(
            {"context": some(context), "feature_lists": steps()} if sequences else some(names)
        )
    return found


def check_there_and_back(place: Path, given: list[dict[str, Any]]) -> None:
    written = [serialized(each) for each in given]
    file = write_tfrecord(place / "x.tfrecord", written)
    assert convert(file, place / "y.parquet") == ConvertSummary(len(written), 0)
    convert(place / "y.parquet", place / "z.tfrecord")
    assert records_of(place / "z.tfrecord") == written


@settings(max_examples=60)
@given(given=records(sequences=False))
@example(given=[{"a": np.array([], np.int64)}, {}, {"a": np.array([1], np.int64)}])
@example(given=[{"": b"x"}, {"\0": b"", "a.b": b"", "a/b": b"", "é": b"\xff"}])
def test_any_examples(
    tmp_path_factory: pytest.TempPathFactory, given: list[dict[str, Any]]
) -> None:
    check_there_and_back(tmp_path_factory.mktemp("any"), given)


@settings(max_examples=60)
@given(given=records(sequences=True))
@example(given=[{"context": {"a": 1}, "feature_lists": {"n": []}}])
def test_any_sequences(
    tmp_path_factory: pytest.TempPathFactory, given: list[dict[str, Any]]
) -> None:
    has_columns = any(each["context"] or each["feature_lists"] for each in given)
    if given and not has_columns:
        given = [*given, {"context": {}, "feature_lists": {"": []}}]
    check_there_and_back(tmp_path_factory.mktemp("any"), given)


@pytest.mark.parametrize(
    "given",
    [[EMPTY_LISTS] * 2 + [serialized({"a": 1}) + b"\x12\x00"], [b"\x0a\x00", serialized(STEPS)]],
)
def test_records_without_feature_lists(tmp_path: Path, given: list[bytes]) -> None:
    convert(write_tfrecord(tmp_path / "x.tfrecord", given), tmp_path / "y.parquet")
    convert(tmp_path / "y.parquet", tmp_path / "z.tfrecord")
    assert records_of(tmp_path / "z.tfrecord") == given


def table_of(path: Path, given: list[dict[str, Any]]) -> Any:
    convert(write_tfrecord(path / "x.tfrecord", map(serialized, given)), path / "y.parquet")
    return parquet.read_table(path / "y.parquet")


def test_columns_as_users_expect_them(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        [
            {"label": 7, "image/encoded": b"\xff\xd8", "x": [0.5, 1.5], "score": 0.1},
            {"label": 8, "image/encoded": b"", "x": np.zeros(0, np.float32)},
            {"label": 9},
        ],
    )
    assert [str(field.type) for field in table.schema] == [
        "binary",
        "int64",
        "float",
        "list<element: float>",
    ]
    assert table.to_pydict() == {
        "image/encoded": [b"\xff\xd8", b"", None],
        "label": [7, 8, 9],
        "score": [float(np.float32(0.1)), None, None],
        "x": [[0.5, 1.5], [], None],
    }


def test_feature_lists(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        [
            {"context": {"id": 1}, "feature_lists": {"f": [[1.0], None], "n": []}},
            {"context": {"id": 2}, "feature_lists": {}},
        ],
    )
    assert table.to_pydict() == {"f": [[[1.0], [None]], None], "id": [1, 2], "n": [[], None]}


def test_shards_have_one_schema(tmp_path: Path) -> None:
    given = [serialized({"i": i, **({"x": [1, 2]} if i == 8 else {"x": 1})}) for i in range(10)]
    file = write_tfrecord(tmp_path / "x.tfrecord", given)
    assert convert(file, tmp_path / "train.parquet", shards=3) == ConvertSummary(10, 0)
    place = tmp_path / "train.parquet"
    assert sorted(os.listdir(place)) == [f"train-{i:05}-of-00003.parquet" for i in range(3)]
    schemas = {str(parquet.read_schema(place / name)) for name in os.listdir(place)}
    assert len(schemas) == 1
    (place / "_SUCCESS").touch()
    assert kind_of(str(place)) == "parquet"
    convert(place, tmp_path / "z.tfrecord")
    assert (tmp_path / "z.tfrecord").read_bytes() == framed(given)


@pytest.mark.long
def test_groups_are_small_and_pages_have_checksums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group has no room for two of the records; a batch that is read, not even for one."""
    monkeypatch.setattr(sys.modules["ffrfs.convert.parquet"], "_GROUP_SIZE", 16 << 20)
    given = [serialized({"a": bytes(10 << 20), "i": i}) for i in range(3)]
    file = write_tfrecord(tmp_path / "x.tfrecord", given)
    convert(file, tmp_path / "y.parquet")
    table = parquet.ParquetFile(tmp_path / "y.parquet", page_checksum_verification=True)
    assert table.num_row_groups == 3
    convert(tmp_path / "y.parquet", tmp_path / "z.ffr")
    convert(tmp_path / "z.ffr", tmp_path / "z.tfrecord")
    assert (tmp_path / "z.tfrecord").read_bytes() == framed(given)


def test_no_records(tmp_path: Path) -> None:
    convert(write_tfrecord(tmp_path / "x.tfrecord", []), tmp_path / "y.parquet")
    assert parquet.read_table(tmp_path / "y.parquet").num_rows == 0
    assert convert(tmp_path / "y.parquet", tmp_path / "z.tfrecord").record_count == 0


EMPTY_INTS = serialized({"a": np.array([], np.int64)})
LISTS = {"context": {"a": 1}, "feature_lists": {"a": []}}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([b"no example at all\n"], "record 0: not an Example"),
        ([serialized({"a": 1}), serialized({"a": b""})], "is bytes_list, and int64_list in rec"),
        ([EMPTY_INTS, serialized({"a": b""})], "record 1: feature 'a' is bytes_list, and int64"),
        ([serialized({"context": {}, "feature_lists": {"a": [[1], [b""]]}})], "has one type"),
        ([serialized(LISTS)], "record 0: 'a' is a feature and a feature list"),
        ([serialized({})], "no record has a feature"),
        ([serialized({"a": 1}), EMPTY_LISTS], "record 1: rows do not tell Examples from Seq"),
        ([EMPTY_LISTS, serialized(STEPS), b""], "record 2: rows do not tell Examples from Seq"),
    ],
)
def test_records_that_a_table_cannot_hold(tmp_path: Path, given: list[bytes], reason: str) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", given)
    with pytest.raises(PackError) as caught:
        convert(file, tmp_path / "y.parquet")
    assert str(caught.value).startswith(f"{file}: ")
    assert reason in str(caught.value)
    assert os.listdir(tmp_path) == ["x.tfrecord"]


def test_too_many_features(tmp_path: Path) -> None:
    given = [
        serialized({f"{i}/{j}": 1 for j in range(1000)})
        for i in range(columns.COLUMNS_MAX // 1000 + 1)
    ]
    with pytest.raises(PackError, match=r"record 10: has more features .* \(10,000\)"):
        convert(write_tfrecord(tmp_path / "x.tfrecord", given), tmp_path / "y.parquet")


def test_the_source_changes_between_the_passes() -> None:
    found = columns.survey("y.parquet", [serialized({"a": 1})])
    for changed in ({"b": 1}, {"a": [1, 2]}, {"a": b""}):
        with pytest.raises(PackError, match="has changed while it was read"):
            found.row(serialized(changed))


def test_tables_of_other_programs(tmp_path: Path) -> None:
    table = pa.table(
        {
            "small": pa.array([1, None], pa.uint8()),
            "large": pa.array([2**63 - 1, 0], pa.uint64()),
            "flag": pa.array([True, False]),
            "half": pa.array(np.array([0.5, 1.5], np.float16)),
            "text": pa.array(["é", None], pa.large_string()),
            "view": pa.array(["a", "b"], pa.string_view()),
            "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
            "word": pa.array(["x", "y"]).dictionary_encode(),
            "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)),
            "words": pa.array([["a"], []], pa.large_list(pa.string())),
            "none": pa.nulls(2),
        }
    )
    parquet.write_table(table, tmp_path / "y.parquet")
    assert convert(tmp_path / "y.parquet", tmp_path / "z.tfrecord") == ConvertSummary(2, 0)
    assert examples_of(tmp_path / "z.tfrecord") == [
        {
            "small": [1], "large": [2**63 - 1], "flag": [1], "half": [0.5],
            "text": ["é".encode()], "view": [b"a"], "fixed": [b"ab"], "word": [b"x"],
            "pair": [1, 2], "words": [b"a"],
        },
        {
            "large": [0], "flag": [0], "half": [1.5], "view": [b"b"], "fixed": [b"cd"],
            "word": [b"y"], "pair": [3, 4], "words": [],
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([1e39]), "has a number that does not fit into a float32"),
        (pa.array([[0.1, -1e300]]), "has a number that does not fit into a float32"),
        (pa.array([1], pa.timestamp("s")), "is of type timestamp"),
        (pa.array([{"a": 1}]), "is of type struct<a: int64>"),
        (pa.array([[[[1]]]]), "is of type list<"),
        (pa.array([[1, None]]), "has null among values"),
        (pa.array([[None, None]], pa.list_(pa.string())), "has null among values"),
        (pa.array([[[1], None]]), "has null as a step"),
        (pa.array([[[1, None]]]), "has null among values"),
        (pa.array([2**64 - 1], pa.uint64()), "cannot be read as int64"),
    ],
)
@pytest.mark.filterwarnings("ignore:.* double is rounded:ffrfs.errors.PackWarning")
def test_columns_that_an_example_cannot_hold(tmp_path: Path, column: Any, reason: str) -> None:
    file = tmp_path / "y.parquet"
    before = pa.nulls(200, column.type)  # more than a batch
    column = pa.chunked_array([before, column])
    parquet.write_table(pa.table({"good": range(201), "bad\n": column}), file)
    with pytest.raises(FormatError) as caught:
        convert(file, tmp_path / "z.tfrecord")
    row = "" if reason.startswith("is of type") else "row 200: "
    assert str(caught.value).startswith(f"{file}: {row}column 'bad\\n' {reason}")
    assert os.listdir(tmp_path) == ["y.parquet"]


def test_bad_tables(tmp_path: Path) -> None:
    file = tmp_path / "y.parquet"
    two = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    parquet.write_table(two, file)
    with pytest.raises(FormatError, match=r"y\.parquet: two columns have the same name"):
        convert(file, tmp_path / "z.tfrecord")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(FormatError, match="not a regular file"):
        convert(file, tmp_path / "z.tfrecord")
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "none.parquet", tmp_path / "z.tfrecord")


def test_few_bytes_that_encode_many_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "y.parquet"
    parquet.write_table(pa.table({"a": [[0] * 2000, [0] * 100]}), file)
    assert convert(file, tmp_path / "z.tfrecord", force=True).record_count == 2
    monkeypatch.setattr(sys.modules["ffrfs.convert.parquet"], "_NUMBERS_MAX", 1000)
    with pytest.raises(FormatError, match=r"y\.parquet: row group 0 has rows too large"):
        convert(file, tmp_path / "z.tfrecord", force=True)


def test_a_large_value_that_repeats(tmp_path: Path) -> None:
    """Few rows are in memory at a time, although the file holds the large value only once."""
    value = pa.array([bytes(4 << 20)], pa.binary())
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), value)
    file = tmp_path / "y.parquet"
    parquet.write_table(pa.table({"a": column}), file, store_schema=False)  # not as a dictionary
    assert file.stat().st_size < 1 << 20
    before = pa.total_allocated_bytes()
    with contextlib.closing(ParquetSource(str(file)).records()) as records:
        assert len(next(records)) > 4 << 20
        assert pa.total_allocated_bytes() - before < 256 << 20


def test_statistics_of_another_schema(tmp_path: Path) -> None:
    """pyarrow ends the process when it is asked for this column."""
    file = tmp_path / "y.parquet"
    parquet.write_table(pa.table({"a": [1]}), file)
    optional, required = b"\x15\x04\x25\x02\x18\x01a", b"\x15\x04\x25\x00\x18\x01a"
    assert file.read_bytes().count(optional) == 1
    file.write_bytes(file.read_bytes().replace(optional, required))
    done = python("-m", "ffrfs", "convert", file, tmp_path / "z.tfrecord")
    assert done.returncode == 1
    assert done.stderr.startswith(f"ffrfs: {file}: not a Parquet file, or damaged (row group 0: ")


def test_damage(tmp_path: Path) -> None:
    """A page's checksum shows a change of the page; each error is one line that names the file."""
    file = tmp_path / "y.parquet"
    given = [
        serialized({"a": bytes([i]) * 100, "i": i, "x": np.full(i, 0.5, np.float32)})
        for i in range(200)
    ]
    convert(write_tfrecord(tmp_path / "x.tfrecord", given), file, force=True)
    whole = file.read_bytes()
    for size in (0, 3, 4, 8, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(FormatError) as caught:
            convert(file, tmp_path / "z.tfrecord", force=True)
        assert str(caught.value).startswith(f"{file}: not a Parquet file, or damaged (")
        assert "\n" not in str(caught.value)
    pages = len(whole) - int.from_bytes(whole[-8:-4], "little") - 8
    chance = random.Random(1)
    for _ in range(100):
        data = bytearray(whole)
        data[chance.randrange(4, pages)] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        try:
            convert(file, tmp_path / "z.tfrecord", force=True)
        except FormatError as error:
            assert str(error).startswith(f"{file}: ")
        else:  # a bit of the page's header that has no effect
            assert (tmp_path / "z.tfrecord").read_bytes() == framed(given)


def test_a_short_last_write_is_an_error(tmp_path: Path) -> None:
    source = write_tfrecord(tmp_path / "x.tfrecord", [serialized({"a": 1})])
    convert(source, tmp_path / "y.parquet")
    size = (tmp_path / "y.parquet").stat().st_size - 1
    program = (
        "import resource, sys; from ffrfs.cli.main import main\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))\n"
        "sys.exit(main())"
    )
    done = python("-c", program, "convert", source, tmp_path / "z.parquet")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ffrfs: {tmp_path}/z.parquet: File too large")


def test_without_pyarrow(tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [serialized({"a": 1})])
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from ffrfs.cli.main import main\n"
        "sys.exit(main())"
    )
    done = python("-c", program, "convert", file, tmp_path / "y.parquet")
    assert done.returncode == 1
    assert done.stderr == (
        "ffrfs: Parquet, CSV and Arrow need the package pyarrow; to install it: "
        "pip install 'ffrfs[parquet]'\n"
    )
    assert os.listdir(tmp_path) == ["x.tfrecord"]
