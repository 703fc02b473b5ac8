"""Wrong usage: one line that says what is wrong, and where the help is."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

import ffrfs as ffrfs_package
from ffrfs import pack_folder
from ffrfs.cli.main import COMMANDS
from tests.cli.command_run import Run
from tests.folder.archives import write_tree
from tests.folder.folder_model import make_folder

# How a complaint begins, behind the name of the command.
WRONG = {
    "mont a b": "unknown command 'mont'. Did you mean 'mount'?",
    "zzz": "unknown command 'zzz'",
    "help mont": "unknown command 'mont'. Did you mean 'mount'?",
    "": "the following arguments are required: COMMAND",
    "ls": "the following arguments are required: PACK",
    "extract x": "the following arguments are required: DEST",
    "prefetch": "the following arguments are required: MOUNTPOINT",
    "prefetch x": "no paths: give a PATH, or a list of paths with --from, or --all",
    "ls x --foo": "unknown argument --foo",
    "pack a b --jobs x": "argument --jobs: 'x': must be a number of at least 1",
    "verify a --jobs 65": "argument --jobs: '65': must be a number from 1 to 64",
    "info a --limit \u00b2": "argument --limit: '²': must be a number of at least 1",
    "cat x": "the following arguments are required: PATH",
    "pack x": "the following arguments are required: DST.ffr",
    "pack --jobs 0 x y": "argument --jobs: '0': must be a number of at least 1",
    "verify --jobs 0 x": "argument --jobs: '0': must be a number from 1 to 64",
    "ls --on-conflict both x": "argument --on-conflict: invalid choice: 'both'",
    "ls --json -0 x": "argument -0/--null: not allowed with argument --json",
    "convert x": "the following arguments are required: DST",
    "convert x y": "cannot tell the format of y from its name",
    "convert x y.ffr --to tfrecord": "--to tfrecord: y.ffr has the extension of another format",
    "convert x y.tfrecord --to pack": "--to pack: y.tfrecord has the extension of another format",
    "convert x y.ffr --to ffrecord --features": "--features: writes a pack,",
    "convert x y.tar --flat": "--flat: is for JSON lines,",
    "convert x y.ffr --features --records": "--features and --records: use one of them",
    "convert x y.ffr --compression gzip": "--compression and --level are for TFRecord files",
    "convert x y.ffr --level 3": "--compression and --level are for TFRecord files",
    "convert x y.tfrecord --level 3": "--level needs a compression; add --compression gzip or zlib",
    "convert x y.tfrecord --level 10 --compression gzip": "argument --level: invalid choice: 10",
    "convert x y.tfrecord --compression bzip2": "argument --compression: invalid choice: 'bzip2'",
    "convert x y.tfrecord --on-error stop": "argument --on-error: invalid choice: 'stop'",
    "convert --shards 0 x y": "argument --shards: '0': must be a number from 1 to 99,999",
    "convert --shards 2 x y.ffr": "--shards: writes TFRecord, Parquet or tar files,",
    "convert --shards 2 --to pack x y": "--shards: writes TFRecord, Parquet or tar files,",
    "convert --to pack x y.jsonl": "--to pack: y.jsonl has the extension of another format",
    "convert --to jsonl x y.ffr": "--to jsonl: y.ffr has the extension of another format",
    "convert --compression gzip x y.jsonl": "--compression and --level are for TFRecord files",
    "convert --to folder --on-error skip x y": "--to folder: does not go with --records or --on",
    "convert --to folder --records x y": "--to folder: does not go with --records or --on",
    "convert --to folder --shards 2 x y": "--shards: writes TFRecord, Parquet or tar files,",
    "convert --to folder x y.ffr": "--to folder: y.ffr has the extension of another format",
    "pack --shards 0 x.tar out": "argument --shards: '0': must be a number of at least 1",
    "pack --shards 2 --shard-size 1G x.tar out": "argument --shard-size: not allowed",
    "pack --shard-size much x.tar out": "argument --shard-size: much: not a size",
    "pack --shard-size 0 x.tar out": "argument --shard-size: 0: not a size",
    "pack --shard-size 1GG x.tar out": "argument --shard-size: 1GG: not a size",
    "pack --shard-size -1G x.tar out": "argument --shard-size: expected one argument",
    "pack --symlinks drop x.tar out": "argument --symlinks: invalid choice: 'drop'",
    "pack --order size x.tar out": "argument --order: x.tar is an archive, and keeps its own order",
    "pack --list folder x": "argument --list: needs --dry-run",
    "pack -0 folder x": "argument -0/--null: needs --files-from or --list",
    "pack --files-from - - x": "argument --files-from: standard input is SRC already",
    "pack --on-conflict last folder x": "argument --on-conflict: folder is neither a pack",
    "pack --allow-missing - x": "argument --allow-missing: - is neither a pack nor a pack set",
    "pack old.ffr folder x": "argument SRC: folder is neither a pack nor a pack set; name it alone",
    "index": "the following arguments are required: FILE",
    "info --limit 0 x": "argument --limit: '0': must be a number of at least 1",
    "head -n 0 x": "argument -n: '0': must be a number of at least 1",
    "cat --example x -1": "--example: '-1': must be a number of at least 0",
    "cat --example x one": "--example: 'one': must be a number of at least 0",
    "cat --json x 1": "--json needs --example",
    "schema validate x.tfrecord": "validate: needs a schema; add --schema FILE",
    "schema infer --schema s x.tfrecord": "--schema: is for validate, not for infer",
    "schema stats --no-shape x.tfrecord": "--no-shape: is for infer, not for stats",
    "schema show -o s x": "--output: is not for show",
    "schema stats --force x": "--force: needs --output",
    "schema stats": "the following arguments are required: FILE",
    "schema look x": "argument ACTION: invalid choice: 'look'",
    "prefetch --all x y": "--all takes no paths: it is about all files",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_one_line(
    ffrfs: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    pack_folder(make_folder(tmp_path / "folder", {"a": b""}), tmp_path / "old.ffr")
    write_tree(tmp_path / "x.tar", {"a": b""})
    done = ffrfs(*line.split())
    assert (done.status, done.out, done.err.count("\n")) == (2, b"", 1)
    command = line.partition(" ")[0]
    name = f"ffrfs {command}" if command in COMMANDS else "ffrfs"
    assert done.err.startswith(f"{name}: {WRONG[line]}"), done.err
    assert done.err.endswith(f"; see {name} --help\n")
    assert sorted(os.listdir()) == ["folder", "old.ffr", "x.tar"]


@pytest.mark.parametrize(
    ("line", "same"),
    {
        "help": "--help",
        "help pack": "pack --help",
        "unmount --help": "umount --help",
        "help unmount": "umount --help",
        "-V": "--version",
    }.items(),
)
def test_other_words_for_the_same(ffrfs: Run, line: str, same: str) -> None:
    done = ffrfs(*line.split())
    assert done == ffrfs(*same.split())
    assert done.status == 0


def test_version(ffrfs: Run) -> None:
    assert ffrfs("-V").said == [f"ffrfs {ffrfs_package.__version__}"]
