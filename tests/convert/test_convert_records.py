"""convert gives the same records in every direction, or refuses the conversion."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ffrfs import FileReader, PackedFolder, pack_folder
from ffrfs.convert import target as target_module
from ffrfs.convert.convert import ConvertSummary, convert
from ffrfs.convert.kind import Kind, kind_of
from ffrfs.convert.source import OnError
from ffrfs.errors import ChecksumError, PackError, TruncatedError
from ffrfs.folder.tree import PackTree
from ffrfs.tfrecord import Example, TFRecordOptions, from_dict, tf_record_iterator
from tests.checkout import CHECKOUT
from tests.ffrecord_file import (
    INDEX_MAGIC,
    Header,
    Tree,
    flip_byte,
    folder_records,
    record_extents,
    write_folder,
    write_records,
)
from tests.tfrecord_file import flip_record, framed, tfrecord_records, write_tfrecord

RECORDS = [b"first", b"piouhjgbr in the midst", bytes(range(256)) * 500, b"", b"last"]
TREE = {"a": {"b": {"deep.txt": b"deep\n"}, "large": bytes(2 << 20)}, "nothing": b"", "é": b"2"}
EXTENSION = {"tfrecord": ".tfrecord", "ffrecord": ".ffr", "pack": ".ffr"}


def examples(count: int) -> list[bytes]:
    return [
        from_dict(
            {"image/encoded": b"\x89PNG\r\n\x1a\n" + bytes([i]), "label": i, "x": [i / 2] * 3}
        ).SerializeToString()
        for i in range(count)
    ]


def records_of(path: Path) -> list[bytes]:
    if path.suffix == ".ffr":
        with FileReader(path) as reader:
            return [record.tobytes() for record in reader.read(range(reader.n))]
    return tfrecord_records(path.read_bytes())


@pytest.mark.parametrize("to", ["tfrecord", "ffrecord", "pack"])
@pytest.mark.parametrize("source", ["tfrecord", "gzip", "zlib", "ffrecord"])
def test_round_trip(tmp_path: Path, source: str, to: Kind) -> None:
    file = tmp_path / "source.tfrecord"
    if source == "ffrecord":
        file = write_records(tmp_path / "source.ffr", RECORDS)
    else:
        wrap = {"tfrecord": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[source]
        file.write_bytes(wrap(framed(RECORDS)))
    there, back = tmp_path / f"there{EXTENSION[to]}", tmp_path / "back.tfrecord"
    assert convert(file, there, to) == ConvertSummary(len(RECORDS), 0)
    if to == "pack":
        with PackedFolder(there) as folder:
            assert folder.list() == [f"{number:09}" for number in range(len(RECORDS))]
    else:
        assert records_of(there) == RECORDS
    assert convert(there, back, "tfrecord", records=to == "pack").record_count == len(RECORDS)
    assert back.read_bytes() == framed(RECORDS)


@settings(max_examples=50)
@given(records=st.lists(st.binary(max_size=300), max_size=20))
def test_any_records(tmp_path_factory: pytest.TempPathFactory, records: list[bytes]) -> None:
    assume(not records or not records[-1].startswith(INDEX_MAGIC))  # convert refuses these
    place = tmp_path_factory.mktemp("any")
    file = write_tfrecord(place / "source.tfrecord", records)
    for to in ("ffrecord", "pack"):
        convert(file, place / "there.ffr", to, force=True)
        convert(
            place / "there.ffr",
            place / "back.tfrecord",
            "tfrecord",
            records=to == "pack",
            force=True,
        )
        assert (place / "back.tfrecord").read_bytes() == framed(records)


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
def test_compression_of_the_target(tmp_path: Path, kind: str) -> None:
    file = write_tfrecord(tmp_path / "source.tfrecord", RECORDS)
    target = tmp_path / "target.tfrecord"
    sizes = []
    for level in (1, 9):
        options = TFRecordOptions(kind, compression_level=level)
        convert(file, target, "tfrecord", options=options, force=True)
        assert list(tf_record_iterator(target, kind)) == RECORDS
        sizes.append(target.stat().st_size)
    if kind:
        assert sizes[1] < sizes[0] < file.stat().st_size


def test_shards_are_joined(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    for i in range(3):
        data = framed(RECORDS[i:])
        name = f"x.tfrecord-{i:05}-of-00003"
        (tmp_path / "shards" / name).write_bytes(gzip.compress(data) if i == 1 else data)
    (tmp_path / "shards" / "x.tfrecord-00000-of-00003.idx").write_bytes(b"")
    convert(tmp_path / "shards", tmp_path / "x.tfrecord", "tfrecord")
    assert records_of(tmp_path / "x.tfrecord") == RECORDS + RECORDS[1:] + RECORDS[2:]
    (tmp_path / "parts").mkdir()
    for i in range(2):
        write_records(tmp_path / "parts" / f"PART_0000{i}.ffr", RECORDS[i:])
    convert(tmp_path / "parts", tmp_path / "y.ffr", "ffrecord")
    assert records_of(tmp_path / "y.ffr") == RECORDS + RECORDS[1:]


def test_features_become_files(tmp_path: Path) -> None:
    records = [*examples(12), b"no example"]
    file = write_tfrecord(tmp_path / "source.tfrecord", records)
    assert convert(file, tmp_path / "x.ffr", "pack", features=True).record_count == 13
    with PackTree(file) as mounted, PackedFolder(tmp_path / "x.ffr") as packed:
        entries = list(mounted.entries(mounted.folder_ino(""), recursive=True))
        assert packed.list(recursive=True) == [entry.path for entry in entries]
        for entry in entries:
            if not entry.is_folder:
                content = mounted.read_files([entry.attributes.ino])[0]
                assert packed.read_one(entry.path).tobytes() == content.tobytes()
        assert packed.read_one("000000003/image/encoded.png").tobytes()[-1] == 3
        assert packed.list("000000012") == ["record.bin"]
    convert(tmp_path / "x.ffr", tmp_path / "back.tfrecord", "tfrecord", records=True)
    assert (tmp_path / "back.tfrecord").read_bytes() == framed(records)


def test_files_become_examples(tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", TREE)
    assert convert(pack, tmp_path / "x.tfrecord", "tfrecord", force=True).record_count == 4
    found = {}
    for record in records_of(tmp_path / "x.tfrecord"):
        feature = Example.FromString(record).features.feature
        assert feature.keys() == {"path", "data"}
        (path,), (data,) = feature["path"].bytes_list.value, feature["data"].bytes_list.value
        found[path.decode()] = data
    assert list(found) == ["a/b/deep.txt", "a/large", "nothing", "é"]
    assert found["a/b/deep.txt"] == b"deep\n"
    assert found["a/large"] == bytes(2 << 20)
    first = (tmp_path / "x.tfrecord").read_bytes()
    convert(pack, tmp_path / "x.tfrecord", "tfrecord", force=True)
    assert (tmp_path / "x.tfrecord").read_bytes() == first


def test_golden_files(golden: Path, tmp_path: Path) -> None:
    for name in ("examples", "examples.gzip", "examples.zlib"):
        convert(golden / "tf" / f"{name}.tfrecord", tmp_path / "x.tfrecord", "tfrecord", force=True)
        theirs = (golden / "tf" / "examples.tfrecord").read_bytes()
        assert (tmp_path / "x.tfrecord").read_bytes() == theirs
    convert(golden / "sharded", tmp_path / "x.ffr", "ffrecord", force=True)
    assert (tmp_path / "x.ffr").read_bytes() == (golden / "plain.ffr").read_bytes()
    for name in ("examples", "sequences", "raw"):
        source = golden / "tf" / f"{name}.tfrecord"
        convert(source, tmp_path / "x.ffr", "pack", features=True, force=True)
        convert(tmp_path / "x.ffr", tmp_path / "x.tfrecord", "tfrecord", records=True, force=True)
        assert (tmp_path / "x.tfrecord").read_bytes() == source.read_bytes()


def test_the_example_frame_in_the_format_docs(tmp_path: Path) -> None:
    page = CHECKOUT.joinpath("docs", "format.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"of the empty record, is `([0-9a-f ]+)`", page)
    file = write_records(tmp_path / "x.ffr", [b""])
    convert(file, tmp_path / "x.tfrecord", "tfrecord")
    assert (tmp_path / "x.tfrecord").read_bytes() == bytes.fromhex(example)


@pytest.fixture(params=["tfrecord", "ffrecord", "examples", "records", "features"])
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Kind, dict[str, bool]]:
    """A file of ten records (3 and 7 are damaged), the kind of the target, and options."""
    records = examples(10)
    if request.param in ("tfrecord", "features"):
        file = write_tfrecord(tmp_path / "source.tfrecord", records)
    elif request.param == "ffrecord":
        file = write_records(tmp_path / "source.ffr", records)
    else:
        file = write_folder(tmp_path / "source.ffr", {f"{i:09}": records[i] for i in range(10)})
    for number in (3, 7):
        if file.suffix == ".ffr":
            flip_byte(file, sum(record_extents(file)[number]) - 1)
        else:
            flip_record(file, number)
    if request.param == "features":
        return file, "pack", {"features": True}
    if request.param == "records":
        return file, "tfrecord", {"records": True}
    return file, "tfrecord", {}


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_damaged_records(
    tmp_path: Path, damaged: tuple[Path, Kind, dict[str, bool]], on_error: OnError
) -> None:
    file, to, how = damaged
    as_examples = kind_of(str(file)) == "pack" and not how
    target = tmp_path / f"target{EXTENSION[to]}"
    target.write_bytes(b"before")
    if on_error == "raise":
        with pytest.raises(ChecksumError, match=f"^{file}: .*record 3 .*offset"):
            convert(file, target, to, **how, force=True)
        assert target.read_bytes() == b"before"
        assert sorted(os.listdir(tmp_path)) == sorted([file.name, target.name])
        return
    assert convert(file, target, to, on_error="skip", **how, force=True) == ConvertSummary(8, 2)
    good = [record for i, record in enumerate(examples(10)) if i not in (3, 7)]
    if to == "pack":
        convert(target, tmp_path / "back.tfrecord", "tfrecord", records=True, force=True)
        target = tmp_path / "back.tfrecord"
    found = records_of(target)
    if as_examples:
        messages = map(Example.FromString, found)
        found = [message.features.feature["data"].bytes_list.value[0] for message in messages]
    assert found == good


@pytest.mark.parametrize("to", ["tfrecord", "ffrecord", "pack"])
@pytest.mark.parametrize("wrap", [bytes, gzip.compress])
def test_a_truncated_source(tmp_path: Path, to: Kind, wrap: type[bytes]) -> None:
    file = tmp_path / "source.tfrecord"
    file.write_bytes(wrap(framed(RECORDS))[:-3])
    with pytest.raises(TruncatedError, match=f"^{file}: record "):
        convert(file, tmp_path / f"x{EXTENSION[to]}", to)
    assert os.listdir(tmp_path) == [file.name]
    if wrap is bytes:
        found = convert(file, tmp_path / f"x{EXTENSION[to]}", to, on_error="skip")
        assert found == ConvertSummary(len(RECORDS) - 1, 1)


def test_conversions_that_would_lose_data_are_refused(tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", TREE)
    plain = write_records(tmp_path / "plain.ffr", RECORDS)
    records = write_tfrecord(tmp_path / "x.tfrecord", RECORDS)
    index = write_tfrecord(tmp_path / "index.tfrecord", [b"a", b"piouhjgbr..."])
    gap = write_folder(tmp_path / "g.ffr", {"000000000": b"", "000000002": b""})
    linked = tmp_path / "linked.ffr"
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "to").symlink_to("nowhere")
    pack_folder(tmp_path / "links", linked, symlinks="keep")
    short = write_folder(tmp_path / "s.ffr", {"0": b"", "1": b""})
    bare = write_folder(tmp_path / "b.ffr", {"000000000": {"x.npy": b""}})
    before = sorted(os.listdir(tmp_path))
    refused: list[tuple[Path, Kind, dict[str, bool], str]] = [
        (pack, "pack", {}, "is a pack already"),
        (pack, "ffrecord", {}, "no place for the paths"),
        (pack, "tfrecord", {"records": True}, "'a' is where record 0 should"),
        (gap, "tfrecord", {"records": True}, "'000000002' is where record 1 should"),
        (short, "tfrecord", {"records": True}, "'0' is where record 0 should"),
        (linked, "tfrecord", {}, "'to' is a symbolic link"),
        (plain, "tfrecord", {"records": True}, "is not a pack"),
        (records, "ffrecord", {"records": True}, "is not a pack"),
        (plain, "pack", {"features": True}, "is not a TFRecord file"),
        (index, "ffrecord", {}, "begins like the index of a pack"),
    ]
    for source, to, how, reason in refused:
        with pytest.raises(PackError, match=reason):
            convert(source, tmp_path / "target", to, **how)
    with pytest.raises(FileNotFoundError, match=r"000000000/record\.bin"):
        convert(bare, tmp_path / "target", "tfrecord", records=True)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("tree", "count"),
    [
        ({"a": {"b": {}, "c": b""}, "z": {}}, 2),
        ({"a": {"b": b""}, "z": {}}, 1),
        ({"a": {"b": {"c": {}}, "d": b""}}, 1),
        ({"a": {"b": b""}}, 0),
    ],
)
def test_empty_directories_are_left_out_and_counted(tmp_path: Path, tree: Tree, count: int) -> None:
    pack = write_folder(tmp_path / "x.ffr", tree)
    assert convert(pack, tmp_path / "x.tfrecord") == ConvertSummary(1, 0, count)


@pytest.mark.promise("S70")
@pytest.mark.parametrize("to", ["tfrecord", "ffrecord", "pack", "jsonl", "parquet", "webdataset"])
def test_a_file_is_replaced_only_with_force(tmp_path: Path, to: Kind) -> None:
    source = write_tfrecord(tmp_path / "x.tfrecord", examples(1))
    target = tmp_path / "target"
    convert(source, target, to)
    made = target.read_bytes()
    target.write_text("the only copy")
    with pytest.raises(PackError) as caught:
        convert(source, target, to)
    assert str(caught.value) == (
        f"{target}: exists (a text file); write to another file, or replace it with --force"
    )
    assert target.read_text() == "the only copy"
    convert(source, target, to, force=True)
    assert target.read_bytes() == made
    with pytest.raises(PackError, match="exists"):
        convert(source, target, features=True)
    convert(source, target, features=True, force=True)


def test_files_and_records_that_are_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = folder_records({"a": b""})[-1]
    header = Header([b"", index])
    header.offsets[1] += 2 << 30  # file "a" is a hole
    with (tmp_path / "x.ffr").open("wb") as file:
        file.write(header.encode())
        file.seek(header.offsets[1])
        file.write(index)
    with pytest.raises(PackError, match="'a': is too large for an Example"):
        convert(tmp_path / "x.ffr", tmp_path / "x.tfrecord", "tfrecord")
    source = write_tfrecord(tmp_path / "source.tfrecord", [b"small", b"large"])
    monkeypatch.setattr(target_module, "RECORD_LIMIT", 4)
    with pytest.raises(PackError, match="record 0: larger than 2 GiB"):
        convert(source, tmp_path / "x.tfrecord", "tfrecord", options=TFRecordOptions("GZIP"))
    assert sorted(os.listdir(tmp_path)) == ["source.tfrecord", "x.ffr"]
    convert(source, tmp_path / "x.tfrecord", "tfrecord")
    assert (tmp_path / "x.tfrecord").read_bytes() == source.read_bytes()


def test_the_source_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    file = write_tfrecord(tmp_path / "shards" / "x.tfrecord", RECORDS)
    (tmp_path / "link.tfrecord").symlink_to(file)
    os.link(file, tmp_path / "hard.tfrecord")
    for target in (file, tmp_path / "link.tfrecord", tmp_path / "hard.tfrecord"):
        with pytest.raises(PackError, match="is the source"):
            convert(file, target, "tfrecord")
    with pytest.raises(PackError, match="would be read as a part"):
        convert(tmp_path / "shards", tmp_path / "shards" / "y.tfrecord", "tfrecord")
    assert os.listdir(tmp_path / "shards") == ["x.tfrecord"]
    assert file.read_bytes() == framed(RECORDS)


def test_no_files_are_left_beside_the_source(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    file = write_tfrecord(tmp_path / "source" / "x.tfrecord", examples(3))
    for number, how in enumerate(({}, {"features": True})):
        convert(file, tmp_path / f"{number}.ffr", "pack", **how)
    assert os.listdir(tmp_path / "source") == ["x.tfrecord"]


def test_progress(tmp_path: Path) -> None:
    file = write_tfrecord(tmp_path / "x.tfrecord", RECORDS)
    seen: list[tuple[int, int, int, int]] = []
    convert(file, tmp_path / "x.ffr", "ffrecord", progress=lambda *step: seen.append(step))
    size = sum(map(len, RECORDS))
    assert [step[0] for step in seen] == [1, 2, 3, 4, 5]
    assert seen[-1] == (5, 5, size, file.stat().st_size)
