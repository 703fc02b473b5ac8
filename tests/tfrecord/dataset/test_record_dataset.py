"""RecordDataset against a model of lists: order, resuming, parts, and refused arguments."""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs.errors import FormatError
from ffrfs.tfrecord import RecordDataset, TFRecordOptions, TFRecordWriter
from ffrfs.tfrecord.dataset.record_dataset import PartBy
from tests.tfrecord.dataset import model
from tests.tfrecord_file import flip_record, write_tfrecord


def is_even(element: object) -> bool:
    return repr(element).count("2") % 2 == 0


CALLS = st.one_of(
    st.tuples(st.just("take"), st.integers(0, 12)),
    st.tuples(st.just("skip"), st.integers(0, 5)),
    st.tuples(st.just("shard"), st.sampled_from([(1, 0), (2, 0), (2, 1), (3, 2)])),
    st.tuples(st.just("batch"), st.integers(1, 4)),
    st.tuples(st.just("repeat"), st.integers(0, 3)),
    st.tuples(st.just("map"), st.sampled_from([list, len, repr])),
    st.tuples(st.just("filter"), st.sampled_from([is_even, bool])),
    st.tuples(st.just("prefetch"), st.integers(0, 4)),
)
SIZES = st.lists(st.integers(0, 7), min_size=1, max_size=5)
READINGS = st.tuples(st.integers(1, 4), st.integers(1, 3))
BY: list[PartBy] = ["auto", "record"]
SHUFFLES = st.tuples(st.just("shuffle"), st.integers(1, 9))


def record(file: int, number: int) -> bytes:
    return b"%d.%d" % (file, number)


def write(directory: Path, sizes: list[int]) -> tuple[list[Path], list[list[bytes]]]:
    """Write files of these sizes: plain, gzip and zlib in turn."""
    paths, contents = [], []
    for file, size in enumerate(sizes):
        path = directory / f"{file}.tfrecord"
        records = [record(file, number) for number in range(size)]
        kind = ("", "GZIP", "ZLIB")[file % 3]
        with TFRecordWriter(path, TFRecordOptions(kind)) as writer:
            for one in records:
                writer.write(one)
        paths.append(path)
        contents.append(records)
    return paths, contents


def called(dataset: RecordDataset, call: tuple[str, Any]) -> RecordDataset:
    name, argument = call
    arguments = argument if name == "shard" else (argument,)
    if name == "shuffle":
        arguments = (argument, 7)
    made = getattr(dataset, name)(*arguments)
    assert isinstance(made, RecordDataset)
    return made


def flattened(contents: list[list[bytes]]) -> list[bytes]:
    return [one for records in contents for one in records]


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@settings(max_examples=40, deadline=None)
@given(SIZES, READINGS, st.lists(CALLS, max_size=4))
def test_elements_are_those_of_the_model(
    sizes: list[int], reading: tuple[int, int], calls: list[tuple[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        paths, contents = write(Path(name), sizes)
        dataset = RecordDataset(paths).interleave(*reading)
        expected = model.interleaved(contents, *reading)
        for call in calls:
            try:
                expected = model.apply(expected, call)
            except TypeError:  # a function that does not fit these elements
                return
            dataset = called(dataset, call)
        assert list(dataset) == expected
        assert list(dataset) == expected


@settings(max_examples=40, deadline=None)
@given(SIZES, READINGS, st.lists(st.one_of(CALLS, SHUFFLES), max_size=4), st.integers(0, 20))
def test_a_saved_iterator_resumes_where_it_was(
    sizes: list[int], reading: tuple[int, int], calls: list[tuple[str, Any]], given_first: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        paths, _ = write(Path(name), sizes)
        dataset = RecordDataset(paths).interleave(*reading)
        for call in calls:
            dataset = called(dataset, ("map", repr) if call[0] == "map" else call)
        whole = list(dataset)
        dataset.set_epoch(0)
        iterator = iter(dataset)
        first = [element for element, _ in zip(iterator, range(given_first), strict=False)]
        if len(first) < given_first:
            first += list(iterator)
        # zip() takes one element before it looks at the range.
        taken = whole[: given_first + 1] if len(whole) > given_first else whole
        state = pickle.loads(pickle.dumps(dataset.state_dict()))
        iterator.close()
        other = pickle.loads(pickle.dumps(dataset))
        other.load_state_dict(state)
        resumed = iter(other)
        assert pickle.loads(pickle.dumps(resumed.state_dict())) == state
        assert taken + list(resumed) == whole
        assert first == whole[:given_first]


@settings(max_examples=30, deadline=None)
@given(SIZES, st.integers(1, 5), st.lists(st.one_of(CALLS, SHUFFLES), max_size=3), st.data())
def test_parts_together_are_the_whole(
    sizes: list[int], parts: int, calls: list[tuple[str, Any]], data: st.DataObject
) -> None:
    by = data.draw(st.sampled_from(BY))
    with tempfile.TemporaryDirectory() as name:
        paths, _ = write(Path(name), sizes)
        dataset = RecordDataset(paths)
        is_batched = False
        for call in calls:
            is_batched = is_batched or call[0] == "batch"
            # The batches of a part are not those of the whole: a filter() would drop other records.
            if call[0] != "map" and not (is_batched and call[0] == "filter"):
                dataset = called(dataset, call)
        whole = Counter(one for element in dataset for one in model.flat(element))
        dataset.set_epoch(0)
        found: Counter[bytes] = Counter()
        for index in range(parts):
            part = dataset.part(parts, index, by, seed=3)
            found.update(one for element in part for one in model.flat(element))
        # After a batch() that was cut in parts, only take(), skip() and shard() could drop other
        # records, and they never come after the cut.
        assert found == whole


def test_interleave_gives_the_order_that_tensorflow_documents(directory: Path) -> None:
    paths, _ = write(directory, [6] * 5)
    dataset = RecordDataset(paths).interleave(cycle_length=2, block_length=4)
    files = [int(one.split(b".")[0]) + 1 for one in dataset]
    assert files == [
        *(1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2),
        *(3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4),
        *(5, 5, 5, 5, 5, 5),
    ]
    assert list(RecordDataset(paths, num_parallel_reads=2)) == list(
        RecordDataset(paths).interleave(2)
    )


def test_shuffle_is_the_same_for_a_seed_and_another_in_each_epoch(directory: Path) -> None:
    paths, contents = write(directory, [20, 20])
    dataset = RecordDataset(paths).shuffle(10, seed=5)
    first, second = list(dataset), list(dataset)
    again = RecordDataset(paths).shuffle(10, seed=5)
    assert [list(again), list(again)] == [first, second]
    assert first != second != flattened(contents)
    assert sorted(first) == sorted(second) == sorted(flattened(contents))
    # The buffer bounds how early a record may come.
    assert all(first.index(one) >= at - 9 for at, one in enumerate(flattened(contents)))
    turns = list(RecordDataset(paths).shuffle(10, seed=5).repeat(2))
    assert turns[:40] != turns[40:]
    assert Counter(turns[:40]) == Counter(turns[40:])
    fixed = RecordDataset(paths).shuffle(10, 5, reshuffle_each_iteration=False)
    assert list(fixed) == list(fixed)
    dataset.set_epoch(1)
    assert list(dataset) == second
    unseeded = RecordDataset(paths).shuffle(40)
    assert list(unseeded) != list(unseeded)


def test_a_seed_of_numpy_gives_the_order_of_the_same_number(directory: Path) -> None:
    paths, _ = write(directory, [20, 20])
    data = RecordDataset(paths)
    assert list(data.shuffle(40, seed=np.int64(1))) == list(data.shuffle(40, seed=1))
    parts = (data.shuffle(40).part(2, 0, seed=seed) for seed in (np.int64(1), 1))
    assert len({tuple(part) for part in parts}) == 1


def test_a_pickle_of_version_0_2_0_is_read(directory: Path) -> None:
    paths, _ = write(directory, [20, 20])
    data = RecordDataset(paths).shuffle(40, seed=1)
    old = pickle.loads(pickle.dumps(data))
    for name in ("_seed_age", "_fixed_seed"):
        vars(old).pop(name, None)
    assert list(pickle.loads(pickle.dumps(old))) == list(data)


def test_a_shuffle_without_a_seed_may_keep_its_order(directory: Path) -> None:
    paths, contents = write(directory, [20, 20])
    data = RecordDataset(paths).shuffle(40, reshuffle_each_iteration=False)
    order = list(data)
    assert sorted(order) == sorted(flattened(contents))
    assert order not in (flattened(contents), list(RecordDataset(paths).shuffle(40, None, False)))
    assert list(data) == list(pickle.loads(pickle.dumps(data))) == order
    assert list(data.repeat(2)) == order * 2
    assert [*data.take(10), *data.skip(10)] == order
    again = [one.shuffle(40, None, False) for one in (data.take(10), data.skip(10))]
    assert sorted([*again[0], *again[1]]) == sorted(order)
    whole = data.shuffle(40)  # it gives a new order each time
    assert list(whole) != list(whole)
    assert list(whole.part(1, 0, seed=1)) != list(whole.part(1, 0, seed=2))


@pytest.mark.parametrize("given_first", [0, 15, 50])
def test_a_shuffle_keeps_its_order_in_another_process(directory: Path, given_first: int) -> None:
    paths, _ = write(directory, [20, 20])
    data = RecordDataset(paths).shuffle(40, reshuffle_each_iteration=False)
    twice = data.repeat(2)
    iterator = iter(twice)
    first = [next(iterator) for _ in range(given_first)]
    other = RecordDataset(paths).shuffle(40, reshuffle_each_iteration=False).repeat(2)
    other.load_state_dict(iterator.state_dict())
    assert first + list(other) == list(twice)
    assert list(other) == list(twice)


def test_methods_do_not_change_the_data_set(directory: Path) -> None:
    paths, contents = write(directory, [5])
    dataset = RecordDataset(paths[0])
    dataset.take(1).batch(2).map(len).skip(1).shard(2, 1)
    assert list(dataset) == contents[0]
    assert list(dataset.take(-1)) == contents[0]
    assert list(dataset.batch(2, drop_remainder=True)) == [contents[0][:2], contents[0][2:4]]
    assert list(dataset.repeat().take(12)) == (contents[0] * 3)[:12]
    assert list(dataset.take(0).repeat()) == []  # TensorFlow ends it, too
    assert "take(1)" in repr(dataset.take(1))


def test_arguments_of_tensorflow_are_accepted(directory: Path) -> None:
    paths, contents = write(directory, [3, 2])
    data = RecordDataset(paths, None, 1 << 20, 1).map(len, num_parallel_calls=-1)
    assert list(data) == list(map(len, flattened(contents)))
    assert repr(data) == repr(data.prefetch(0))
    assert repr(RecordDataset(paths, None, None, 2)) == repr(RecordDataset(paths).interleave(2))


def test_an_error_of_a_filter_names_the_record(directory: Path) -> None:
    paths, _ = write(directory, [2])
    with pytest.raises(ZeroDivisionError) as raised:
        list(RecordDataset(paths).filter(lambda one: one == b"0.0" and 1 // 0))
    assert raised.value.__notes__ == [f"{paths[0]}: record 0"]
    with pytest.raises(TypeError, match=r"filter\(\) takes a function"):
        RecordDataset(paths).filter("x")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "instead"), [("cache", "by list"), ("concatenate", "files of both"), ("other", "$")]
)
def test_errors_of_missing_methods(directory: Path, name: str, instead: str) -> None:
    paths, _ = write(directory, [1])
    with pytest.raises(AttributeError, match=f"RecordDataset has no '{name}'.*{instead}"):
        getattr(RecordDataset(paths), name)


def test_a_directory_of_shards(directory: Path) -> None:
    _, contents = write(directory, [2, 3])
    dataset = RecordDataset(directory, num_parallel_reads=-1)
    assert sorted(dataset) == sorted(flattened(contents))
    assert [Path(file).name for file in dataset.files] == ["0.tfrecord", "1.tfrecord"]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda data: data.batch(0), "batch_size is 1 at least"),
        (lambda data: data.shuffle(0), "buffer_size is 1 at least"),
        (lambda data: data.shard(2, 2), "index 2 does not exist"),
        (lambda data: data.prefetch(-2), "buffer_size is -1 at least"),
        (lambda data: data.take(-2), "count is 0 at least"),
        (lambda data: data.batch(2).interleave(2), "call it first"),
        (lambda data: data.part(2, 0, "file"), 'use by="record"'),
        (lambda data: data.state_dict(), "no iterator"),
        (lambda data: data.load_state_dict({}), "not a state"),
        (lambda data: type(data)([]), "no files"),
        (lambda data: type(data)(data.files, on_error="ignore"), "on_error is"),
        (lambda data: type(data)(data.files, "BZIP2"), "compression_type"),
    ],
)
def test_invalid_arguments_are_refused(directory: Path, call: Any, text: str) -> None:
    paths, _ = write(directory, [5])
    with pytest.raises(ValueError, match=text):
        call(RecordDataset(paths))


def test_the_state_of_another_data_set_is_refused(directory: Path) -> None:
    paths, _ = write(directory, [5, 5])
    dataset = RecordDataset(paths).batch(2)
    iterator = iter(dataset)
    state = iterator.state_dict()
    with pytest.raises(ValueError, match=r"batch\(2.*batch\(3"):
        RecordDataset(paths).batch(3).load_state_dict(state)
    with pytest.raises(ValueError, match="another data set"):
        RecordDataset(paths[:1]).batch(2).load_state_dict(state)


def test_functions_for_bad_records(tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x.tfrecord", [b"0", b"1", b"x", b"3"])
    flip_record(tmp_path / "x.tfrecord", 1)

    def number(record: bytes) -> int:
        if record == b"x":
            raise FormatError("no number")
        return int(record)

    def named(error: Exception, number: int) -> str:
        return f"{type(error).__name__} {number}"

    dataset = RecordDataset(tmp_path, on_error=lambda _, number: b"%d" % (10 + number))
    assert list(dataset.map(number, on_error=named)) == [0, 11, "FormatError 2", 3]
    with pytest.raises(FormatError, match=r"x\.tfrecord: record 2: no number"):
        list(dataset.map(number))
    half = dataset.map(number, on_error=named)
    iterator = iter(half)
    assert [next(iterator), next(iterator)] == [0, 11]
    again = RecordDataset(tmp_path, on_error=lambda *_: b"7").map(number, on_error=named)
    again.load_state_dict(half.state_dict())
    iterator.close()
    assert list(again) == ["FormatError 2", 3]
    with pytest.raises(KeyError):
        list(dataset.map(lambda _: {}["a"], on_error=named))


def test_the_state_of_an_iterator_that_was_interrupted(directory: Path) -> None:
    def interrupt(_: bytes) -> None:
        raise KeyboardInterrupt

    paths, _ = write(directory, [2])
    iterator = iter(RecordDataset(paths).map(interrupt))
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    with pytest.raises(RuntimeError, match="KeyboardInterrupt has interrupted"):
        iterator.state_dict()
