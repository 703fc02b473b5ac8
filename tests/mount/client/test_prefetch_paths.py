"""Hints: how a reader's paths and numbers become paths and numbers in the mount."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.mount.client import hint_paths
from ffrfs.mount.client.hint_paths import HINT_SIZE_MAX, HintPaths
from ffrfs.mount.kernel.mount_table import FSTYPE, MountEntry

MakePaths = Callable[..., HintPaths]


@pytest.fixture
def paths(monkeypatch: pytest.MonkeyPatch) -> MakePaths:
    """Return a maker of HintPaths on a machine with these ffrfs mounts and one NFS mount."""

    def make(mountpoint: str | None = None, mounts: tuple[str, ...] = ("/m", "/m/inner")) -> Any:
        table = [MountEntry("/", "ext4", "/dev/x", "8:1")]
        table += [MountEntry(place, FSTYPE, "x.ffr", f"0:{i}") for i, place in enumerate(mounts)]
        table += [MountEntry("/other", "nfs4", "x", "0:99")]
        monkeypatch.setattr(hint_paths, "read_mount_table", lambda: table)
        return HintPaths(mountpoint)

    return make


@pytest.mark.parametrize(
    ("given_path", "hint"),
    [
        ("/m/a", b"/a"),
        ("/m/d/a b", b"/d/a b"),
        (b"/m/\xff\n", b"/\xff\n"),
        (Path("/m/d/e/f"), b"/d/e/f"),
        ("//m//d/./e/../f/", b"/d/f"),
        ("d/a", b"/d/a"),
        ("./123", b"/123"),
        ("123", b"/123"),
        (123, b"123"),
        (0, b"0"),
        (np.int64(7), b"7"),
        ("/m", None),
        ("", None),
        ("/other/a", None),
        ("/a", None),
        ("/mm/a", None),
        ("../m/a", b"/a"),
        ("../a", None),
        ("/m/inner/a", None),  # in another mount
        ("/m/a\0b", None),
        (-1, None),
    ],
)
def test_hints_of_a_given_mount(paths: MakePaths, given_path: Any, hint: bytes | None) -> None:
    assert paths("/m").hint(given_path) == hint


@pytest.mark.parametrize("wrong", [None, 1.5, ["/m/a"], object()])
def test_hint_of_a_wrong_type_is_a_type_error(paths: MakePaths, wrong: Any) -> None:
    with pytest.raises(TypeError):
        paths("/m").hint(wrong)


def test_path_that_is_too_long_gives_no_hint(paths: MakePaths) -> None:
    longest = "d/" * (HINT_SIZE_MAX // 2 - 1) + "a"
    assert paths("/m").hint(longest) == b"/" + longest.encode()
    assert paths("/m").hint("d" + longest) is None


def test_mount_is_that_of_the_first_path_inside_a_mount(paths: MakePaths) -> None:
    found = paths()
    assert found.has_mounts
    assert found.hint("/elsewhere/a") is None
    assert found.mountpoint is None
    with pytest.raises(ValueError, match="record 3: name its mountpoint"):
        found.hint(3)
    assert found.hint("/m/inner/d/a") == b"/d/a"  # the innermost mount counts
    assert found.mountpoint == "/m/inner"
    assert found.hint("/m/a") is None
    assert found.hint(3) == b"3"


def test_relative_paths_use_the_initial_working_directory(
    paths: MakePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    monkeypatch.chdir(tmp_path)
    found = paths(mounts=(str(mount),))
    monkeypatch.chdir("/")  # HintPaths has read the working directory before
    assert found.hint("mount/a") == b"/a"
    assert found.hint("a") is None


def test_no_mounts(paths: MakePaths) -> None:
    found = paths(mounts=())
    assert not found.has_mounts
    assert found.hint("/m/a") is None


def test_covered_mount_is_ignored(paths: MakePaths, monkeypatch: pytest.MonkeyPatch) -> None:
    table = [MountEntry("/m", FSTYPE, "x", "0:1"), MountEntry("/m", "ext4", "x", "8:2")]
    monkeypatch.setattr(hint_paths, "read_mount_table", lambda: table)
    assert not HintPaths(None).has_mounts


def test_symlinks_to_the_mount_are_followed(paths: MakePaths, tmp_path: Path) -> None:
    mount, links = tmp_path / "mount", tmp_path / "links"
    (mount / "d").mkdir(parents=True)
    links.mkdir()
    (links / "direct").symlink_to(mount)
    (links / "twice").symlink_to("direct")
    (links / "into").symlink_to("../links/twice/d")
    (links / "round").symlink_to("round")
    (links / "elsewhere").symlink_to("/usr")
    (tmp_path / "above").symlink_to(".")
    found = paths(mounts=(str(mount),))
    for way in ("direct/d", "twice/d", "into"):
        assert found.hint(links / way / "a") == b"/d/a"
    assert found.hint(tmp_path / "above" / "above" / "mount" / "d" / "a") == b"/d/a"
    for way in ("round", "elsewhere", "absent"):
        assert found.hint(links / way / "a") is None


def test_paths_inside_the_mount_are_not_looked_up(
    paths: MakePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    (tmp_path / "link").symlink_to(mount)
    found = paths(mounts=(str(mount),))
    touched = []
    readlink = os.readlink

    def watched(path: bytes) -> bytes:
        touched.append(path)
        return readlink(path)

    monkeypatch.setattr(os, "readlink", watched)
    assert found.hint(mount / "a" / "b") == b"/a/b"
    assert touched == []
    assert found.hint(tmp_path / "link" / "a" / "b") == b"/a/b"
    assert touched
    assert not any(path.startswith(os.fsencode(mount)) for path in touched)


NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1)


@given(st.lists(NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=6))
def test_names_below_the_mount_become_the_hint_unchanged(names: list[str]) -> None:
    below = "/".join(names)
    found = HintPaths("/no/such/mount")
    hint = found.hint(f"/no/such/mount/{below}")
    assert hint == found.hint(below) == b"/" + below.encode()
