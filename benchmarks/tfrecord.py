"""TFRecord files of Examples: reading, parsing, the index, and the mounted file.

Beside the PyPI package `tfrecord` (reading), protobuf (parsing: scalars.py) and a loop in C
(the index: hops.c); the mounted file beside a packed folder (mounted_examples.py); writing
beside TensorFlow, if it is there (written_tfrecord.py). All files are page-cached.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import time
import zlib
from collections import deque
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from tfrecord.reader import tfrecord_iterator

from benchmarks import data, measure, mounted_examples, page_cache, scalars, written_tfrecord
from benchmarks.contenders import NATIVE
from benchmarks.figure import Figure, Findings
from benchmarks.mounted_examples import PACKED_FOLDER, TFRECORD
from benchmarks.plan import Plan
from ffrfs.tfrecord import TFRecordReader, tf_record_iterator

TIMEOUT_S = 60
HOPS_SOURCE = Path(__file__).with_name("hops.c")
PASSES = 5  # in a round, over a file whose index takes milliseconds
ITERATOR, BATCHES, PACKAGE = "tf_record_iterator", "TFRecordReader.read", "the tfrecord package"
PARSER, PROTOBUF = "parse_example", "protobuf and Python"
INDEX, HOPS = "TFRecordReader()", "pread in C"


def run(plan: Plan) -> Findings:
    work = plan.folder / "tfrecord"
    work.mkdir()
    try:
        examples = work / "pictures.tfrecord"
        checksums = data.write_examples(examples, plan.example_count, plan.large_size)
        return Findings(
            [
                *_reading(plan, examples),
                _parsing(plan),
                _indexing(plan, examples),
                _mounted(plan, examples, checksums),
                *written_tfrecord.figures(plan, work),
            ]
        )
    finally:
        shutil.rmtree(work)


def _reading(plan: Plan, path: Path) -> list[Figure]:
    """Measure records a second: one after the other, and in random batches."""
    pick = random.Random(plan.example_count)
    batches = [
        [pick.randrange(plan.example_count) for _ in range(plan.batch_size)]
        for _ in range(plan.batch_count)
    ]
    page_cache.fill([path])
    with TFRecordReader(path) as reader:
        _check_reading(path, reader, batches)
        samples = measure.interleave(
            {
                ITERATOR: lambda: _rate(tf_record_iterator(path), plan.example_count),
                PACKAGE: lambda: _rate(tfrecord_iterator(str(path)), plan.example_count),
                BATCHES: lambda: _rate(
                    chain.from_iterable(map(reader.read, batches)),
                    plan.batch_count * plan.batch_size,
                ),
            },
            plan.rounds,
        )
    label, unit = _label(plan), "records/s"
    in_batches = f"{label}, random batches of {plan.batch_size}"
    return [
        _ratio(label, ITERATOR, PACKAGE, unit, samples, at_least=1.3),
        _ratio(in_batches, BATCHES, ITERATOR, unit, samples, at_least=0.85),
    ]


def _check_reading(path: Path, reader: TFRecordReader, batches: list[list[int]]) -> None:
    pairs = zip(tf_record_iterator(path), tfrecord_iterator(str(path)), strict=True)
    checksums = [(zlib.crc32(ours), zlib.crc32(theirs)) for ours, theirs in pairs]
    if any(ours != theirs for ours, theirs in checksums):
        raise RuntimeError(f"{ITERATOR} and {PACKAGE} read different records")
    for batch in batches:
        if list(map(zlib.crc32, reader.read(batch))) != [checksums[index][0] for index in batch]:
            raise RuntimeError(f"{BATCHES} and {ITERATOR} read different records")


def _rate(records: Iterable[object], count: int) -> float:
    """Return the records a second of an iterable that has `count` of them."""
    start = time.perf_counter()
    found = sum(1 for _ in records)
    seconds = time.perf_counter() - start
    if found != count:
        raise RuntimeError(f"{found} records of {count} were read")
    return count / seconds


def _parsing(plan: Plan) -> Figure:
    """Measure how many Examples a second become arrays, in memory."""
    batches = scalars.make_batches(plan.batch_count)
    scalars.check(batches)
    count = plan.batch_count * scalars.BATCH_SIZE

    def rate(parse: scalars.Parse) -> float:
        return count / measure.seconds(lambda: deque(map(parse, batches), maxlen=0))

    samples = measure.interleave(
        {PARSER: lambda: rate(scalars.with_ffrfs), PROTOBUF: lambda: rate(scalars.with_protobuf)},
        plan.rounds,
    )
    label = f"{len(scalars.FEATURES)} scalar features, batches of {scalars.BATCH_SIZE}"
    return _ratio(label, PARSER, PROTOBUF, "Examples/s", samples, at_least=5)


def _indexing(plan: Plan, path: Path) -> Figure:
    """Measure the milliseconds until the place of each record is known."""
    label = f"{_label(plan)}, building the index"
    if not shutil.which("cc"):
        return Figure(label, None, "x", at_most=1.2, note="not measured: there is no cc")
    hops = path.with_name("hops")
    measure.run(["cc", "-O2", "-o", hops, HOPS_SOURCE], TIMEOUT_S)
    page_cache.fill([path])

    def index_ms() -> float:
        return statistics.median(_index_ms(path, plan.example_count) for _ in range(PASSES))

    def hops_ms() -> float:
        found = json.loads(measure.run([hops, path, str(PASSES)], TIMEOUT_S))
        if found["count"] != plan.example_count:
            raise RuntimeError(f"{HOPS_SOURCE.name} counts {found['count']} records")
        return statistics.median(found["seconds"]) * 1000

    samples = measure.interleave({INDEX: index_ms, HOPS: hops_ms}, plan.rounds)
    return _ratio(label, INDEX, HOPS, "ms", samples, at_most=1.2)


def _index_ms(path: Path, count: int) -> float:
    """Return the milliseconds; checksums are verified, and no sidecar is read or written."""
    start = time.perf_counter()
    with TFRecordReader(path, sidecar=False) as reader:
        seconds = time.perf_counter() - start
        if reader.n != count:
            raise RuntimeError(f"{INDEX} counts {reader.n} records")
    return seconds * 1000


def _mounted(plan: Plan, path: Path, checksums: list[int]) -> Figure:
    name = f"{_label(plan)}, mounted, first touch of a picture"
    if NATIVE in plan.field.missing:
        note = f"not measured: {NATIVE}: {plan.field.missing[NATIVE]}"
        return Figure(name, None, "x", at_most=1.15, note=note)
    samples = mounted_examples.first_touch(plan, path, checksums)
    return _ratio(name, TFRECORD, PACKED_FOLDER, "µs a file", samples, at_most=1.15)


def _label(plan: Plan) -> str:
    return f"{plan.example_count:,} Examples of {plan.large_size / 1000:g} KB"


def _ratio(
    name: str, ours: str, theirs: str, unit: str, samples: measure.Samples[float], **target: float
) -> Figure:
    """Return ours divided by theirs; each has a sample in every round."""
    medians = [statistics.median(samples[side]) for side in (ours, theirs)]
    return Figure(
        f"{name}, {ours} by {theirs}",
        measure.median_ratio(samples[ours], samples[theirs]),
        "x",
        note="{:,.4g} and {:,.4g} {}".format(*medians, unit),
        samples={side: samples[side] for side in (ours, theirs)},
        **target,
    )
