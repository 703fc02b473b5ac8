"""The commands that read, on TFRecord files: plain, compressed, in shards, damaged."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import zlib
from pathlib import Path

import numpy as np
import pytest

from ffrfs.tfrecord import SequenceExample, TFRecordWriter, from_dict
from ffrfs.tfrecord.verify import verify
from tests.cli.command_run import Run
from tests.interpreter import python
from tests.tfrecord_file import flip_record, framed, tfrecord_extents, write_tfrecord

COUNT = 12
PNG = b"\x89PNG\r\n\x1a\n"
WRAP = {"none": bytes, "gzip": gzip.compress, "zlib": zlib.compress}


def example(i: int) -> bytes:
    values = {"image/encoded": PNG + bytes([i]) * i, "label": i, "x": [i / 2, -1.0]}
    if i % 4 == 0:
        values["rare"] = [b"name"] * (i // 4)
    serialized: bytes = from_dict(values).SerializeToString()
    return serialized


RECORDS = [*map(example, range(COUNT)), b"no example at all\n"]
SIZE = sum(map(len, RECORDS))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", RECORDS)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder = tmp_path / "shards"
    folder.mkdir()
    for i, part in enumerate((RECORDS[:5], RECORDS[5:])):
        write_tfrecord(folder / f"x.tfrecord-{i:05}-of-00002", part)
    return folder


def test_info(ffrfs: Run, file: Path) -> None:
    sizes = sorted(map(len, RECORDS))
    assert ffrfs("info", file).lines == [
        f"file             {file}",
        "kind             TFRecord",
        "compression      none",
        "files            1",
        "records          13",
        f"bytes            {SIZE:,}",
        f"on disk          {SIZE + 16 * 13:,}",
        "sidecars         0",
        f"record sizes     {sizes[0]} to {sizes[-1]}, median {sizes[6]}",
    ]
    assert json.loads(ffrfs("info", "--json", file).out) == {
        "file": str(file),
        "kind": "TFRecord",
        "records": 13,
        "bytes": SIZE,
        "files": [
            {
                "file": str(file),
                "compression": "none",
                "records": 13,
                "bytes": SIZE,
                "file_size": SIZE + 16 * 13,
                "sidecar": False,
            }
        ],
        "sizes": {"min": sizes[0], "median": sizes[6], "max": sizes[-1]},
    }
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("compression", WRAP)
def test_info_counts_whatever_the_compression(ffrfs: Run, tmp_path: Path, compression: str) -> None:
    file = tmp_path / "x.tfrecord"
    file.write_bytes(WRAP[compression](framed(RECORDS)))
    found = json.loads(ffrfs("info", "--json", file).out)
    assert (found["records"], found["bytes"]) == (13, SIZE)
    assert found["files"][0]["compression"] == compression
    assert found["files"][0]["file_size"] == file.stat().st_size
    assert f"compression      {compression}" in ffrfs("info", file).lines


def test_info_of_shards(ffrfs: Run, shards: Path) -> None:
    (shards / "y.tfrecord.gz").write_bytes(gzip.compress(framed(RECORDS)))
    lines = ffrfs("info", shards).lines
    assert "files            3" in lines
    assert "records          26" in lines
    assert "compression      gzip, none" in lines
    found = json.loads(ffrfs("info", "--json", shards).out)
    assert [shard["records"] for shard in found["files"]] == [5, 8, 13]


def test_info_of_no_records(ffrfs: Run, tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", [])
    done = ffrfs("info", "--json", file)
    assert (done.status, json.loads(done.out)["sizes"]) == (0, None)
    assert json.loads(ffrfs("info", "--schema", "--json", file).out)["features"] == []


def test_schema(ffrfs: Run, file: Path) -> None:
    assert ffrfs("info", "--schema", file).said == [
        f"file             {file}",
        "Examples         12",
        "other records    1",
        "",
        "feature        type   presence                   values  domain",
        "image/encoded  bytes  required                   1       8 to 19 bytes",
        "label          int64  required                   1       0 to 11",
        "rare           bytes  optional, 3 of 12 (25.0%)  0 to 2  4 bytes",
        "x              float  required                   2       -1 to 5.5",
    ]


def test_schema_as_json(ffrfs: Run, tmp_path: Path) -> None:
    records = [
        from_dict({"x": [1.5, float("inf")], "n": 2**62}).SerializeToString(),
        from_dict({"x": [float("nan")], "b": [b"", b"abc"]}).SerializeToString(),
    ]
    file = write_tfrecord(tmp_path / "x.tfrecord", records)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    found = json.loads(ffrfs("info", "--schema", "--json", file).out, parse_constant=refuse)
    features = {feature.pop("name"): feature for feature in found.pop("features")}
    assert found == {"file": str(file), "examples": 2, "sequence_examples": 0, "others": 0}
    assert features["x"] == {
        "type": "float",
        "is_sequence": False,
        "present": 2,
        "fraction": 1.0,
        "steps": None,
        "values": {"min": 1, "max": 2},
        "domain": {"min": 1.5, "max": "Infinity"},
        "nan": 1,
    }
    assert (features["n"]["fraction"], features["n"]["domain"]["max"]) == (0.5, 2**62)
    assert features["b"]["domain"] == {"min": 0, "max": 3}


def test_schema_of_sequences(ffrfs: Run, tmp_path: Path) -> None:
    sequence = from_dict({"context": {"id": 7}, "feature_lists": {"frames": [[1.5, 2.0], [3.0]]}})
    assert isinstance(sequence, SequenceExample)
    file = write_tfrecord(tmp_path / "x.tfrecord", [sequence.SerializeToString()])
    lines = ffrfs("info", "--schema", file).lines
    assert "SequenceExamples 1" in lines
    assert lines[-3].split() == ["feature", "type", "presence", "steps", "values", "domain"]
    assert lines[-2].split() == ["id", "int64", "required", "-", "1", "7"]
    assert " ".join(lines[-1].split()) == "frames float required 2 1 to 2 1.5 to 3"


def test_schema_of_the_first_records(ffrfs: Run, shards: Path) -> None:
    found = json.loads(ffrfs("info", "--schema", "--json", "--limit", "7", shards).out)
    assert (found["examples"], found["others"]) == (7, 0)
    # Records after the limit are not read.
    flip_record(shards / "x.tfrecord-00001-of-00002", 7)
    assert ffrfs("info", "--schema", "--limit", "4", shards).status == 0
    assert ffrfs("info", "--schema", shards).status == 1


@pytest.mark.parametrize("compression", WRAP)
def test_verify(ffrfs: Run, tmp_path: Path, compression: str) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", RECORDS)
    file.write_bytes(WRAP[compression](file.read_bytes()))
    assert ffrfs("verify", file).said == [f"{file}: 13 records, {SIZE:,} bytes, all records good"]
    assert ffrfs("verify", "-q", file).out == b""
    report = {"file": str(file), "good": True, "records": 13, "bytes": SIZE, "bad": []}
    assert json.loads(ffrfs("verify", "--json", file).out) == report


def test_verify_names_every_damaged_record(ffrfs: Run, shards: Path) -> None:
    first, second = sorted(shards.iterdir())
    places = [f"{first}: {flip_record(first, 3)}", f"{second}: {flip_record(second, 0)}"]
    places.append(f"{second}: {flip_record(second, 7)}")
    done = ffrfs("verify", shards)
    assert done.status == 1
    assert [line.split(": checksum mismatch")[0] for line in done.err.splitlines()] == [
        f"ffrfs: {place}" for place in places
    ]
    assert done.lines[0].endswith(", 3 of them damaged")
    assert done.lines[0].startswith(f"{shards}: 13 records, ")
    report = json.loads(ffrfs("verify", "--json", shards).out)
    assert report["good"] is False
    assert [(bad["file"], bad["record"]) for bad in report["bad"]] == [
        (str(first), 3),
        (str(second), 0),
        (str(second), 7),
    ]


def test_a_damaged_record_is_reported_as_soon_as_it_is_found(shards: Path) -> None:
    files = [os.fspath(file) for file in sorted(shards.iterdir())]
    flip_record(Path(files[0]), 1)
    seen: list[object] = []
    report = verify(files, lambda records, _: seen.append(records), seen.append)
    assert seen == [1, *report.bad, *range(3, 14)]


def test_verify_after_a_corrupt_length(ffrfs: Run, shards: Path) -> None:
    first, second = sorted(shards.iterdir())
    places = [f"{first}: {flip_record(first, 2, place=0)}", f"{second}: {flip_record(second, 1)}"]
    done = ffrfs("verify", shards)
    lengths, data = done.err.splitlines()
    assert lengths.startswith(f"ffrfs: {places[0]}: corrupt length")
    assert lengths.endswith("; what follows could not be checked")
    assert data.startswith(f"ffrfs: {places[1]}: checksum mismatch")


@pytest.mark.parametrize("compression", WRAP)
def test_verify_a_truncated_file(ffrfs: Run, tmp_path: Path, compression: str) -> None:
    file = tmp_path / "x.tfrecord"
    file.write_bytes(WRAP[compression](framed(RECORDS))[:-3])
    done = ffrfs("verify", file)
    assert done.status == 1
    assert done.err.startswith(f"ffrfs: {file}: record ")
    assert "cut off" in done.err
    assert done.err.count("\n") == 1


def test_ls(ffrfs: Run, file: Path, shards: Path) -> None:
    for path in (file, shards):
        assert ffrfs("ls", path).lines == [f"{number:09}" for number in range(13)]
        assert ffrfs("ls", "-R", path, "000000008").lines == [
            "example.json",
            "image",
            "image/encoded.png",
            "label.npy",
            "rare",
            "rare/0.txt",
            "rare/1.txt",
            "record.bin",
            "x.npy",
        ]
        assert ffrfs("ls", path, "000000012").lines == ["record.bin"]
        entries = json.loads(ffrfs("ls", "--json", path, "000000003/image").out)
        assert entries == [{"path": "encoded.png", "type": "file", "size": 11, "record": 3}]
        assert "    11 " in ffrfs("ls", "-l", path, "000000003/image").lines[0]


def test_cat(ffrfs: Run, file: Path, shards: Path, tmp_path: Path) -> None:
    for path in (file, shards):
        done = ffrfs("cat", path, "000000005/image/encoded.png", "000000012/record.bin")
        assert (done.status, done.err) == (0, "")
        assert done.out == PNG + bytes([5]) * 5 + RECORDS[12]
        (tmp_path / "x.npy").write_bytes(ffrfs("cat", path, "000000011/x.npy").out)
        assert np.load(tmp_path / "x.npy").tolist() == [5.5, -1.0]
        assert ffrfs("cat", path, "000000013/record.bin").status == 1


def test_extract(ffrfs: Run, file: Path, tmp_path: Path) -> None:
    assert ffrfs("extract", file, tmp_path / "out").said == []
    for number, record in enumerate(RECORDS):
        folder = tmp_path / "out" / f"{number:09}"
        assert (folder / "record.bin").read_bytes() == record
        if number < COUNT:
            assert np.load(folder / "label.npy").tolist() == [number]


def test_a_damaged_record_is_not_read(ffrfs: Run, file: Path) -> None:
    flip_record(file, 3)
    assert ffrfs("cat", file, "000000002/record.bin").out == RECORDS[2]
    for arguments in (("cat", file, "000000003/record.bin"), ("ls", file, "000000003")):
        assert re.match(f"{file}: .*record 3 \\(offset ", ffrfs(*arguments).complaint)


def test_records_beside_damaged_ones_are_listed_and_extracted(
    ffrfs: Run, file: Path, tmp_path: Path
) -> None:
    whole = ffrfs("ls", "-R", file).lines
    for number in (3, 7):
        flip_record(file, number)
    damaged = ("000000003/", "000000007/")
    for arguments in (("ls", "-R", file), ("extract", file, tmp_path / "out")):
        done = ffrfs(*arguments)
        assert done.status == 1
        lines = done.err.splitlines()
        assert [line.split(" (offset ")[0] for line in lines] == [
            f"ffrfs: {file}: record {number}" for number in (3, 7)
        ]
        if arguments[0] == "ls":
            assert done.lines == [path for path in whole if not path.startswith(damaged)]
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")}
    assert files == {path for path in whole if not path.startswith(damaged)}
    entries = json.loads(ffrfs("ls", "-R", "--json", file).out)
    assert [entry["path"] for entry in entries] == sorted(files)


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_files_are_refused_with_advice_to_convert(
    ffrfs: Run, tmp_path: Path, compression: str
) -> None:
    file = tmp_path / "x.tfrecord"
    file.write_bytes(WRAP[compression](framed(RECORDS)))
    for arguments in (
        ("ls", file),
        ("cat", file, "000000000/record.bin"),
        ("extract", file, tmp_path / "out"),
        ("index", file),
        ("convert", "--to", "pack", "--features", file, tmp_path / "x.ffr"),
    ):
        done = ffrfs(*arguments)
        assert done.complaint.startswith(f"{file}: is compressed"), arguments
        assert f"ffrfs convert {file} " in done.err
    assert os.listdir(tmp_path) == [file.name]


def test_index(ffrfs: Run, file: Path, shards: Path) -> None:
    files = [file, *sorted(shards.iterdir())]
    said = [f"{path}: wrote its index to {path}.idx" for path in files]
    assert ffrfs("index", file, shards).said == said
    for path in files:
        lines = [f"{at} {size}\n" for at, size in tfrecord_extents(path.read_bytes())]
        assert Path(f"{path}.idx").read_text() == "".join(lines)
    assert "sidecars         2" in ffrfs("info", shards).lines
    assert ffrfs("index", "-q", file).out == b""


def test_index_refuses_a_file_with_a_corrupt_length(ffrfs: Run, file: Path) -> None:
    place = flip_record(file, 4, place=0)
    assert ffrfs("index", file).complaint.startswith(f"{file}: {place}: corrupt length")
    assert not Path(f"{file}.idx").exists()


def test_head_options_and_standard_input(ffrfs: Run, file: Path) -> None:
    assert ffrfs("head", "-2", file).out == ffrfs("head", "-n", "2", file).out
    with file.open("rb") as stdin:
        done = python("-m", "ffrfs", "head", "-", stdin=stdin, check=True, text=False)
    assert done.stdout == ffrfs("head", file).out


@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("kind", ["socket", "file"])
def test_head_begins_at_the_position_of_standard_input(
    tmp_path: Path, compression: str, kind: str
) -> None:
    with TFRecordWriter(tmp_path / "x", compression) as writer:
        writer.write(b"record")
    data = (tmp_path / "x").read_bytes()
    (tmp_path / "y").write_bytes(b"read by another program" + data)
    ours, theirs = socket.socketpair()
    with ours, theirs, (tmp_path / "y").open("rb", buffering=0) as file:
        file.seek(-len(data), os.SEEK_END)
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        done = python(
            *("-m", "ffrfs", "head", "--json", "-"),
            stdin=theirs if kind == "socket" else file,
            check=True,
            text=False,
        )
    assert [record["size"] for record in json.loads(done.stdout)] == [6]
