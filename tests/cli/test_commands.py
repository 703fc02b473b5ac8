"""The output of each command when all is well."""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path

from tests.cli.command_run import TREE, Run
from tests.ffrecord_file import Tree, flip_byte, record_extents, write_folder, write_records
from tests.folder.folder_model import make_folder

LARGE = bytes(range(256)) * 8192


def plain(path: Path) -> Path:
    return write_records(path, [f"record {i}".encode() for i in range(12)])


def test_ls(ffrfs: Run, pack: Path) -> None:
    assert ffrfs("ls", pack).said == ["a", "empty", "nothing", "z.txt"]
    assert ffrfs("ls", pack, "a").lines == ["b", "large", "é"]
    assert ffrfs("ls", pack, "./a//b/").lines == ["deep.txt"]
    assert ffrfs("ls", pack, "a/b/deep.txt").lines == ["a/b/deep.txt"]
    assert ffrfs("ls", pack, "empty").lines == []


def test_ls_recursive(ffrfs: Run, pack: Path) -> None:
    below_a = ["b", "b/deep.txt", "large", "é"]
    assert ffrfs("ls", "-R", pack, "a").lines == below_a
    everything = ["a", *(f"a/{path}" for path in below_a), "empty", "nothing", "z.txt"]
    assert ffrfs("ls", "--recursive", pack).lines == everything


def test_ls_long(ffrfs: Run, pack: Path) -> None:
    os.utime(pack, (1_700_000_000, 1_700_000_000))
    lines = ffrfs("ls", "-l", pack, "a").lines
    pattern = r"(drwxr-xr-x +0|-rw-r--r-- +[\d,]+) 2023-11-1\d \d\d:\d\d (b|large|é)"
    assert all(re.fullmatch(pattern, line) for line in lines)
    assert [line.split()[1] for line in lines] == ["0", "2,097,152", "1"]


def test_ls_human_readable(ffrfs: Run, pack: Path) -> None:
    lines = ffrfs("ls", "-lh", pack, "a").lines
    assert [line.split()[1:3] for line in lines][1] == ["2.0", "MiB"]
    assert ffrfs("ls", "-h").out == ffrfs("ls", "--help").out


def test_ls_json(ffrfs: Run, pack: Path) -> None:
    entries = json.loads(ffrfs("ls", "-R", "--json", pack).out)
    assert [entry["path"] for entry in entries] == ffrfs("ls", "-R", pack).lines
    assert entries[0] == {"path": "a", "type": "directory"}
    assert entries[3] == {
        "path": "a/large",
        "type": "file",
        "size": len(LARGE),
        "record": 1,
        "crc32": f"{zlib.crc32(LARGE):08x}",
    }
    assert json.loads(ffrfs("ls", "--json", pack, "empty").out) == []


def test_ls_writes_names_unchanged_and_errors_escape_them(ffrfs: Run, tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", {"new\nline": b"1", "\x1b[31mred": b"2"})
    assert ffrfs("ls", pack).out == b"\x1b[31mred\nnew\nline\n"
    done = ffrfs("cat", pack, "no\nsuch\x1bname")
    assert done.err.count("\n") == 1
    assert "\x1b" not in done.err


def test_ls_null_ends_names_with_zero_bytes(ffrfs: Run, tmp_path: Path) -> None:
    tree: Tree = {"new\nline": {"\udcff": b"1"}, "\x1b[31mred": b"2"}
    pack = write_folder(tmp_path / "x.ffr", tree)
    expected = b"\x1b[31mred\0new\nline\0new\nline/\xff\0"
    for null in ("-0", "--null"):
        done = ffrfs("ls", null, "-R", pack)
        assert (done.status, done.out, done.err) == (0, expected, "")
    lines = ffrfs("ls", "-l0", pack).out.split(b"\0")
    assert [line.rpartition(b" ")[2] for line in lines] == [b"\x1b[31mred", b"new\nline", b""]


def test_ls_warns_of_names_with_line_breaks(ffrfs: Run, tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", {"a\nb": b"", "c\nd\n": b"", "e": b""})
    done = ffrfs("ls", pack)
    assert (done.status, done.out) == (0, b"a\nb\nc\nd\n\ne\n")
    text = "2 names with a line break; --null and --json tell them apart"
    assert done.err == f"ffrfs: {pack}: {text}\n"
    assert ffrfs("ls", "--json", pack).err == ""


def test_cat(ffrfs: Run, pack: Path) -> None:
    done = ffrfs("cat", pack, "z.txt", "a/large", "nothing", "z.txt")
    assert (done.status, done.err) == (0, "")
    assert done.out == b"last\n" + LARGE + b"last\n"


def test_cat_writes_nothing_if_a_path_is_wrong(ffrfs: Run, pack: Path) -> None:
    for path, reason in [("nope", "has no 'nope'"), ("a", "'a' is a directory, not a file")]:
        assert ffrfs("cat", pack, "z.txt", path).complaint == f"{pack}: {reason}"


def test_cat_stops_before_the_first_wrong_byte(ffrfs: Run, pack: Path) -> None:
    offset, size = record_extents(pack)[1]
    flip_byte(pack, offset + size - 1)
    done = ffrfs("cat", pack, "z.txt", "a/large", "z.txt")
    assert (done.status, done.out) == (1, b"last\n")
    assert done.err.startswith(f"ffrfs: {pack}: 'a/large': record 1 (")


def test_extract(ffrfs: Run, pack: Path, tmp_path: Path) -> None:
    assert ffrfs("extract", pack, tmp_path / "out").said == []
    assert (tmp_path / "out" / "a" / "large").read_bytes() == LARGE
    assert (tmp_path / "out" / "empty").is_dir()
    target = tmp_path / "out" / "a" / "b" / "deep.txt"
    hint = "to go on without it: --skip-existing; to replace it: --force"
    done = ffrfs("extract", pack, tmp_path / "out")
    assert done.complaint == f"{target}: exists already; {hint}"


def test_extract_skips_existing_files_or_replaces_them(
    ffrfs: Run, pack: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert ffrfs("extract", pack, out, "a").status == 0
    (out / "a" / "é").write_bytes(b"mine")
    (out / "a" / "large").unlink()
    assert ffrfs("extract", "--skip-existing", pack, out).said == []
    assert (out / "a" / "é").read_bytes() == b"mine"
    assert (out / "a" / "large").read_bytes() == LARGE
    assert (out / "z.txt").exists()
    assert ffrfs("extract", "--force", pack, out).said == []
    assert (out / "a" / "é").read_bytes() != b"mine"


def test_patterns_select_the_paths_that_match(ffrfs: Run, pack: Path, tmp_path: Path) -> None:
    assert ffrfs("ls", pack, "*").lines == ["a", "empty", "nothing", "z.txt"]
    assert ffrfs("ls", pack, "a/[bl]*").lines == ["a/b", "a/large"]
    assert ffrfs("ls", "-R", pack, "a/b*").lines == ["a/b", "a/b/deep.txt"]
    assert ffrfs("cat", pack, "z*", "**/deep.txt").out == b"last\n" + read(ffrfs, pack)
    assert ffrfs("extract", pack, tmp_path / "out", "**/*.txt").status == 0
    found = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {"deep.txt", "z.txt"}
    for command in (["ls", "--json", pack], ["cat", pack], ["extract", pack, tmp_path / "no"]):
        assert ffrfs(*command, "x*").complaint == f"{pack}: nothing matches 'x*'"
    assert not (tmp_path / "no").exists()


def read(ffrfs: Run, pack: Path) -> bytes:
    return ffrfs("cat", pack, "a/b/deep.txt").out


def test_a_name_that_looks_like_a_pattern_is_that_name(ffrfs: Run, tmp_path: Path) -> None:
    pack = write_folder(tmp_path / "x.ffr", {"a[1]": b"brackets", "a1": b"digit"})
    assert ffrfs("cat", pack, "a[1]").out == b"brackets"


def test_extract_of_some_paths(ffrfs: Run, pack: Path, tmp_path: Path) -> None:
    assert ffrfs("extract", pack, tmp_path / "out", "a/b", "z.txt").status == 0
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == [
        "a",
        "b",
        "deep.txt",
        "z.txt",
    ]


def test_info(ffrfs: Run, pack: Path) -> None:
    assert ffrfs("info", pack).lines == [
        f"file             {pack}",
        "kind             pack",
        "records          6",
        "files            5",
        "directories      3",
        f"bytes            {len(LARGE) + 11:,}",
        f"stored bytes     {len(LARGE) + 11:,}",
        "header checksum  good",
        "file sizes       0 to 2,097,152, median 5",
        "index            none but the pickle (ffrfs index writes one)",
    ]
    assert json.loads(ffrfs("info", "--json", pack).out) == {
        "file": str(pack),
        "kind": "pack",
        "records": 6,
        "files": 5,
        "directories": 3,
        "bytes": len(LARGE) + 11,
        "stored_bytes": len(LARGE) + 11,
        "header_checksum": "good",
        "sizes": {"min": 0, "median": 5, "max": len(LARGE)},
        "index": {"packs": 1, "indexed": 0, "sidecars": [], "bytes": 0},
    }


def test_verify(ffrfs: Run, pack: Path) -> None:
    size = sum(size for _, size in record_extents(pack))
    assert ffrfs("verify", pack).said == [f"{pack}: 6 records, {size:,} bytes, all records good"]
    assert ffrfs("verify", "-q", pack).out == b""
    assert json.loads(ffrfs("verify", "--json", pack).out) == {
        "file": str(pack),
        "good": True,
        "records": 6,
        "bytes": size,
        "header_checksum": "good",
        "index_error": None,
        "bad": [],
    }


def test_verify_names_every_bad_file(ffrfs: Run, pack: Path) -> None:
    extents = record_extents(pack)
    for record in (0, 4):
        flip_byte(pack, extents[record][0])
    done = ffrfs("verify", pack)
    assert done.status == 1
    assert [line.split(" (offset")[0] for line in done.err.splitlines()] == [
        f"ffrfs: {pack}: 'a/b/deep.txt': record 0",
        f"ffrfs: {pack}: 'z.txt': record 4",
    ]
    assert done.lines[0].endswith("2 of them damaged")
    quiet = ffrfs("verify", "-q", pack)
    assert (quiet.status, quiet.out, quiet.err) == (1, b"", done.err)
    report = json.loads(ffrfs("verify", "--json", pack).out)
    assert report["good"] is False
    assert [(bad["record"], bad["path"]) for bad in report["bad"]] == [
        (0, "a/b/deep.txt"),
        (4, "z.txt"),
    ]


def test_plain_files_show_their_records(ffrfs: Run, tmp_path: Path) -> None:
    file = plain(tmp_path / "plain.ffr")
    names = ffrfs("ls", file).lines
    assert len(names) == 12
    assert [int(name) for name in names] == list(range(12))
    assert len({len(name) for name in names}) == 1
    assert ffrfs("cat", file, names[7]).out == b"record 7"
    assert ffrfs("extract", file, tmp_path / "out").status == 0
    assert (tmp_path / "out" / names[11]).read_bytes() == b"record 11"
    assert json.loads(ffrfs("info", "--json", file).out)["kind"] == "plain FFRecord"
    assert ffrfs("verify", file).status == 0
    flip_byte(file, record_extents(file)[3][0])
    assert f"{names[3]!r}: record 3 " in ffrfs("verify", file).err


def test_pack_skips_special_files_by_option(ffrfs: Run, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "folder", TREE)
    os.mkfifo(folder / "fifo")
    done = ffrfs("pack", folder, tmp_path / "x.ffr")
    assert done.complaint.startswith(f"{folder}/fifo: is a FIFO; ")
    assert not (tmp_path / "x.ffr").exists()
    done = ffrfs("pack", "--skip-special", folder, tmp_path / "x.ffr")
    assert (done.status, done.err) == (0, f"ffrfs: {folder}/fifo: skipped\n")
    assert "fifo" not in ffrfs("ls", tmp_path / "x.ffr").lines
