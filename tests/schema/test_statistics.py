"""generate_statistics: all records count once, by any number of processes; errors name files."""

from __future__ import annotations

import gzip
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ffrfs.errors import ChecksumError, FfrfsError, FormatError, TruncatedError
from ffrfs.schema import generate_statistics, parallel, source
from ffrfs.tfrecord import from_dict
from tests import tfrecord_example as packed
from tests.interpreter import python
from tests.schema.records import example, sequence
from tests.tfrecord_file import flip_record, framed, write_tfrecord


def records(count: int, seed: int = 0) -> list[bytes]:
    """Return records with common, rare, empty and listed features; some differ in each record."""
    found = []
    dice = random.Random(seed)
    for i in range(count):
        features: dict[str, Any] = {
            "id": [f"{seed}-{i}"],
            "label": [dice.randrange(10)],
            "score": [dice.random()],
        }
        if dice.random() < 0.5:
            features["points"] = [dice.gauss(0, 1) for _ in range(dice.randrange(1, 4))]
        if dice.random() < 0.02:
            features["seldom"] = None
        steps = {"steps": [[dice.randrange(100)]] * 2} if dice.random() < 0.02 else {}
        found.append(sequence(features, steps) if steps else example(**features))
    return found


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder = tmp_path / "train"
    folder.mkdir()
    for number in range(3):
        write_tfrecord(folder / f"x.tfrecord-0000{number}-of-00003", records(900, number))
    data = framed(records(700, 3))
    (folder / "y.tfrecord.gz").write_bytes(gzip.compress(data))
    return folder


def serialized(*arguments: Any, **options: Any) -> bytes:
    statistics = generate_statistics(*arguments, **options).statistics
    data: bytes = statistics.SerializeToString(deterministic=True)
    return data


@pytest.mark.long
@pytest.mark.parametrize("unit", [100, 1 << 16])
def test_the_number_of_processes_changes_nothing(
    shards: Path, monkeypatch: pytest.MonkeyPatch, unit: int
) -> None:
    # These limits are small, so that files have several units, and sketches are merged.
    monkeypatch.setattr(source, "UNIT_COUNT", unit)
    monkeypatch.setattr("ffrfs.schema.quantiles.EXACT_MAX", 200)
    monkeypatch.setattr("ffrfs.schema.quantiles.LEVEL_SIZE", 200)
    monkeypatch.setattr("ffrfs.schema.value_counts.COUNTED_MAX", 300)
    assert (len(source.parts_of(str(shards / "x.tfrecord-00000-of-00003"), True)) > 1) == (
        unit < 900
    )
    write_tfrecord(shards / "large.tfrecord", records(3000, 4))  # it is divided
    alone = serialized(shards)
    assert serialized(shards, jobs=2) == alone
    assert serialized(shards, jobs=5) == alone
    assert serialized(shards, on_error="skip", jobs=2) == alone
    assert serialized(sorted(shards.iterdir())) == alone


def test_counts(shards: Path) -> None:
    calls: list[tuple[int, int]] = []
    found = generate_statistics(shards, name="train", progress=lambda *call: calls.append(call))
    (dataset,) = found.statistics.datasets
    assert (dataset.name, dataset.num_examples, found.skipped_count) == ("train", 3400, 0)
    assert sum(count for count, _ in calls) == 3400
    plain = sum(
        len(one) for number in range(4) for one in records([900, 900, 900, 700][number], number)
    )
    assert sum(size for _, size in calls) == plain
    for feature in dataset.features:
        stats = getattr(feature, feature.WhichOneof("stats")).common_stats
        assert stats.num_missing + stats.num_non_missing == 3400


def test_a_signalling_nan_is_counted_without_a_warning(tmp_path: Path) -> None:
    record = example(x=[1.0]).replace(np.float32(1).tobytes(), b"\x00\x00\xa0\x7f")
    file = write_tfrecord(tmp_path / "x.tfrecord", [record])
    found = generate_statistics([file], jobs=1).statistics
    (histogram, *_) = found.datasets[0].features[0].num_stats.histograms
    assert histogram.num_nan == 1


def test_order_of_the_files_does_not_matter(tmp_path: Path) -> None:
    first = write_tfrecord(tmp_path / "b", [example(a=["1"])] * 2)
    second = write_tfrecord(tmp_path / "a", [example(a=["2"])])
    found = [generate_statistics(files) for files in ([first, second], [second, first])]
    assert found[0].statistics == found[1].statistics
    (feature,) = found[0].statistics.datasets[0].features
    assert [one.frequency for one in feature.string_stats.top_values] == [2, 1]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_that_is_named_twice_counts_twice(tmp_path: Path, jobs: int) -> None:
    file = write_tfrecord(tmp_path / "a", [example(a=["1"])] * 2)
    assert generate_statistics([file] * 3, jobs=jobs).statistics.datasets[0].num_examples == 6


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("unit", [100, 1000])
def test_damaged_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int, unit: int
) -> None:
    monkeypatch.setattr(source, "UNIT_COUNT", unit)
    files = [write_tfrecord(tmp_path / f"{name}.tfrecord", records(300)) for name in "ab"]
    flip_record(files[1], 250)
    with pytest.raises(ChecksumError, match=rf"{files[1]}: record 250\b"):
        generate_statistics(files, jobs=jobs)
    found = generate_statistics(files, jobs=jobs, on_error="skip")
    assert found.skipped_count == 1
    assert found.statistics.datasets[0].num_examples == 599


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_after_a_skipped_record_has_the_right_number(tmp_path: Path, jobs: int) -> None:
    given = [bytes(from_dict({"a": value}).SerializeToString()) for value in (1, 2, 3, "text")]
    files = [
        write_tfrecord(tmp_path / f"{name}.tfrecord", given[: 4 - n]) for n, name in enumerate("ab")
    ]
    flip_record(files[0], 1)
    with pytest.raises(FormatError, match="record 3: feature"):
        generate_statistics(files, jobs=jobs, on_error="skip")


def test_a_file_that_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "UNIT_COUNT", 100)
    file = write_tfrecord(tmp_path / "x.tfrecord", records(300))

    def parts_of(*arguments: Any) -> list[source.Part]:
        parts = source.parts_of(*arguments)
        write_tfrecord(file, records(50))
        return parts

    monkeypatch.setattr(parallel, "parts_of", parts_of)
    with pytest.raises(FormatError, match=f"^{file}: was replaced while it was read"):
        generate_statistics(file, jobs=2)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_record_that_is_no_example(tmp_path: Path, jobs: int) -> None:
    files = [
        write_tfrecord(tmp_path / f"{name}.tfrecord", [*records(9), b"\xffno", *records(5)])
        for name in "ab"
    ]
    with pytest.raises(FormatError, match=rf"{files[0]}: record 9: is not an Example"):
        generate_statistics(files, jobs=jobs)
    found = generate_statistics(files, jobs=jobs, on_error="skip")
    assert found.skipped_count == 2
    assert found.statistics.datasets[0].num_examples == 28


def test_many_records_that_are_no_examples(tmp_path: Path) -> None:
    """The parser looks for them once in a batch, not once for each of them."""
    data = [b"\xff%d" % i if i % 2 else example(a=[i]) for i in range(20_000)]
    file = write_tfrecord(tmp_path / "x.tfrecord", data)
    found = generate_statistics(file, on_error="skip")
    assert (found.skipped_count, found.statistics.datasets[0].num_examples) == (10_000, 10_000)
    (feature,) = found.statistics.datasets[0].features
    assert (feature.num_stats.min, feature.num_stats.max) == (0, 19_998)


@pytest.mark.parametrize("jobs", [1, 2])
def test_cut_off_file(tmp_path: Path, jobs: int) -> None:
    files = [write_tfrecord(tmp_path / f"{name}.tfrecord", records(9)) for name in "ab"]
    files[1].write_bytes(files[1].read_bytes()[:-5])
    with pytest.raises(TruncatedError, match=str(files[1])):
        generate_statistics(files, jobs=jobs)
    found = generate_statistics(files, jobs=jobs, on_error="skip")
    assert (found.skipped_count, found.statistics.datasets[0].num_examples) == (1, 17)


def test_no_records(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there are no files to read: the list is empty"):
        generate_statistics([])
    with pytest.raises(FormatError, match="no records, so there are no statistics"):
        generate_statistics(write_tfrecord(tmp_path / "x.tfrecord", []))


def test_missing_file(tmp_path: Path) -> None:
    for jobs in (1, 2):
        with pytest.raises(FileNotFoundError, match=r"gone\.tfrecord"):
            generate_statistics([tmp_path / "gone.tfrecord"] * 2, jobs=jobs)


def killed(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def test_process_that_is_killed(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "summarize", killed)
    with pytest.raises(FfrfsError, match="a process that read records was killed"):
        generate_statistics(shards, jobs=2)


ENDLESS = """
import os, sys
from ffrfs.schema import generate_statistics, parallel, source
source.UNIT_COUNT = 64
def told(*_):
    print("reading", flush=True)
generate_statistics([sys.argv[1]] * 100_000, jobs=int(sys.argv[2]), progress=told)
"""


@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupt_ends_all_processes(shards: Path, jobs: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(next(shards.iterdir())), str(jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"reading\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it
        errors = process.stderr.read()
        process.stdout.read()  # ends when all processes have closed it
        process.wait(60)
    assert process.returncode in (-signal.SIGINT, 130)
    assert errors.count(b"Traceback") == 1, errors.decode()
    require_none_left(process.pid)


def require_none_left(group: int) -> None:
    deadline = time.monotonic() + 30
    while processes_of(group):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes_of(group: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if os.getpgid(int(entry)) == group:
                    found.append(int(entry))
            except ProcessLookupError:
                continue
    return found


def test_compressed_files_and_pipes_are_one_part(shards: Path, tmp_path: Path) -> None:
    assert len(source.parts_of(str(shards / "y.tfrecord.gz"), True)) == 1
    os.mkfifo(tmp_path / "pipe")
    # The pipe is not even opened, which would wait for its writer.
    assert source.parts_of(str(tmp_path / "pipe"), True) == [source.Part(str(tmp_path / "pipe"))]


def test_parts_cover_a_file(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "UNIT_COUNT", 400)
    file = str(shards / "x.tfrecord-00001-of-00003")
    parts = source.parts_of(file, True)
    assert [(part.first, part.length) for part in parts] == [(0, 400), (400, 400), (800, 100)]


def test_a_record_of_many_values_takes_a_few_times_its_memory(tmp_path: Path) -> None:
    count = 12_000_000
    values = np.random.default_rng(1).permutation(np.arange(count, dtype=np.float32))
    record = packed.example(x=packed.floats(values.tobytes()))
    write_tfrecord(tmp_path / "x.tfrecord", [record])
    done = python("-c", PEAK, tmp_path / "x.tfrecord")
    assert done.stderr == ""
    peak, mean, low, median = map(float, done.stdout.split())
    assert (mean, low) == (pytest.approx((count - 1) / 2), 0)
    assert median == pytest.approx(count / 2, rel=0.005)
    assert peak < 9 * len(record)


PEAK = """
import re, sys
from ffrfs.schema import generate_statistics
def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) << 10
before = peak()
[feature] = generate_statistics([sys.argv[1]], jobs=1).statistics.datasets[0].features
numbers = feature.num_stats
print(peak() - before, numbers.mean, numbers.min, numbers.median)
"""
