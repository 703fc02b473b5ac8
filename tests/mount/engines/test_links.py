"""Symbolic links that were packed as links."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from ffrfs import pack_folder
from tests.mount import probes, survey
from tests.mount.child import ask
from tests.mount.command import ENGINES
from tests.mount.makers import MakeMount, closing_mounts

SERVED_BY = ENGINES
TARGETS = {
    "beside": b"file",
    "d/up": b"../file",
    "d/dangling": b"nowhere/at all",
    "d/long": b"x" * 4000,
    "d/odd": b"\xff\n\x01 y",
    "d/self": b"self",
    "to folder": b"d",
}


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A pack of a folder with links, some of which lead to files in it."""
    source, pack = tmp_path / "source", tmp_path / "linked.ffr"
    (source / "d").mkdir(parents=True)
    (source / "file").write_bytes(b"content")
    (source / "d" / "file").write_bytes(b"another")
    for path, target in TARGETS.items():
        os.symlink(target, os.fsencode(source / path))
    pack_folder(source, pack, symlinks="keep")
    return pack


@pytest.mark.promise("S39")
def test_symlinks_are_shown_as_packed(mount: MakeMount, linked: Path) -> None:
    tree = mount(linked, "-o", "umask=077,xattr")
    for path, target in TARGETS.items():
        found = tree.ask(probes.stat, path)
        assert stat.S_ISLNK(found.st_mode), path
        assert stat.S_IMODE(found.st_mode) == 0o777
        assert (found.st_size, found.st_nlink) == (len(target), 1)
        assert os.fsencode(tree.ask(probes.readlink, path)) == target
        assert tree.ask(probes.own_xattrs, path) == []
    assert tree.ask(probes.errno_of, "file", "readlink") == errno.EINVAL
    assert tree.ask(probes.errno_of, "d", "readlink") == errno.EINVAL


@pytest.mark.promise("S39")
def test_symlinks_resolve_to_their_targets(mount: MakeMount, linked: Path) -> None:
    tree = mount(linked)
    assert tree.ask(probes.read, "beside") == b"content"
    assert tree.ask(probes.read, "d/up") == b"content"
    assert tree.ask(probes.read, "to folder/file") == b"another"
    assert tree.ask(probes.errno_of, "d/dangling", "read") == errno.ENOENT
    assert tree.ask(probes.errno_of, "d/self", "read") == errno.ELOOP
    assert tree.ask(probes.errno_of, "d/long", "read") == errno.ENAMETOOLONG


@pytest.mark.promise("S23", "S39")
@pytest.mark.parametrize("engine", ["native", "uring"], indirect=True)
def test_link_target_is_requested_once(mount: MakeMount, linked: Path) -> None:
    tree = mount(linked)
    tree.ask(probes.readlink, "d/up")
    before = tree.requests()
    assert before["readlink"] == 1
    for _ in range(3):
        tree.ask(probes.readlink, "d/up")
    assert tree.requests() == before


@pytest.mark.promise("S24", "S39")
def test_engines_agree_on_links(
    places: Path, linked: Path, ways: list[str], tmp_path: Path
) -> None:
    with closing_mounts(places, tmp_path) as new:
        found = [new(name, linked) for name in ways]
        for tree in found:
            assert tree.mount("-o", "xattr").status == 0
        roots = [str(tree.path) for tree in found]
        count, different = ask(survey.differences, roots, 1, timeout_s=100)
    assert different == []
    assert count > 100


@pytest.mark.promise("S32", "S39")
def test_hints_skip_symlinks(mount: MakeMount, linked: Path) -> None:
    tree = mount(linked)
    ask(probes.hint_all, str(tree.path), [b"/beside", b"/d/up", b"/d/file", b"/to folder/file"])
    assert tree.ask(probes.read, "d/file") == b"another"
    assert tree.statistics()["prefetch"]["hinted"] == 1
