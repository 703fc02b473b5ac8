"""WebDataset's own library reads every sample that convert writes, under its key."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from webdataset.tariterators import group_by_keys, tar_file_expander

from ffrfs import pack_folder
from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.errors import ChecksumError, FormatError, PackError
from tests.convert.messages import records_of, serialized
from tests.convert.test_webdataset import JPEG, members_of, write_tar
from tests.ffrecord_file import Tree, flip_byte, record_extents, write_folder
from tests.tfrecord_file import write_tfrecord

Samples = dict[str, dict[str, bytes]]
PAIRS: Tree = {
    "cat": {
        **{"1.jpg": JPEG, "1.json": b'{"label": 3}', "1-a.jpg": b"dash"},
        **{"1.x": {"deep.txt": b"between"}, "1.seg.png": b"\x89PNG\r\n\x1a\n"},
    },
    "dög": {"2.TXT": b"", f"{'long' * 60}.cls": b"7"},
    "0.jpg": JPEG,
}
KEYS: Samples = {
    "0": {"jpg": JPEG},
    "cat/1-a": {"jpg": b"dash"},
    "cat/1": {"jpg": JPEG, "json": b'{"label": 3}', "seg.png": b"\x89PNG\r\n\x1a\n"},
    "cat/1.x/deep": {"txt": b"between"},
    "dög/2": {"txt": b""},
    f"dög/{'long' * 60}": {"cls": b"7"},
}


def read_by_library(*files: Path) -> Samples:
    """Return the samples by their keys; no key may come twice."""
    with contextlib.ExitStack() as stack:  # the library would leave the files open
        streams = [
            {"url": str(file), "stream": stack.enter_context(file.open("rb"))} for file in files
        ]
        found: list[dict[str, Any]] = list(group_by_keys(tar_file_expander(streams)))
    samples = {
        sample["__key__"]: {
            name: sample[name] for name in sample if name not in {"__key__", "__url__"}
        }
        for sample in found
    }
    assert len(samples) == len(found)
    return samples


def test_files_of_a_pack_are_samples_by_their_names(tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", PAIRS)
    assert convert(pack, tmp_path / "x.tar") == ConvertSummary(len(KEYS), 0)
    assert read_by_library(tmp_path / "x.tar") == KEYS
    assert members_of(tmp_path / "x.tar")["cat/1.seg.png"] == b"\x89PNG\r\n\x1a\n"


def test_a_sample_is_in_one_shard(tmp_path: Path) -> None:
    pack = write_folder(
        tmp_path / "x.ffr", {f"{i}.{kind}": b"%d" % i for i in range(9) for kind in ("a", "b")}
    )
    convert(pack, tmp_path / "s", "webdataset", shards=4)
    shards = sorted((tmp_path / "s").iterdir())
    expected = {str(i): {"a": b"%d" % i, "b": b"%d" % i} for i in range(9)}
    assert read_by_library(*shards) == expected
    assert [len(read_by_library(shard)) for shard in shards] == [2, 2, 2, 3]


@pytest.mark.parametrize("between", [(), ("x.tfrecord",), ("x.jsonl", "x.ffr"), ("x.parquet",)])
def test_keys_and_extensions_survive_a_round_trip(tmp_path: Path, between: tuple[str, ...]) -> None:
    names = [("./a/1.jpg", JPEG), ("./a/1.cls", b"7"), ("b/2.seg.PNG", b""), ("b/2.json", b"{}")]
    source = write_tar(tmp_path / "source.tar", names)
    for name in (*between, "back.tar"):
        convert(source, tmp_path / name)
        source = tmp_path / name
    assert members_of(tmp_path / "back.tar") == dict(names)
    assert read_by_library(source) == read_by_library(tmp_path / "source.tar")


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    write_tar(tmp_path / "x.tar", [("\udcff/1.jpg", JPEG)])
    convert(tmp_path / "x.tar", tmp_path / "x.tfrecord")
    convert(tmp_path / "x.tfrecord", tmp_path / "y.tar")
    assert members_of(tmp_path / "y.tar") == {"\udcff/1.jpg": JPEG}


def test_features_of_other_types_keep_the_key(tmp_path: Path) -> None:
    records = [serialized({"__key__": "a/7", "jpg": JPEG, "label": 3})]
    convert(write_tfrecord(tmp_path / "x.tfrecord", records), tmp_path / "x.tar")
    assert read_by_library(tmp_path / "x.tar")["a/7"].keys() == {
        *("example.json", "jpg.jpg", "__key__.txt")
    }
    convert(tmp_path / "x.tar", tmp_path / "y.tfrecord")
    assert records_of(tmp_path / "y.tfrecord") == records


_parts = st.text("aA._/\n\0é-", max_size=5)


@settings(max_examples=100)
@given(_parts, st.dictionaries(_parts | st.just("example.json"), st.binary(max_size=2), max_size=3))
def test_any_key(
    tmp_path_factory: pytest.TempPathFactory, key: str, fields: dict[str, bytes]
) -> None:
    """Whatever the value of __key__ is, the library finds a sample for each record."""
    place = tmp_path_factory.mktemp("any")
    records = [serialized(each) for each in ({**fields, "__key__": key}, {"jpg": JPEG})]
    convert(write_tfrecord(place / "x.tfrecord", records), place / "x.tar")
    assert len(read_by_library(place / "x.tar")) == 2
    assert not any(
        ".." in name.split("/") or name[0] == "/" for name in members_of(place / "x.tar")
    )
    convert(place / "x.tar", place / "y.tfrecord")
    assert records_of(place / "y.tfrecord") == records


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ({"a": {"README": b""}}, "'a/README' has no extension"),
        ({".gitignore": b""}, "'.gitignore' has no extension"),
        ({"1.jpg": b"", "1.JPG": b""}, "'1.JPG' and '1.jpg' differ in case only"),
        ({"1.example.json": b"{}"}, "'1.example.json' is a name that ffrfs gives"),
        ({"1.__key__": b"2", "1.jpg": b""}, "'1.__key__' is the name of the key of a sample"),
        ({"__a__": {"b.txt": b""}}, "'__a__/b.txt' is hidden from WebDataset"),
    ],
)
def test_files_that_belong_to_no_sample(tmp_path: Path, tree: Tree, reason: str) -> None:
    pack = write_folder(tmp_path / "x.ffr", tree)
    with pytest.raises(PackError, match=re.escape(f"{pack}: {reason}") + ".*--exclude"):
        convert(pack, tmp_path / "x.tar")
    assert not (tmp_path / "x.tar").exists()


def test_links_and_damage(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "1.jpg").symlink_to("2.jpg")
    pack_folder(tmp_path / "links", tmp_path / "links.ffr", symlinks="keep")
    with pytest.raises(PackError, match=r"'1\.jpg' is a symbolic link"):
        convert(tmp_path / "links.ffr", tmp_path / "x.tar")
    pack = write_folder(tmp_path / "x.ffr", {"1.a": b"a", "1.b": b"b", "2.a": b"c", "d": {}})
    flip_byte(pack, record_extents(pack)[1][0])
    with pytest.raises(ChecksumError, match=r"record 1"):
        convert(pack, tmp_path / "x.tar")
    assert convert(pack, tmp_path / "x.tar", on_error="skip") == ConvertSummary(1, 1, 1)
    assert read_by_library(tmp_path / "x.tar") == {"2": {"a": b"c"}}


def test_two_samples_that_would_become_one(tmp_path: Path) -> None:
    records = [serialized({"__key__": "7", kind: b""}) for kind in "ab"]
    with pytest.raises(PackError, match=r"x\.tfrecord: record 1: has the key .* before it, '7'"):
        convert(write_tfrecord(tmp_path / "x.tfrecord", records), tmp_path / "x.tar")


def test_a_member_that_would_hide_the_key(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "x.tar", [("1.__key__", b"2"), ("1.jpg", JPEG)])
    with pytest.raises(FormatError, match=r"x\.tar: sample '1': has a member named __key__"):
        convert(tar, tmp_path / "x.tfrecord")
