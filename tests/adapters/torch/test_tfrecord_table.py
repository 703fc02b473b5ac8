"""The tables of the tfrecord package and tf.data in docs/compatibility.md: every row is true."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tfrecord.torch
import torch
from tfrecord.reader import tfrecord_loader
from tfrecord.tools import tfrecord2idx

from ffrfs.errors import FormatError, TruncatedError
from ffrfs.tfrecord import RecordDataset, create_index, from_dict
from ffrfs.torch import MultiTFRecordDataset, RecordStream, TFRecordDataset
from tests.docs.compatibility import row_names
from tests.tfrecord_file import write_tfrecord

ROWS = row_names("The tfrecord package and tf.data")
COUNT = 6


@pytest.fixture
def file(tmp_path: Path) -> Path:
    values = ({"n": n, "b": [b"a\0", b"b"]} for n in range(COUNT))
    records = (bytes(from_dict(each).SerializeToString()) for each in values)
    return write_tfrecord(tmp_path / "0.tfrecord", records)


def names(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def check_dataset(file: Path) -> None:
    theirs = names(tfrecord.torch.TFRecordDataset.__init__)
    arguments = [str(file), None, ["n"], None, lambda item: int(item["n"][0]), None, None]
    assert len(theirs) == len(arguments)
    data = TFRecordDataset(*arguments)  # type: ignore[call-overload]
    assert list(data) == list(range(COUNT))
    named = TFRecordDataset(**dict(zip(theirs, arguments, strict=True)))
    assert list(named) == list(range(COUNT))
    assert isinstance(TFRecordDataset(file, shuffle_queue_size=3), RecordStream)


def check_index(file: Path) -> None:
    index = file.with_suffix(".tfindex")
    tfrecord2idx.create_index(str(file), str(index))
    assert TFRecordDataset(file, index, ["n"])[0]["n"] == 0
    index.write_text("0 20\n")
    with pytest.raises(FormatError, match="is not the index of"):
        TFRecordDataset(file, index)


def check_description(file: Path) -> None:
    assert TFRecordDataset(file, ["b"])[0] == {"b": [b"a\0", b"b"]}
    theirs, *_ = tfrecord_loader(str(file), None, ["b"])
    assert theirs["b"].tolist() == [b"a", b"b"]


def check_sequences(file: Path) -> None:
    values = {"context": {"n": 1}, "feature_lists": {"steps": [[1], [2]]}}
    write_tfrecord(file, [bytes(from_dict(values).SerializeToString())])
    assert list(map(list, tfrecord_loader(str(file), None))) == [["n"]]
    with pytest.raises(FormatError, match=r'\("steps"\)'):
        TFRecordDataset(file)[0]
    assert TFRecordDataset(file, sequence_description=[])[0][1]["steps"] == [1, 2]


def check_compression(file: Path) -> None:
    file.write_bytes(zlib.compress(file.read_bytes()))
    assert len(list(TFRecordDataset(file, compression_type="zlib"))) == COUNT  # type: ignore[call-overload]


def check_multi(file: Path) -> None:
    theirs = names(tfrecord.torch.MultiTFRecordDataset.__init__)
    assert names(MultiTFRecordDataset) == [*theirs, "on_error", "store"]  # by keyword only
    write_tfrecord(file.with_name("1.tfrecord"), [])
    pattern, splits = str(file.with_name("{}.tfrecord")), {"0": 1.0, "1": 1.0}

    def draw() -> list[int]:
        torch.manual_seed(5)
        data = MultiTFRecordDataset(pattern, None, splits, ["n"], 4)
        return [int(item["n"][0]) for item, _ in zip(data, range(30), strict=False)]

    assert set(draw()) == set(range(COUNT))
    assert draw() == draw()


def check_create_index(file: Path) -> None:
    assert names(create_index) == names(tfrecord2idx.create_index)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(TruncatedError):
        create_index(file, file.with_suffix(".idx"))
    assert not file.with_suffix(".idx").exists()


def check_files(file: Path) -> None:
    assert len(list(RecordDataset(file.parent, "", 1 << 20, 3))) == COUNT
    file.write_bytes(zlib.compress(file.read_bytes()))
    assert len(list(RecordDataset([file]))) == len(list(RecordDataset([file], "ZLIB"))) == COUNT
    with pytest.raises(ValueError, match="no files"):
        RecordDataset([])


def check_interleave(file: Path) -> None:
    data = RecordDataset([file, file]).interleave(cycle_length=2, block_length=2)
    records = list(RecordDataset(file))
    assert list(data)[:5] == [*records[:2], *records[:2], records[2]]
    with pytest.raises(ValueError, match="first"):
        data.take(1).interleave(2)


def check_shuffle(file: Path) -> None:
    data = RecordDataset(file).shuffle(buffer_size=6, seed=1, reshuffle_each_iteration=True)
    assert list(data) == list(RecordDataset(file).shuffle(6, 1)) != list(data)


def check_map(file: Path) -> None:
    calls = RecordDataset(file).map(len, num_parallel_calls=4, deterministic=False)
    assert list(calls) == list(map(len, RecordDataset(file)))
    with pytest.raises(ZeroDivisionError) as raised:
        list(RecordDataset(file).map(lambda _: 1 // 0).prefetch(2))
    assert raised.value.__notes__ == [f"{file}: record 0"]


def check_state(file: Path) -> None:
    data = RecordDataset(file).shuffle(3, 1).prefetch(2)
    whole = list(data)
    data.set_epoch(0)
    iterator = iter(data)
    first = [next(iterator), next(iterator)]
    data.load_state_dict(data.state_dict())
    assert first + list(data) == whole


def check_stream(file: Path) -> None:
    data = RecordDataset([file, file])
    assert len(data.part(2, 0).files) == 1
    assert len(data.part(3, 0).files) == 2
    assert [len(list(data.part(3, at))) for at in range(3)] == [4, 4, 4]


def gives(
    call: Callable[[RecordDataset], RecordDataset], numbers: list[Any]
) -> Callable[[Path], None]:
    def check(file: Path) -> None:
        records = list(RecordDataset(file))
        found = call(RecordDataset(file))
        assert [
            [records.index(one) for one in each] if isinstance(each, list) else records.index(each)
            for each in found
        ] == numbers

    return check


def lacks(name: str) -> Callable[[Path], None]:
    def check(file: Path) -> None:
        with pytest.raises(AttributeError, match=f"no '{name}': "):
            getattr(RecordDataset(file), name)

    return check


CHECKS: dict[str, Callable[[Path], None]] = {
    "tfrecord.torch.TFRecordDataset": check_dataset,
    "index_path": check_index,
    "description": check_description,
    "sequence_description": check_sequences,
    "compression_type": check_compression,
    "tfrecord.torch.MultiTFRecordDataset": check_multi,
    "tfrecord.tools.tfrecord2idx.create_index": check_create_index,
    "tf.data.TFRecordDataset": check_files,
    ".interleave": check_interleave,
    ".shard": gives(lambda data: data.shard(num_shards=2, index=1), [1, 3, 5]),
    ".shuffle": check_shuffle,
    ".batch": gives(
        lambda data: data.batch(batch_size=4, drop_remainder=False), [[0, 1, 2, 3], [4, 5]]
    ),
    ".map": check_map,
    ".filter": gives(lambda data: data.filter(lambda one: True), [*range(6)]),
    ".prefetch": gives(lambda data: data.prefetch(buffer_size=2), [*range(6)]),
    ".repeat": gives(lambda data: data.repeat(count=2), [*range(6), *range(6)]),
    ".take": gives(lambda data: data.take(count=2), [0, 1]),
    ".skip": gives(lambda data: data.skip(count=4), [4, 5]),
    ".cache": lacks("cache"),
    ".concatenate": lacks("concatenate"),
    "tf.train.Checkpoint": check_state,
    "AutoShardPolicy.AUTO": check_stream,
}


def test_every_row_has_a_check() -> None:
    assert list(CHECKS) == ROWS


@pytest.mark.parametrize("row", CHECKS)
def test_row(file: Path, row: str) -> None:
    CHECKS[row](file)
