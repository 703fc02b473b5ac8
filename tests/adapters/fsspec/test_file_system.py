"""`ffr://`: fsspec reports the same for a pack as for its directory."""

from __future__ import annotations

import errno
import pickle
import shutil
import sys
import tomllib
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ffrfs.errors import ChecksumError, OptionError
from tests.adapters.needed import needed
from tests.checkout import CHECKOUT
from tests.interpreter import python

fsspec = needed("fsspec")
PackFileSystem = needed("ffrfs.fsspec").PackFileSystem

PATHS = ["", "/", "a", "a/", "/a/b", "a/b/one.txt", "nothing", "c/to_file", "to_a", "to_a/b"]
PATTERNS = ["*", "**", "a/*", "to_*", "a/**", "**/*.txt", "?.txt", "a/*/one.*", "c/[[]x].txt", "x*"]


@pytest.fixture
def fs(pack: str) -> Any:
    return fsspec.filesystem("ffr", fo=pack)


@pytest.fixture
def local(source: Path) -> Any:
    """The directory itself, without its broken link, which a pack's listing leaves out."""
    tree = source.parent / "local"
    if not tree.exists():
        shutil.copytree(source, tree, symlinks=True)
        (tree / "broken").unlink()
    return fsspec.filesystem("dir", path=str(tree), target_protocol="file")


@pytest.mark.parametrize("path", PATHS)
def test_listings(fs: Any, local: Any, path: str) -> None:
    assert [*map(str, fs.ls(path, detail=False))] == sorted(local.ls(path.strip("/"), detail=False))
    ours, theirs = fs.info(path), local.info(path.strip("/"))
    assert (ours["islink"], ours["mtime"]) == (theirs["islink"], pytest.approx(theirs["mtime"]))
    assert ours["type"] == theirs["type"] == ("directory" if fs.isdir(path) else "file")
    assert ours["type"] == "directory" or ours["size"] == theirs["size"] == fs.size(path)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_glob(fs: Any, local: Any, pattern: str) -> None:
    assert fs.glob(pattern) == sorted(filter(None, local.glob(pattern)))


def test_find_and_walk(fs: Any, local: Any) -> None:
    """Links to directories are not followed. fsspec lists them as files, ffrfs does not."""
    files = [name for name in local.find("") if name not in ("to_a", "a/up")]
    assert fs.find("") == files
    assert fs.find("", maxdepth=1) == [name for name in files if "/" not in name]
    assert fs.find("a/two.txt") == ["a/two.txt"]
    assert fs.find("missing") == []
    assert [*fs.find("c", withdirs=True, detail=True)] == ["c", "c/[x].txt", "c/three", "c/to_file"]
    walked = [(path, *map(sorted, names)) for path, *names in fs.walk("")]
    assert walked == sorted((path, *map(sorted, names)) for path, *names in local.walk(""))
    assert fs.du("") == sum(local.size(name) for name in files)


def test_many_files_are_read_in_one_batch(
    fs: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = []
    read_files = fs._tree.read_files

    def counted(inos: list[int]) -> Any:
        batches.append(len(inos))
        return read_files(inos)

    monkeypatch.setattr(fs._tree, "read_files", counted)
    names = ["a.txt", "nothing", "large", "c/to_file", "a/two.txt"]
    assert fs.cat(names) == {name: (source / name).read_bytes() for name in sorted(names)}
    assert batches == [4]  # c/to_file is a link to a.txt
    batches.clear()
    ranges = fs.cat_ranges(
        ["a.txt", "a.txt", "large", "missing"], [0, -4, -5_000_000, 0], [4, None, None, 1]
    )
    text, data = (source / "a.txt").read_bytes(), (source / "large").read_bytes()
    assert ranges[:3] == [text[:4], text[-4:], data[-5_000_000:]]
    assert isinstance(ranges[3], FileNotFoundError)
    assert batches == [1]
    assert fs.cat("a", recursive=True).keys() == {"a/b/one.txt", "a/two.txt"}
    assert fs.cat("a.txt") == text
    assert fs.cat_file("large", 7, -9) == data[7:-9]
    assert (fs.cat_file("a.txt", 3), fs.cat_file("large"), fs.cat_file("nothing")) == (
        text[3:],
        data,
        b"",
    )
    assert (fs.cat_file("a.txt", 9, 3), fs.cat_file("large", 9, 3)) == (b"", b"")
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(["missing"], 0, 1, on_error="raise")
    with pytest.raises(IsADirectoryError):
        fs.cat_file("a")


def test_ranges_keep_few_whole_files_in_memory(
    fs: Any, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most _BATCH_SIZE bytes of whole files are in memory, or one larger file."""
    monkeypatch.setattr(sys.modules[PackFileSystem.__module__], "_BATCH_SIZE", 40)
    read_files = fs._tree.read_files
    batches: list[int] = []
    kept: list[weakref.ref[Any]] = []

    def counted(inos: list[int]) -> Any:
        assert not any(one() is not None for one in kept)
        found = read_files(inos)
        kept[:] = map(weakref.ref, found)
        batches.append(sum(map(len, found)))
        return found

    monkeypatch.setattr(fs._tree, "read_files", counted)
    names = ["a/b/one.txt", "a/two.txt", "a.txt", "large", "nothing", "c/three", "a.txt"]
    found = fs.cat_ranges(names, 2, None)
    assert found == [(source / name).read_bytes()[2:] for name in names]
    assert batches == [19 + 17, 13 + 0 + 15]  # a part of "large" is read alone
    batches.clear()
    assert fs.cat(names).keys() == {*names}
    assert batches == [13 + 19, 17 + 15, 10 << 20, 0]  # sorted by name


def test_open_files(fs: Any, pack: str, source: Path) -> None:
    data = (source / "large").read_bytes()
    with fs.open("large") as file:
        assert file.seek(-10, 2) == len(data) - 10
        assert file.read() == data[-10:]
        file.seek(5_000_000)
        assert file.read(3) == data[5_000_000:5_000_003]
    with fsspec.open(f"ffr://é.bin::{pack}", "r") as file:
        assert file.read() == "this is é.bin"
    with fsspec.open(f"ffr://é.bin::file://{pack}") as file:
        assert file.read() == (source / "é.bin").read_bytes()
    with fsspec.open("ffr://é.bin", fo=pack, target_protocol="file", target_options={}) as file:
        assert file.read() == (source / "é.bin").read_bytes()


@pytest.mark.parametrize("delimiter", [None, b" "])
@pytest.mark.parametrize(("offset", "length"), [(0, 6), (3, 4), (6, None), (6, 99)])
def test_blocks(fs: Any, local: Any, offset: int, length: int | None, delimiter: bytes) -> None:
    block = local.read_block("a.txt", offset, length, delimiter)
    assert fs.read_block("a.txt", offset, length, delimiter) == block


def test_an_unpickled_file_system_reads(fs: Any, pack: str) -> None:
    copy = f"pickle.loads({pickle.dumps(fs)!r})"
    program = f"import pickle, sys; sys.stdout.buffer.write({copy}.cat('a.txt'))"
    done = python("-c", program, check=True, text=False)
    assert done.stdout == fs.cat("a.txt")
    assert fs.ukey("a.txt") == PackFileSystem(pack).ukey("/a.txt") != fs.ukey("a/two.txt")


@pytest.mark.parametrize(
    "write",
    [
        lambda fs: fs.open("new", "wb"),
        lambda fs: fs.open("a.txt", "ab"),
        lambda fs: fs.mkdir("new"),
        lambda fs: fs.makedirs("new", exist_ok=True),
        lambda fs: fs.makedirs("a.txt", exist_ok=True),
        lambda fs: fs.makedirs("a"),
        lambda fs: fs.touch("a.txt"),
        lambda fs: fs.rm("a", recursive=True),
        lambda fs: fs.rmdir("empty"),
        lambda fs: fs.mv("a.txt", "b.txt"),
        lambda fs: fs.cp("a.txt", "b.txt"),
        lambda fs: fs.pipe({"new": b""}),
        lambda fs: fs.write_text("new", ""),
        lambda fs: fs.put("/etc/hostname", "new"),
    ],
)
def test_writing_is_refused(fs: Any, write: Callable[[Any], Any]) -> None:
    with pytest.raises(OSError, match="read-only") as raised:
        write(fs)
    assert raised.value.errno == errno.EROFS


def test_errors_name_the_damaged_file(source: Path, tmp_path: Path, pack: str) -> None:
    bad = tmp_path / "bad.ffr"
    bad.write_bytes(Path(pack).read_bytes().replace(b"this is a/two.txt", b"that is a/two.txt"))
    fs = PackFileSystem(bad)
    names = ["a.txt", "a/two.txt", "nothing"]
    with pytest.raises(ChecksumError, match=r"a/two\.txt"):
        fs.cat(names)
    found = fs.cat(names, on_error="return")
    assert isinstance(found.pop("a/two.txt"), ChecksumError)
    assert found == fs.cat(names, on_error="omit") == {"a.txt": b"this is a.txt", "nothing": b""}


def test_wrong_arguments_and_missing_packs(tmp_path: Path) -> None:
    for wrong in ({}, {"fo": "x.ffr", "target_protocol": "zip"}, {"fo": "hf://data/x.ffr"}):
        with pytest.raises(OptionError, match="ffr://"):
            PackFileSystem(**wrong)
    with pytest.raises(FileNotFoundError):
        PackFileSystem(str(tmp_path / "missing.ffr"))


def test_the_entry_point_gives_the_tested_class() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["fsspec.specs"] == {"ffr": "ffrfs.fsspec:PackFileSystem"}
    program = (
        "import sys, fsspec; print('ffrfs' in sys.modules, fsspec.get_filesystem_class('ffr'))"
    )
    done = python("-c", program, check=True)
    assert done.stdout == f"False {PackFileSystem}\n"
