"""WebDataset: every Example comes back from its sample, and anything else is refused."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.errors import FormatError, PackError
from tests.convert.messages import examples_of, records_of, serialized
from tests.tfrecord_file import framed, write_tfrecord

JPEG = b"\xff\xd8\xff\xe0" + bytes(1000)
Members = dict[str, bytes]


RECORDS = [
    serialized({"image/encoded": JPEG, "image-Encoded": b"\0", "label": i, "name": "café", "": b""})
    for i in range(5)
]
RECORDS.append(
    serialized({"context": {"id": b"7"}, "feature_lists": {"f": [[b"a", b"b"], [b"\1"]], "n": []}})
)


def members_of(path: Path) -> Members:
    with tarfile.open(path) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def write_tar(path: Path, members: list[tuple[str, bytes]]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def test_round_trip(tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", RECORDS)
    assert convert(file, tmp_path / "y.tar") == ConvertSummary(6, 0)
    found = members_of(tmp_path / "y.tar")
    assert {name.partition(".")[2] for name in found if name.startswith("000000004.")} == {
        "example.json",
        "image_encoded.jpg",
        "image-encoded.bin",
        "name.txt",
        "_.txt",
    }
    assert found["000000004.image_encoded.jpg"] == JPEG
    listed = json.loads(found["000000004.example.json"])["features"]
    assert listed["label"] == {"int64_list": [4]}
    assert listed["image/encoded"] == {"bytes_list": [{"member": "image_encoded.jpg"}]}
    assert found["000000005.f.1.txt"] == b"b"
    convert(tmp_path / "y.tar", tmp_path / "z.tfrecord")
    assert (tmp_path / "z.tfrecord").read_bytes() == framed(RECORDS)


def test_shards(tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", RECORDS)
    convert(file, tmp_path / "train", "webdataset", shards=3)
    assert sorted(os.listdir(tmp_path / "train")) == [f"train-00000{i}.tar" for i in range(3)]
    keys = {name.partition(".")[0] for name in members_of(tmp_path / "train/train-000002.tar")}
    assert keys == {"000000004", "000000005"}
    convert(tmp_path / "train", tmp_path / "z.ffr")
    convert(tmp_path / "z.ffr", tmp_path / "z.tfrecord")
    assert (tmp_path / "z.tfrecord").read_bytes() == framed(RECORDS)


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=80),
        st.lists(st.binary(max_size=9), max_size=3),
        max_size=6,
    )
)
def test_any_names(
    tmp_path_factory: pytest.TempPathFactory, features: dict[str, list[bytes]]
) -> None:
    place = tmp_path_factory.mktemp("any")
    record = serialized({"": 1, **features})
    convert(write_tfrecord(place / "x.tfrecord", [record]), place / "y.tar")
    names = members_of(place / "y.tar")
    assert len({name.lower() for name in names}) == 1 + sum(map(len, features.values()))
    convert(place / "y.tar", place / "z.tfrecord")
    assert records_of(place / "z.tfrecord") == [record]


def test_samples_of_another_program(tmp_path: Path) -> None:
    tar = write_tar(
        tmp_path / "x.tar",
        [("a/1.jpg", JPEG), ("a/1.cls", b"7"), ("a/2.cls", b"8"), ("a/2.x.json", b"{}")],
    )
    assert convert(tar, tmp_path / "y.tfrecord") == ConvertSummary(2, 0)
    assert examples_of(tmp_path / "y.tfrecord") == [
        {"__key__": [b"a/1"], "jpg": [JPEG], "cls": [b"7"]},
        {"__key__": [b"a/2"], "cls": [b"8"], "x.json": [b"{}"]},
    ]


def listed(*members: str) -> bytes:
    values = [{"member": member} for member in members]
    return json.dumps({"features": {"a": {"bytes_list": values}}}).encode()


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([("1.example.json", listed("x"))], "names a member that is not there"),
        ([("1.example.json", listed("x", "x")), ("1.x", b"")], "that is not there"),
        ([("1.example.json", listed()), ("1.x", b"")], "its example.json does not name 'x'"),
        ([("1.example.json", b'{"features": {"a": {"bytes_list": [{}]}}}')], "not there"),
        ([("1.example.json", b"{}")], 'neither {"features": '),
        ([("1.example.json", b"{")], "sample '1': "),
        ([("1.\udcff", b"")], "cannot be written as UTF-8"),
        ([("1", b"")], "'1' has no extension"),
        ([("1.a/x", b"")], "'1.a/x' has no extension"),
        ([("1.x", b""), ("1.x", b"")], "'1.x' comes twice"),
    ],
)
def test_bad_samples(tmp_path: Path, members: list[tuple[str, bytes]], reason: str) -> None:
    tar = write_tar(tmp_path / "x.tar", [("0.txt", b"good"), *members])
    with pytest.raises(FormatError) as caught:
        convert(tar, tmp_path / "y.tfrecord")
    assert str(caught.value).startswith(f"{tar}: ")
    assert reason in str(caught.value)
    assert os.listdir(tmp_path) == ["x.tar"]
    if "sample" in str(caught.value).partition(".tar: ")[2][:7]:
        assert convert(tar, tmp_path / "y.tfrecord", on_error="skip") == ConvertSummary(1, 1)


def test_bad_archives(tmp_path: Path) -> None:
    tar = tmp_path / "x.tar"
    convert(write_tfrecord(tmp_path / "x.tfrecord", RECORDS), tar)
    whole = tar.read_bytes()
    for cut in (700, 2000, 5000):
        tar.write_bytes(whole[:cut])
        with pytest.raises((FormatError, PackError), match=r"x\.tar: "):
            convert(tar, tmp_path / "y.tfrecord")
    tar.write_bytes(b"no archive at all\n" * 99)
    with pytest.raises((FormatError, PackError), match=r"x\.tar: "):
        convert(tar, tmp_path / "y.tfrecord")
    with tarfile.open(tar, "w") as links:
        info = tarfile.TarInfo("1.jpg")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        links.addfile(info)
    with pytest.raises(FormatError, match=r"'1\.jpg' is not a file"):
        convert(tar, tmp_path / "y.tfrecord")
    tar.unlink()
    os.mkfifo(tar)
    with pytest.raises(FormatError, match="not a regular file"):
        convert(tar, tmp_path / "y.tfrecord")
    assert not (tmp_path / "y.tfrecord").exists()
