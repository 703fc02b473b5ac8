"""ffrfs.beam: sources that split at any record, and sinks whose bytes are those of ffrfs."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import ffrfs
from ffrfs.cluster import commit, plan, run
from ffrfs.errors import ChecksumError, FormatError, PackError
from ffrfs.tfrecord import TFRecordReader, TFRecordWriter
from tests.adapters.needed import needed
from tests.checkout import CHECKOUT
from tests.interpreter import python

beam = needed("apache_beam")
own = needed("ffrfs.beam")
source_test_utils = needed("apache_beam.io.source_test_utils")
equal_to = needed("apache_beam.testing.util").equal_to
assert_that = needed("apache_beam.testing.util").assert_that

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own warnings

# "a-b" sorts before "a/" by characters, and after it in a pack.
FILES = {f"{'abc'[n % 3]}/{n % 2}/{n:03}": bytes([n]) * (n * 37) for n in range(40)}
FILES |= {"a-b/1": b"", "top": b"xyz"}


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pipeline makes a directory for the files that it stages, and does not remove it."""
    directory = str(tmp_path_factory.mktemp("beam"))
    monkeypatch.setattr(tempfile, "tempdir", directory)
    monkeypatch.setenv("TMPDIR", directory)  # for the programs that a test starts


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, data in FILES.items():
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_bytes(data)
    return tmp_path / "tree"


def source_of(transform: Any) -> Any:
    return transform._source


def read(transform: Any) -> list[Any]:
    return source_test_utils.read_from_source(source_of(transform))


def write(files: Iterable[tuple[str, bytes]], dest: Path, shards: int) -> None:
    with beam.Pipeline() as pipeline:
        pipeline | beam.Create(list(files)) | own.WriteToPack(dest, shards)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_set_splits_anywhere(tree: Path, tmp_path: Path) -> None:
    ffrfs.pack_folder(tree, tmp_path / "set", shards=3)
    source = source_of(own.ReadFromPack(tmp_path / "set"))
    assert dict(source_test_utils.read_from_source(source)) == FILES
    size = source.estimate_size()
    assert size == sum(map(len, FILES.values()))
    for parts in (1, 2, 7, 100):
        bundles = [*source.split(size // parts)]
        assert len(bundles) >= min(parts, len(FILES))
        assert sum(bundle.weight for bundle in bundles) == pytest.approx(size, abs=len(bundles))
        source_test_utils.assert_sources_equal_reference_source(
            (source, None, None), [bundle[1:] for bundle in bundles]
        )
    source_test_utils.assert_reentrant_reads_succeed((source, 5, 12))


def test_a_set_splits_while_it_is_read(tree: Path, tmp_path: Path) -> None:
    ffrfs.pack_folder(tree, tmp_path / "set", shards=3, include=["top", "00?", "a-b"])
    source = source_of(own.ReadFromPack(tmp_path / "set"))
    source_test_utils.assert_split_at_fraction_exhaustive(source)


def test_files_that_share_a_record_are_read_once(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(12):
        (tree / f"{number:02}").write_bytes(bytes([number // 3]) * 100)
    ffrfs.pack_folder(tree, tmp_path / "x.ffr", dedup=True)
    source = source_of(own.ReadFromPack(str(tmp_path / "*.ffr")))
    bundles = [*source.split(100)]
    assert len(bundles) == 4
    source_test_utils.assert_sources_equal_reference_source(
        (source, None, None), [bundle[1:] for bundle in bundles]
    )
    assert len(source_test_utils.read_from_source(source)) == 12


def test_tfrecords_split_anywhere(tmp_path: Path) -> None:
    records = [b"%d" % number * number for number in range(10)]
    for name, part in (("a-0", records[:6]), ("a-1", []), ("a-2", records[6:])):
        with TFRecordWriter(tmp_path / name) as writer:
            for record in part:
                writer.write(record)
    transform = own.ReadFromTFRecord(str(tmp_path / "a-*"), beam.coders.BytesCoder())
    assert read(transform) == records
    source_test_utils.assert_split_at_fraction_exhaustive(source_of(transform))
    text = own.ReadFromTFRecord([tmp_path / "a-0"], beam.coders.StrUtf8Coder())
    assert read(text)[3:5] == ["333", "4444"]
    with pytest.raises(OSError, match="b-"):
        own.ReadFromTFRecord(str(tmp_path / "b-*"))
    with pytest.raises(FormatError, match="no pack of a directory"):
        own.ReadFromPack(tmp_path / "a-0")


def test_errors_name_the_damaged_file_or_record(tree: Path, tmp_path: Path) -> None:
    pack = tmp_path / "x.ffr"
    ffrfs.pack_folder(tree, pack)
    pack.write_bytes(pack.read_bytes().replace(b"xyz", b"xyZ"))
    with (
        pytest.raises(ChecksumError, match=r"^[^\n]*x\.ffr: 'top': record 41 [^\n]*$"),
        beam.Pipeline() as pipeline,
    ):
        pipeline | own.ReadFromPack(pack)
    good = dict(FILES)
    del good["top"]
    assert dict(read(own.ReadFromPack(pack, on_error="skip"))) == good
    replaced = own.ReadFromPack(pack, on_error=lambda error, path: path.encode())
    assert dict(read(replaced)) == good | {"top": b"top"}
    assert dict(read(own.ReadFromPack(pack, on_error=lambda *_: None))) == good
    file = tmp_path / "x.tfrecord"
    with TFRecordWriter(file) as writer:
        writer.write(b"good")
        writer.write(b"xyz")
    file.write_bytes(file.read_bytes().replace(b"xyz", b"xyZ"))
    with (
        pytest.raises(ChecksumError, match=r"^[^\n]*x\.tfrecord: record 1[^\n]*$"),
        beam.Pipeline() as pipeline,
    ):
        pipeline | own.ReadFromTFRecord(file)
    assert read(own.ReadFromTFRecord(file, on_error="skip")) == [b"good"]
    text = own.ReadFromTFRecord(
        file, beam.coders.StrUtf8Coder(), on_error=lambda error, number: b"%d" % number
    )
    with beam.Pipeline() as pipeline:
        assert_that(pipeline | text, equal_to(["good", "1"]))


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_tfrecords_are_written_with_beams_file_names(tmp_path: Path, compression: str) -> None:
    records = [b"", b"x" * 500_000, *(b"%d" % number for number in range(100))]
    kinds = needed("apache_beam.io.filesystem").CompressionTypes
    with beam.Pipeline() as pipeline:
        (
            pipeline
            | beam.Create(records)
            | own.WriteToTFRecord(
                str(tmp_path / "out"),
                file_name_suffix=".rec",
                num_shards=3,
                shard_name_template="-N-SS",
                compression_type=kinds.GZIP if compression else kinds.UNCOMPRESSED,
            )
        )
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [f"out-3-{number:02}.rec" for number in range(3)]
    found = [
        record
        for file in files
        for record in ffrfs.tfrecord.tf_record_iterator(file, compression or None)
    ]
    assert sorted(found) == sorted(records)
    if compression:
        with pytest.raises(FormatError, match="compress"):
            own.ReadFromTFRecord(str(files[0]))
    else:
        assert sum(len(TFRecordReader(file)) for file in files) == len(records)


@pytest.mark.parametrize("shards", [1, 4])
def test_a_set_has_the_bytes_of_a_planned_set(tree: Path, tmp_path: Path, shards: int) -> None:
    write(FILES.items(), tmp_path / "of_beam", shards)
    with plan(
        tree, tmp_path / "of_plan", tmp_path / "plan", shards=shards, reproducible=True
    ) as made:
        for number in range(shards):
            run(made, number)
        commit(made)
    assert contents(tmp_path / "of_beam") == contents(tmp_path / "of_plan")
    assert len(contents(tmp_path / "of_beam")) == shards + 1


def test_no_files_give_an_empty_set(tmp_path: Path) -> None:
    write([], tmp_path / "none", 1)
    assert ffrfs.PackedFolder(tmp_path / "none").list("") == []


def test_a_second_run_keeps_the_set_and_refuses_other_files(tmp_path: Path) -> None:
    """A second run is like a retry: it keeps a shard that exists, and makes a missing one."""
    dest = tmp_path / "set"
    write(FILES.items(), dest, 3)
    before = contents(dest)
    for name in ("part_00001.ffr", ".ffrfs-manifest.jsonl"):
        (dest / name).unlink()
    kept = (dest / "part_00000.ffr").stat().st_ino
    write(FILES.items(), dest, 3)
    assert contents(dest) == before
    assert (dest / "part_00000.ffr").stat().st_ino == kept
    with pytest.raises(PackError, match=r"part_00002\.ffr: exists, and its top is another"):
        write({**FILES, "top": b"abc"}.items(), dest, 3)
    with pytest.raises(PackError, match="not empty"):
        write(FILES.items(), dest, 2)
    assert contents(dest) == before


def test_a_retried_bundle_makes_the_same_set(tmp_path: Path, monkeypatch: Any) -> None:
    """The worker is lost after it has made its shard, but before Beam knows of the shard."""
    write(FILES.items(), tmp_path / "want", 3)
    making = needed("ffrfs.beam.writing")._Making
    make = making.process

    def make_and_fail(self: Any, element: Any) -> Any:
        [*make(self, element)]
        raise RuntimeError("lost")

    with monkeypatch.context() as patch:
        patch.setattr(making, "process", make_and_fail)
        with pytest.raises(RuntimeError, match="lost"):
            write(FILES.items(), tmp_path / "got", 3)
    [before] = contents(tmp_path / "got")
    inode = (tmp_path / "got" / before).stat().st_ino
    write(FILES.items(), tmp_path / "got", 3)
    assert contents(tmp_path / "got") == contents(tmp_path / "want")
    assert (tmp_path / "got" / before).stat().st_ino == inode


@pytest.mark.parametrize("path", ["", "/a", "a//b", "../a", "a/..", "a\0b"])
def test_invalid_paths_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(PackError, match="not the path of a file"):
        write([(path, b"1")], tmp_path / "set", 1)
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize("second", ["a", "a/b"])
def test_two_files_of_one_path_are_refused(tmp_path: Path, second: str) -> None:
    with pytest.raises(PackError, match=r"^a: two files have this path"):
        write([("a", b"1"), (second, b"22"), ("a-", b"")], tmp_path / "set", 1)


def test_an_input_that_changes_is_an_error(tmp_path: Path) -> None:
    """This test calls the DoFns directly, because DirectRunner computes the input only once."""
    writing = needed("ffrfs.beam.writing")
    request = own.WriteToPack(tmp_path / "set", 1)._request
    (number, task), *_ = writing._Planning(request).process((0, [("a", 1), ("b", 1)]))
    for files in (
        [("a", b"1"), ("b", b"22")],
        [("a", b"1")],
        [("a", b"1"), ("b", b"2"), ("c", b"")],
        [("a", b"1"), ("c", b"2")],
    ):
        with pytest.raises(PackError, match=r"others the second time.*Reshuffle"):
            [*writing._Making(None).process((number, {"tasks": [task], "files": files}))]
    assert [*(tmp_path / "set").iterdir()] == []


PROGRAM = """
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from ffrfs.beam import ReadFromPack, WriteToPack

def main(pack, folder):
    options = PipelineOptions(
        runner="DirectRunner", direct_num_workers=2, direct_running_mode="multi_processing"
    )
    with beam.Pipeline(options=options) as pipeline:
        pipeline | ReadFromPack(pack) | WriteToPack(folder, num_shards=3)

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


def test_two_processes(tree: Path, tmp_path: Path) -> None:
    ffrfs.pack_folder(tree, tmp_path / "x.ffr")
    ffrfs.pack_folder(tree, tmp_path / "want", shards=3, reproducible=True)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = python(tmp_path / "program.py", tmp_path / "x.ffr", tmp_path / "got", timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
    found = contents(tmp_path / "got")
    assert len(found.pop(".ffrfs-manifest.jsonl").splitlines()) == 4
    assert found == contents(tmp_path / "want")


def test_the_example(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    for number in range(3):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"tree/{number}.png")
    ffrfs.pack_folder(tmp_path / "tree", tmp_path / "x.ffr")
    done = python(
        CHECKOUT / "examples/with_beam.py", tmp_path / "x.ffr", tmp_path / "set", timeout=100
    )
    assert (done.returncode, done.stdout) == (0, "3 pictures\n"), done.stderr
    assert re.match(rb"\x89PNG", ffrfs.PackedFolder(tmp_path / "set")["2.png"])
