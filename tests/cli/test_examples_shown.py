"""`ffrfs head` and `ffrfs cat --example`: Examples for people, and as JSON."""

from __future__ import annotations

import base64
import gzip
import json
import os
from pathlib import Path

import pytest

from ffrfs.convert.example_json import from_json
from ffrfs.tfrecord import from_dict
from tests.ascii_locale import ASCII
from tests.cli.command_run import Run
from tests.interpreter import python
from tests.tfrecord_file import flip_record, write_tfrecord

JPEG = b"\xff\xd8\xff\xe0" + bytes(1996)


def serialized(values: dict[str, object]) -> bytes:
    message: bytes = from_dict(values).SerializeToString(deterministic=True)
    return message


EXAMPLE = serialized(
    {
        "label": 7,
        "image/encoded": JPEG,
        "x": [0.1, float("nan"), -2.0],
        "many": list(range(100)),
        "text": "café",
        "long": "word " * 1000,
        "raw": bytes([0, 1, 255]),
        "two": [b"\x89PNG\r\n\x1a\n", b""],
        "none": None,
    }
)
SEQUENCE = serialized(
    {"context": {"id": 5}, "feature_lists": {"frames": [[1.5, 2.0]] * 9, "no": [], "one": [[b"a"]]}}
)
OTHER = b"no example at all\n"
RECORDS = [EXAMPLE, SEQUENCE, OTHER, *(serialized({"i": i}) for i in range(20))]

LINES = [
    f"record 0: Example, {len(EXAMPLE):,} bytes",
    "  image/encoded  bytes       JPEG (2,000 bytes)",
    "  label          int64       7",
    f'  long           bytes       "{"word " * 12}…" (UTF-8 text, 5,000 bytes)',
    "  many           int64[100]  0, 1, 2, 3, 4, 5, 6, 7, …",
    "  none           none",
    "  raw            bytes       3 bytes 0001ff",
    '  text           bytes       "café"',
    '  two            bytes[2]    PNG (8 bytes), ""',
    "  x              float[3]    0.1, nan, -2.0",
]
SEQUENCE_LINES = [
    f"record 1: SequenceExample, {len(SEQUENCE)} bytes",
    "  id         int64     5",
    *[f"  frames[{i}]  float[2]  1.5, 2.0" for i in range(8)],
    "  frames[…]            9 steps in all",
    "  no[]                 no steps",
    '  one[0]     bytes     "a"',
]
OTHER_LINES = ['record 2: not an Example: "no example at all\\n"']


@pytest.fixture(params=["plain", "gzip"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = write_tfrecord(tmp_path / "x.tfrecord", RECORDS)
    if request.param == "gzip":
        path.write_bytes(gzip.compress(path.read_bytes()))
    return path


def test_head(ffrfs: Run, file: Path) -> None:
    assert ffrfs("head", "-n", "3", file).said == [*LINES, "", *SEQUENCE_LINES, "", *OTHER_LINES]
    assert sum(line.startswith("record ") for line in ffrfs("head", file).lines) == 5
    assert sum(line.startswith("record ") for line in ffrfs("head", "-n99", file).lines) == 23


def test_head_reads_no_more_than_it_shows(ffrfs: Run, tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [EXAMPLE, bytes(8 << 20), EXAMPLE])
    flip_record(file, 1)
    assert ffrfs("head", "-n", "1", file).lines == LINES
    assert ffrfs("head", "-n", "2", file).status == 1


def test_cat(ffrfs: Run, file: Path) -> None:
    assert ffrfs("cat", "--example", file, "1", "2").said == [*SEQUENCE_LINES, "", *OTHER_LINES]
    (record,) = json.loads(ffrfs("cat", "--example", "--json", file, "22").out)
    assert record == {"record": 22, "size": 14, "features": {"i": {"int64_list": [19]}}}
    assert ffrfs("cat", "--example", file, "23").complaint == f"{file}: has no record 23: it has 23"


def test_cat_of_shards(ffrfs: Run, tmp_path: Path) -> None:
    for i, part in enumerate((RECORDS[:2], RECORDS[2:])):
        write_tfrecord(tmp_path / f"x.tfrecord-{i:05}-of-00002", part)
    assert ffrfs("cat", "--example", tmp_path, "2", "0").lines == [*OTHER_LINES, "", *LINES]


def test_head_json_shows_whole_records(ffrfs: Run, file: Path) -> None:
    first, second, third, *_ = json.loads(ffrfs("head", "--json", file).out)
    assert (first.pop("record"), first.pop("size")) == (0, len(EXAMPLE))
    assert from_json(first).SerializeToString(deterministic=True) == EXAMPLE
    assert base64.b64decode(first["features"]["image/encoded"]["bytes_list"][0]) == JPEG
    assert first["features"]["x"] == {"float_list": [0.1, "NaN", -2.0]}
    del second["record"], second["size"]
    assert from_json(second).SerializeToString(deterministic=True) == SEQUENCE
    assert third == {"record": 2, "size": 18, "bytes": base64.b64encode(OTHER).decode()}


@pytest.mark.parametrize("command", [["head"], ["cat", "--example"]])
def test_hostile_names_and_values(ffrfs: Run, tmp_path: Path, command: list[str]) -> None:
    evil = "\x1b[31m\n\r\x9b\u202e\x00"
    records = [serialized({evil: evil.rstrip("\0"), "n" * 5000: [b"a\n\x1b[2J"] * 1000, "": 1})]
    file = write_tfrecord(tmp_path / "x.tfrecord", records)
    done = ffrfs(*command, file, *["0"] * (len(command) - 1))
    assert done.status == 0
    text = done.out.decode()
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(done.lines) == 4
    assert len(text) < 1000
    assert r"\x1b[31m\n\r\u009b\u202e\x00" in text


def test_characters_outside_of_the_locale_are_escaped(tmp_path: Path) -> None:
    write_tfrecord(tmp_path / "x.tfrecord", [serialized({"é😀": "café"})])
    words = ("-m", "ffrfs", "head", tmp_path / "x.tfrecord")
    done = python(*words, env=os.environ | ASCII, text=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.splitlines()[1] == rb'  \u00e9\U0001f600  bytes  "caf\u00e9"'
