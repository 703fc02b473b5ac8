"""Source lists the files of a folder, and refuses some of them."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from ffrfs.errors import PackError
from ffrfs.packing.pack import pack_folder
from ffrfs.packing.sources import folder_lister
from ffrfs.packing.sources.contents import Symlinks
from ffrfs.packing.sources.folder_lister import DEPTH_LIMIT, FolderIdentity
from ffrfs.packing.sources.options import PackOptions
from ffrfs.packing.sources.source import Source
from tests.folder.folder_model import make_folder, shown

TREE = {
    "B.png": b"1",
    "a": {"x.png": b"12", "y.txt": b"123", "deep": {"z.png": b""}},
    "a.png": b"1234",
    "empty": {},
    "text": {"only.txt": b"t"},
}


def source(
    folder: Path,
    include: list[str] | None = None,
    exclude: list[str] | None = None,
    skip_special: bool = False,
    symlinks: Symlinks = "follow",
) -> Source:
    options = PackOptions(
        include=include, exclude=exclude, skip_special=skip_special, symlinks=symlinks
    )
    return Source(str(folder), options)


def sizes(found: Source) -> dict[str, int]:
    """Return path → size in bytes of the files, in the order of the records."""
    found.number()
    entries = found.entries
    files = entries.files(0, entries.record_count)
    paths = map(os.fsdecode, entries.paths(files))
    return {path: int(entries.sizes()[file]) for path, file in zip(paths, files, strict=True)}


def refusal(folder: Path) -> str:
    with pytest.raises(PackError) as caught:
        source(folder)
    return str(caught.value)


def test_names_and_sizes_in_order(folder: Path) -> None:
    found = source(folder)
    assert list(sizes(found).items()) == [
        ("B.png", 1),
        ("a/deep/z.png", 0),
        ("a/x.png", 2),
        ("a/y.txt", 3),
        ("a.png", 4),
        ("text/only.txt", 1),
    ]
    entries = found.entries
    assert (entries.file_count, entries.folder_count, entries.link_count) == (6, 4, 0)
    assert entries.byte_count == 11


@pytest.mark.parametrize(
    ("include", "exclude", "files", "folder_count"),
    [
        (["*.txt"], None, {"a/y.txt": 3, "text/only.txt": 1}, 2),
        (["a"], None, {"a/deep/z.png": 0, "a/x.png": 2, "a/y.txt": 3}, 2),
        (["a/x.*", "empty"], None, {"a/x.png": 2}, 2),
        (["z.png"], None, {"a/deep/z.png": 0}, 2),
        (["./a"], None, {"a/deep/z.png": 0, "a/x.png": 2, "a/y.txt": 3}, 2),
        (["a", "a/x.png", "z.png"], None, {"a/deep/z.png": 0, "a/x.png": 2, "a/y.txt": 3}, 2),
        ([], None, {}, 0),
        (None, ["*.png"], {"a/y.txt": 3, "text/only.txt": 1}, 4),
        (None, ["a", "empty", "text"], {"B.png": 1, "a.png": 4}, 0),
        (["*.png"], ["a/*"], {"B.png": 1, "a.png": 4}, 0),
        (["a"], ["deep"], {"a/x.png": 2, "a/y.txt": 3}, 1),
    ],
)
def test_include_and_exclude(
    folder: Path,
    include: list[str] | None,
    exclude: list[str] | None,
    files: dict[str, int],
    folder_count: int,
) -> None:
    found = source(folder, include, exclude)
    assert sizes(found) == files
    assert found.entries.folder_count == folder_count


@pytest.mark.parametrize(
    ("include", "exclude", "pattern"),
    [
        (["nothing"], None, "nothing"),
        (["*.txt", "./x.png", "no/*"], None, "./x.png"),
        (["a", "a/deep", "deep/z.png"], None, "deep/z.png"),
        (["x.png"], ["a/x.*"], "x.png"),
    ],
)
def test_a_pattern_that_matches_nothing(
    folder: Path, include: list[str], exclude: list[str] | None, pattern: str
) -> None:
    with pytest.raises(PackError) as caught:
        source(folder, include, exclude)
    what = "nothing that is not excluded" if exclude else "nothing"
    assert str(caught.value) == (
        f"{folder}: {what} in it matches --include {pattern!r}; a pattern without a slash is a "
        f"name, one with a slash is a path below {folder}"
    )


def test_an_exclude_pattern_without_matches_is_no_error(folder: Path) -> None:
    assert source(folder, exclude=["nothing", "./nothing"]).entries.file_count == 6
    assert source(folder, exclude=["./a"]).entries.file_count == 3


def test_more_files_than_are_listed_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 128 + 10
    for module in ("folder_lister", "source"):
        monkeypatch.setattr(f"ffrfs.packing.sources.{module}.BATCH_COUNT", 64)
    for i in range(count):
        (tmp_path / f"{i:04d}").write_bytes(b"%d" % i)
    found = source(tmp_path)
    assert sizes(found) == {f"{i:04d}": len(str(i)) for i in range(count)}
    digests = list(found.digests(range(found.entries.file_count), 3))
    paths = found.entries.paths(range(found.entries.file_count))
    assert digests == [
        hashlib.sha256((tmp_path / os.fsdecode(path)).read_bytes()).digest() for path in paths
    ]


def test_patterns_that_match_nothing_change_nothing(folder: Path, tmp_path: Path) -> None:
    """With patterns each name is checked; without them a directory is listed in one go."""
    (folder / "link").symlink_to("a.png")
    (folder / "folder-link").symlink_to("a")
    os.mkfifo(folder / "pipe")
    os.mkdir(os.fsencode(folder) + b"/\xff")
    (folder / os.fsdecode(b"\xfe")).write_bytes(b"no UTF-8")
    found = [source(folder, exclude=exclude, skip_special=True) for exclude in (None, ["none"])]
    assert sizes(found[0]) == sizes(found[1])
    assert sorted(found[0].skipped) == sorted(found[1].skipped)
    assert len(found[0].skipped) == 3
    assert found[0].links.followed == found[1].links.followed == 2
    packs = [tmp_path / "one.ffr", tmp_path / "other.ffr"]
    for exclude, pack in zip((None, ["none"]), packs, strict=True):
        pack_folder(folder, pack, exclude=exclude, skip_special=True, reproducible=True)
    assert packs[0].read_bytes() == packs[1].read_bytes()


def test_links_are_followed(folder: Path, tmp_path: Path) -> None:
    make_folder(tmp_path / "elsewhere", {"f": b"12345"})
    (folder / "text" / "file").symlink_to("only.txt")
    (folder / "empty" / "folder").symlink_to(tmp_path / "elsewhere")
    (folder / "empty" / "again").symlink_to(tmp_path / "elsewhere")  # no loop
    found = sizes(source(folder))
    assert {path: size for path, size in found.items() if path.startswith(("text", "empty"))} == {
        "empty/again/f": 5,
        "empty/folder/f": 5,
        "text/file": 1,
        "text/only.txt": 1,
    }


def test_links_are_kept(folder: Path) -> None:
    (folder / "a" / "up").symlink_to("..")  # no loop
    (folder / "a" / "nowhere").symlink_to("/no/such/file")  # no error
    (folder / "text" / "file.png").symlink_to("only.txt")
    found = source(folder, symlinks="keep")
    assert (found.entries.file_count, found.entries.link_count) == (6, 3)
    assert "text/file.png" not in sizes(found)
    found = source(folder, ["*.png"], symlinks="keep")
    assert (found.entries.link_count, found.entries.folder_count) == (1, 3)


def test_links_that_stay_inside_are_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "text" / "file").symlink_to("only.txt")
    (folder / "empty" / "folder").symlink_to("../a/deep")
    (folder / "absolute").symlink_to(folder / "B.png")
    # A link by way of one that is outside; and the directory itself under another name.
    (tmp_path / "elsewhere").symlink_to(folder / "text")
    (folder / "back").symlink_to(tmp_path / "elsewhere" / "only.txt")
    (tmp_path / "name").symlink_to(folder)
    for root in (folder, tmp_path / "name"):
        found = source(root, symlinks="inside")
        assert sizes(found)["empty/folder/z.png"] == 0
        assert {path: sizes(found)[path] for path in ("text/file", "absolute", "back")} == {
            "text/file": 1,
            "absolute": 1,
            "back": 1,
        }
        assert (found.links.followed, found.links.left_out) == (4, 0)


def test_links_that_lead_out_are_listed(folder: Path, tmp_path: Path) -> None:
    make_folder(tmp_path / "folder2", {"secret.png": b"secret"})
    (folder / "a" / "host").symlink_to("/etc/hostname")
    assert outside(folder) == (
        f"{folder}: a symbolic link leads out of it: a/host (to /etc/hostname); follow, keep or "
        "skip links by --symlinks, or exclude them"
    )
    # A directory whose name begins like that of the packed one, and a link to a link.
    (folder / "beside").symlink_to("../folder2")
    (folder / "text" / "chain").symlink_to("../a/host")
    for number in range(5):
        (folder / f"many{number}").symlink_to("../folder2/secret.png")
    assert outside(folder) == (
        f"{folder}: symbolic links lead out of it: a/host (to /etc/hostname), beside (to "
        "../folder2), many0 (to ../folder2/secret.png), many1 (to ../folder2/secret.png), many2 "
        "(to ../folder2/secret.png), and 3 more; follow, keep or skip links by --symlinks, or "
        "exclude them"
    )
    everything = ["many?", "beside", "host", "chain"]
    assert source(folder, exclude=everything, symlinks="inside").entries.file_count == 6
    # Links that are not chosen do no harm; but "beside" may hold chosen files.
    assert "beside (to ../folder2); " in outside(folder, ["*.png"])
    assert source(folder, ["*.txt"], ["beside"], symlinks="inside").entries.file_count == 2


def outside(folder: Path, include: list[str] | None = None) -> str:
    with pytest.raises(PackError) as caught:
        source(folder, include, symlinks="inside")
    return str(caught.value)


def test_links_are_left_out(folder: Path) -> None:
    (folder / "a" / "host").symlink_to("/etc/hostname")
    (folder / "a" / "nowhere").symlink_to("/no/such/file")
    (folder / "a" / "up.txt").symlink_to("..")
    found = source(folder, symlinks="skip")
    assert (found.entries.file_count, found.entries.link_count) == (6, 0)
    assert (found.links.followed, found.links.left_out) == (0, 3)
    assert source(folder, ["*.txt"], symlinks="skip").links.left_out == 1


@pytest.mark.parametrize("target", [".", "..", "../../a/deep"])
def test_a_loop_names_its_link(folder: Path, target: str) -> None:
    link = folder / "a" / "deep" / "loop"
    link.symlink_to(target)
    assert refusal(folder).startswith(f"{link}: a symbolic link that makes a loop, back to ")
    assert source(folder, exclude=["loop"]).entries.file_count == 6


def test_a_loop_through_a_folder_outside_names_its_link(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "folder", {"d": {}})
    (folder / "d" / "up").symlink_to(tmp_path)
    assert refusal(folder) == (
        f"{folder}/d/up: a symbolic link that makes a loop, back to {folder}; exclude it"
    )


@pytest.mark.parametrize(
    ("target", "reason"),
    [("nowhere", "No such file or directory"), ("link", "Too many levels of symbolic links")],
)
def test_a_link_that_leads_nowhere_is_named(folder: Path, target: str, reason: str) -> None:
    link = folder / "a" / "link"
    link.symlink_to(target)
    assert refusal(folder) == (
        f"{link}: a symbolic link to {target}, which cannot be followed ({reason}); "
        "exclude it or remove it"
    )
    with pytest.raises(PackError):
        source(folder, skip_special=True)  # its content is unknown
    assert source(folder, exclude=["link"]).entries.file_count == 6
    assert source(folder, include=["*.png"]).entries.file_count == 4  # the link is not chosen


def make_socket(path: Path) -> None:
    here = os.open(path.parent, os.O_PATH)  # the path may be too long for a socket
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


SPECIAL = {
    "a socket": make_socket,
    "a FIFO": os.mkfifo,
    "a character device": lambda path: path.symlink_to("/dev/null"),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_files_are_refused_or_skipped(folder: Path, kind: str) -> None:
    path = folder / "a" / "special"
    SPECIAL[kind](path)
    assert refusal(folder) == f"{path}: is {kind}; exclude it, or skip such files (--skip-special)"
    assert source(folder, exclude=["special"]).skipped == []
    found = source(folder, skip_special=True)
    assert found.skipped == [str(path)]
    assert found.entries.file_count == 6


def test_skipped_files_are_named_in_order(tmp_path: Path) -> None:
    """The order is that of the names, whatever the order of the directory is."""
    names = [f"{number:02}" for number in range(20)]
    for name in random.Random(1).sample(names, len(names)):
        (tmp_path / "folder" / name).mkdir(parents=True)
        os.mkfifo(tmp_path / "folder" / name / "fifo")
    skipped = source(tmp_path / "folder", skip_special=True).skipped
    assert skipped == [f"{tmp_path}/folder/{name}/fifo" for name in names]


@pytest.mark.parametrize("is_folder", [False, True])
def test_names_that_are_not_utf8_are_refused_or_skipped(folder: Path, is_folder: bool) -> None:
    path = os.fsencode(folder) + b"/a/caf\xe9"
    if is_folder:
        os.mkdir(path)
        Path(os.fsdecode(path), "inside").touch()
    else:
        Path(os.fsdecode(path)).touch()
    assert refusal(folder).startswith(f"{os.fsdecode(path)}: the name is not UTF-8; ")
    found = source(folder, skip_special=True)
    assert found.skipped == [os.fsdecode(path)]
    assert found.entries.file_count == 6


def nest(folder: Path, depth: int) -> None:
    """Make nested folders, deeper than a path can say, and a file in the last one."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def remove(folder: Path) -> None:
    """Remove a deep tree; pytest's own clean-up recurses, and gives up."""
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_a_tree_at_the_depth_limit(tmp_path: Path) -> None:
    nest(tmp_path, DEPTH_LIMIT)
    try:
        found = source(tmp_path)
        assert found.entries.folder_count == DEPTH_LIMIT
    finally:
        remove(tmp_path / "d")


def test_a_tree_beyond_the_depth_limit(tmp_path: Path) -> None:
    nest(tmp_path, DEPTH_LIMIT + 1)
    try:
        assert refusal(tmp_path).endswith(f"d: deeper than {DEPTH_LIMIT} directories; exclude it")
    finally:
        remove(tmp_path / "d")


@pytest.mark.parametrize("symlinks", ["keep", "inside", "follow"])
@pytest.mark.parametrize("part", ["d", "d/x"])
def test_a_link_that_replaced_a_listed_path_is_not_digested(
    tmp_path: Path, symlinks: Symlinks, part: str
) -> None:
    root = make_folder(tmp_path / "root", {"d": {"x": b"1"}})
    make_folder(tmp_path / "d", {"x": b"2"})
    found = source(root, symlinks=symlinks)
    (root / part).rename(root / "aside")
    (root / part).symlink_to(tmp_path / part)
    if symlinks == "follow":
        assert list(found.digests([0], 1)) == [hashlib.sha256(b"2").digest()]
        return
    with pytest.raises(PackError, match=f"^{root}/d/x: changed while it was packed; pack again$"):
        list(found.digests([0], 1))


def test_links_that_multiply_the_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each directory has ten links to the next one: 10,000 ways to the last one."""
    monkeypatch.setattr(folder_lister, "SHOWN_THROUGH_LINKS_LIMIT", 5000)
    root = make_folder(tmp_path / "root", {f"d{depth}": {} for depth in range(5)})
    for depth in range(4):
        for number in range(10):
            (root / f"d{depth}" / f"link{number}").symlink_to(f"../d{depth + 1}")
    for symlinks in ("inside", "follow"):
        with pytest.raises(PackError, match=r"is one of over 5,000 behind links .* keep the links"):
            source(root, symlinks=symlinks)
    source(root, symlinks="keep")


def test_a_link_to_a_large_directory_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_lister, "SHOWN_THROUGH_LINKS_LIMIT", 20)
    make_folder(tmp_path / "large", {str(number): {"x": b""} for number in range(30)})
    (root := tmp_path / "root").mkdir()
    (root / "train").symlink_to("../large")
    assert source(root).entries.file_count == 30
    (root / "same").symlink_to("../large")
    with pytest.raises(PackError, match=r"is one of over 20 behind links"):
        source(root)


def test_the_folder_that_is_written_to_is_not_packed(folder: Path) -> None:
    def walk(exclude: list[str]) -> Source:
        return Source(
            str(folder),
            PackOptions(exclude=exclude),
            forbidden=FolderIdentity.of((folder / "a" / "deep").stat()),
        )

    with pytest.raises(PackError, match=f"^{folder}/a/deep: the pack would be inside"):
        walk([])
    assert walk(["deep"]).entries.file_count == 5


@pytest.mark.parametrize(
    ("name", "error"), [("nothing", FileNotFoundError), ("a.png", NotADirectoryError)]
)
def test_a_source_that_is_not_a_directory(folder: Path, name: str, error: type[OSError]) -> None:
    with pytest.raises(error) as caught:
        source(folder / name)
    assert caught.value.filename == str(folder / name)


@pytest.mark.promise("S1")
def test_names_are_packed_by_their_bytes_in_any_locale(folder: Path, out: Path) -> None:
    """Python decodes names by the encoding of the locale, here ASCII."""
    tree = {"größe": {"ä": b"1", "b": b"2"}, "leer-ö": {}}
    make_folder(folder, tree)
    (folder / "lö").symlink_to("größe/ä")
    own = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}

    def run(*words: str | Path) -> None:
        command = [sys.executable, "-m", "ffrfs", *map(str, words)]
        subprocess.run(command, env={**os.environ, **own}, check=True, timeout=60)

    run("pack", "-q", "--symlinks", "keep", "--exclude", "b", folder, out)
    found = shown(out)
    assert (found["größe/ä"].content, found["leer-ö"].content) == (b"1", None)
    assert found["lö"].content == "größe/ä".encode()
    assert "größe/b" not in found
    run("add", "-C", folder, out, "größe/b")
    assert shown(out)["größe/b"].content == b"2"


def test_a_file_or_directory_that_cannot_be_read_is_named(
    folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Iterator[os.DirEntry[str]]:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "read", fail)
        with pytest.raises(OSError, match="Input/output error") as caught:
            pack_folder(folder, out, dedup=True)
        assert caught.value.filename == str(folder / "B.png")
    monkeypatch.setattr(os, "scandir", lambda _: nullcontext(map(fail, [0])))
    with pytest.raises(OSError, match="Input/output error") as caught:
        pack_folder(folder, out, exclude=["B.png"])
    assert caught.value.filename == str(folder)
