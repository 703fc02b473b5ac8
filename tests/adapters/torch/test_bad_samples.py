"""on_error: damaged samples are left out or replaced, in batches, alone and in workers."""

from __future__ import annotations

import copy
import errno
import gzip
import multiprocessing
import os
import pickle
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import ConcatDataset as TorchConcat
from torch.utils.data import DataLoader as TorchLoader

from ffrfs import ChecksumError, FfrfsError, FormatError, OptionError, pack_folder
from ffrfs.adapters.bad_samples import Bad, BadSamples
from ffrfs.tfrecord import from_dict
from ffrfs.torch import (
    ConcatDataset,
    DataLoader,
    Dataset,
    MultiTFRecordDataset,
    PackedFolderDataset,
    Subset,
    TFRecordDataset,
)
from tests.adapters.torch.batches import flat, same
from tests.ffrecord_file import flip_byte, record_extents, write_records
from tests.interpreter import python
from tests.tfrecord_file import flip_record, tfrecord_extents, write_tfrecord

COUNT = 12
BAD = (3, 4, 9)


def flip(pack: Path, numbers: Sequence[int]) -> None:
    extents = record_extents(pack)
    for number in numbers:
        flip_byte(pack, extents[number][0])


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    (tmp_path / "s" / "c").mkdir(parents=True)
    for i in range(COUNT):
        (tmp_path / "s" / "c" / f"{i:02}").write_bytes(b"%d" % i * 2000)
    pack_folder(tmp_path / "s", tmp_path / "x.ffr")
    paths = PackedFolderDataset(tmp_path / "x.ffr").paths
    assert paths == [f"c/{i:02}" for i in range(COUNT)]
    flip(tmp_path / "x.ffr", BAD)
    return tmp_path / "x.ffr"


def name_of(path: str, _: object) -> str:
    return path[2:]


GOOD = [f"{i:02}" for i in range(COUNT) if i not in BAD]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"num_workers": 2},
        {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": "forkserver"},
    ],
    ids=["alone", "fork", "forkserver"],
)
def test_skip_and_report(pack: Path, caplog: pytest.LogCaptureFixture, how: dict[str, Any]) -> None:
    dataset = PackedFolderDataset(pack, loader=name_of, on_error="skip")
    loader = DataLoader(dataset, batch_size=5, collate_fn=same, **how)
    for _ in range(2):
        caplog.clear()
        batches = list(loader)
        assert [len(batch) for batch in batches] == [3, 4, 2]
        assert [name for name, _ in flat(batches)] == GOOD
        (line,) = [text for text in caplog.messages if "a sample" not in text]
        assert line.startswith("ffrfs: 3 samples could not be read: ")
        assert [f"c/{i:02}" in line for i in BAD] == [True] * 3
    assert dataset.bad_samples.report() is None


def test_a_bad_item_becomes_the_next_good_one(pack: Path) -> None:
    dataset = PackedFolderDataset(pack, loader=name_of, on_error="skip")
    assert [dataset[i][0] for i in (2, 3, 4, -1)] == ["02", "05", "05", "11"]
    assert dataset.__getitems__([3, 4]) == [("05", 0)]
    assert dataset.__getitems__([]) == []
    both = TorchConcat([dataset, dataset])
    assert [name for name, _ in flat(TorchLoader(both, 8, collate_fn=same))][:5] == [
        *("00", "01", "02", "05", "05")
    ]


def test_raise_is_the_default(pack: Path) -> None:
    with pytest.raises(ChecksumError, match="c/03"):
        PackedFolderDataset(pack)[3]


def test_a_function_replaces_bad_samples(pack: Path) -> None:
    told: list[Any] = []

    def replaced(error: Exception, path: str) -> str:
        told.append((type(error), path))
        return "other"

    dataset = PackedFolderDataset(pack, loader=name_of, on_error=replaced)
    assert dataset.__getitems__([2, 3, 9, 5]) == [("02", 0), "other", "other", ("05", 0)]
    assert told == [(ChecksumError, "c/03"), (ChecksumError, "c/09")]


def test_skip_raises_if_no_sample_is_good(pack: Path) -> None:
    flip(pack, [i for i in range(COUNT) if i not in BAD])
    with pytest.raises(ChecksumError, match="c/00"):
        PackedFolderDataset(pack, on_error="skip")[0]


def test_errors_other_than_damage_are_raised(pack: Path) -> None:
    def failing(path: str, _: object) -> str:
        raise OSError(errno.EIO, "of another disk")

    with pytest.raises(OSError, match="of another disk"):
        PackedFolderDataset(pack, loader=failing, on_error="skip")[0]
    with pytest.raises(IndexError):
        PackedFolderDataset(pack, on_error="skip")[COUNT]


class Texts(Dataset):
    def process(self, indices: Sequence[Any], data: list[Any]) -> list[Any]:
        return [
            f"{index} {bytes(each[:2]).decode()}" for index, each in zip(indices, data, strict=True)
        ]


def test_records(tmp_path: Path) -> None:
    path = write_records(tmp_path / "r.ffr", [b"%02d" % i for i in range(6)])
    flip(path, [1, 5])
    dataset = Texts(path, on_error="skip")
    assert dataset[[0, 1, 2, 5]] == ["0 00", "2 02"]
    assert dataset[[1]] == ["2 02"]
    assert dataset[[5]] == ["0 00"]
    assert Subset(dataset, [4, 5, 0])[[0, 1, 2]] == ["4 04", "0 00"]
    replaced = Texts(path, on_error=lambda error, number: number)
    assert replaced[[0, 1, 2, 5]] == ["0 00", 1, "2 02", 5]
    flip(path, [0, 2, 3, 4])
    with pytest.raises(ChecksumError, match="record 3"):
        dataset[[3, 1]]


def test_bad_records_of_several_sets_are_counted_once(tmp_path: Path) -> None:
    path = write_records(tmp_path / "r.ffr", [b"%02d" % i for i in range(6)])
    flip(path, [1, 5])
    dataset = Texts(path, on_error="skip")
    both = ConcatDataset([dataset, dataset])
    assert both[[0, 7, 2]] == ["0 00", "2 02", "2 02"]  # 7 is the batch's only item of the second
    assert both[[9, 0, 7, 1, 8, 4]] == ["3 03", "0 00", "2 02", "4 04"]
    assert dataset.bad_samples.count() == 3


def test_samples_of_several_sets_stay_in_order(tmp_path: Path) -> None:
    path = write_records(tmp_path / "r.ffr", [b"%02d" % i for i in range(6)])
    good = Texts(shutil.copy(path, tmp_path / "good.ffr"), on_error="skip")
    flip(path, [1, 5])
    some = Texts(path, on_error="skip")
    for both in (
        ConcatDataset([some, good]),
        ConcatDataset([Subset(some, range(6)), good]),
        ConcatDataset([ConcatDataset([some]), good]),
    ):
        assert both[[1, 9, 0, 10, 2]] == ["3 03", "0 00", "4 04", "2 02"]
        assert both[[6, 5, 7, 1]] == ["0 00", "2 02", "1 01"]  # the next good one replaces 5 and 1
        assert type(both[[0, 6]]) is list


def test_errors_of_process_are_raised(tmp_path: Path) -> None:
    class Failing(Dataset):
        def process(self, indices: Sequence[Any], data: list[Any]) -> list[Any]:
            raise OSError(errno.EIO, "of another disk")

    path = write_records(tmp_path / "r.ffr", [b"one"])
    with pytest.raises(OSError, match="of another disk"):
        Failing(path, on_error="skip")[[0]]


def test_examples(tmp_path: Path) -> None:
    records = [from_dict({"label": i}).SerializeToString() for i in range(6)]
    records[2] = b"no Example"
    path = write_tfrecord(tmp_path / "x.tfrecord", records)
    flip_record(path, 4)
    dataset = TFRecordDataset(path, ["label"], lambda item: int(item["label"][0]), on_error="skip")
    assert dataset.__getitems__(range(6)) == [0, 1, 3, 5]
    assert dataset[2] == 3
    report = dataset.bad_samples.report()
    assert report is not None
    assert report.startswith("3 samples could not be read: ")


class Label:
    def __call__(self, item: Any) -> int:
        return int(item["label"][0])


class Noted:
    def __call__(self, error: Exception, number: int) -> str:
        return f"{type(error).__name__} {number}"


COMPRESSED = {"compression_type": "gzip"}
SHUFFLED = {"shuffle_queue_size": 3}


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Of eight records, 2 is no Example, 4 is damaged, and 7 is cut off."""
    records = [from_dict({"label": i}).SerializeToString() for i in range(8)]
    records[2] = b"no Example"
    path = write_tfrecord(tmp_path / "x.tfrecord", records)
    flip_record(path, 4)
    path.write_bytes(path.read_bytes()[:-3])
    return path


@pytest.mark.parametrize(
    ("how", "workers"), [(COMPRESSED, 0), (SHUFFLED, 0), (COMPRESSED | SHUFFLED, 2)]
)
def test_streams(
    examples: Path, caplog: pytest.LogCaptureFixture, how: dict[str, Any], workers: int
) -> None:
    if "compression_type" in how:
        examples.write_bytes(gzip.compress(examples.read_bytes()))
    options: dict[str, Any] = {"transform": Label(), **how}
    with pytest.raises(FfrfsError):
        list(TFRecordDataset(examples, ["label"], **options))
    skipping = TFRecordDataset(examples, ["label"], on_error="skip", **options)
    processes = {"num_workers": workers}
    if workers:
        processes |= {"multiprocessing_context": "forkserver", "timeout": 60}
    loader = DataLoader(skipping, 2, collate_fn=same, **processes)
    for _ in range(2):
        caplog.clear()
        assert sorted(flat(loader)) == [0, 1, 3, 5, 6]
        (line,) = [text for text in caplog.messages if "a sample" not in text]
        assert line.startswith("ffrfs: 3 samples could not be read: ")
        assert [f"record {i}" in line for i in range(8)] == [i in (2, 4, 7) for i in range(8)]
    replacing = TFRecordDataset(examples, ["label"], on_error=Noted(), **options)
    found = flat(DataLoader(replacing, 2, collate_fn=same, **processes))
    assert sorted(map(str, found)) == [
        *("0", "1", "3", "5", "6"),
        *("ChecksumError 4", "FormatError 2", "TruncatedError 7"),
    ]


def test_mixed_streams(examples: Path) -> None:
    mixed = MultiTFRecordDataset(
        f"{examples.parent}/{{}}.tfrecord",
        None,
        {"x": 1},
        ["label"],
        transform=Label(),
        infinite=False,
        on_error="skip",
    )
    assert list(mixed) == [0, 1, 3, 5, 6]
    assert "3 samples could not be read" in str(mixed.bad_samples.report())


def test_errors_other_than_damage_end_a_stream(examples: Path) -> None:
    def failing(item: object) -> None:
        raise FormatError("of another file")

    stream = TFRecordDataset(
        examples, ["label"], transform=failing, shuffle_queue_size=2, on_error="skip"
    )
    with pytest.raises(FormatError, match="of another file"):
        list(stream)


def test_a_stream_ends_at_a_corrupt_length(examples: Path) -> None:
    content = bytearray(examples.read_bytes())
    content[tfrecord_extents(bytes(content))[5][0] + 8] ^= 1  # the checksum of a length
    examples.write_bytes(content)
    for on_error in ("skip", Noted()):
        stream = TFRecordDataset(
            examples, ["label"], transform=Label(), shuffle_queue_size=1, on_error=on_error
        )
        with pytest.raises(FfrfsError, match="record 5 "):
            list(stream)


def test_a_report_names_at_most_ten_samples(pack: Path) -> None:
    bad = BadSamples("skip")

    def read(keys: Sequence[int]) -> list[int]:
        if max(keys) >= 2:
            raise ChecksumError(f"f{max(keys)}")
        return list(keys)

    assert bad.items(range(14), range(14), read, lambda _, value: value) == [0, 1]
    shown = "; ".join(f"f{i}" for i in range(2, 12))
    assert bad.report() == f"12 samples could not be read: {shown} (and 2 more)"
    assert bad.report() is None


def test_a_worker_that_outlives_the_data_set_leaves_no_file() -> None:
    samples = BadSamples("skip")
    notes = Path(samples._notes)
    other = pickle.loads(pickle.dumps(samples))
    other.settle([1], [Bad(ChecksumError("x"))], str)
    assert (samples.count(), notes.exists()) == (1, True)
    del samples
    other.settle([2], [Bad(ChecksumError("y"))], str)
    assert not notes.exists()


@pytest.mark.parametrize("method", ["deepcopy", "pickle"])
def test_a_copy_counts_after_its_original_was_deleted(method: str) -> None:
    samples = BadSamples("skip")
    if method == "deepcopy":
        other = copy.deepcopy(samples)
        del samples
    else:
        sent = pickle.dumps(samples)
        del samples
        other = pickle.loads(sent)
    other.settle([1], [Bad(ChecksumError("x"))], str)
    notes = Path(other._notes)
    assert (other.count(), notes.exists()) == (1, True)
    del other
    assert not notes.exists()


def test_a_copy_keeps_the_count_of_its_deleted_original(pack: Path) -> None:
    dataset = PackedFolderDataset(pack, loader=name_of, on_error="skip")
    other = pickle.loads(pickle.dumps(dataset))
    assert dataset[BAD[0]] == ("05", 0)
    notes = os.stat(dataset.bad_samples._notes)
    del dataset
    loader = DataLoader(other, batch_size=4, num_workers=1, collate_fn=same)
    assert [name for name, _ in flat(loader)] == GOOD
    assert other.bad_samples.count() == 2 + len(BAD)
    assert os.path.samestat(os.stat(other.bad_samples._notes), notes)


_kept: list[BadSamples] = []


def keep_one(pipe: Any) -> None:
    _kept.append(BadSamples("skip"))
    pipe.send((_kept[0]._notes, os.path.exists(_kept[0]._notes)))


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_process_that_makes_a_data_set_leaves_no_file(method: str) -> None:
    context = multiprocessing.get_context(method)
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=keep_one, args=(sending,))  # type: ignore[attr-defined]
    process.start()
    sending.close()
    notes, was_there = receiving.recv()
    process.join()
    assert (was_there, os.path.exists(notes)) == (True, False)


def test_a_terminated_process_leaves_no_file(tmp_path: Path) -> None:
    program = (
        "import os, signal; from ffrfs.adapters.bad_samples import *; "
        "samples = BadSamples('skip'); samples.settle([1], [Bad(OSError('x'))], str); "
        "assert samples.count() == 1; os.kill(os.getpid(), signal.SIGTERM)"
    )
    done = python("-c", program, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert (done.returncode, os.listdir(tmp_path)) == (-signal.SIGTERM, [])


def test_a_copy_does_not_use_the_file_of_another_process() -> None:
    samples = BadSamples("skip")
    gone = vars(BadSamples("skip"))
    other = BadSamples.__new__(BadSamples)
    other.__setstate__({**gone, "_notes": samples._notes})  # its pid and descriptor were reused
    other.settle([1], [Bad(ChecksumError("x"))], str)
    assert (samples.count(), other.count()) == (0, 1)


def test_wrong_value_of_on_error() -> None:
    with pytest.raises(OptionError, match='on_error is "raise", "skip" or a function'):
        BadSamples("ignore")  # type: ignore[arg-type]
