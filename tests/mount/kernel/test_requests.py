"""The requests that the kernel sends to the native engine, and those that it never repeats.

The counts are those of `ffrfs stats`, by kind, since the mount was made.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ffrfs.mount.engines.worker import PATH_VARIABLE, worker_path
from ffrfs.mount.kernel import kernel_mount
from tests.ffrecord_file import write_folder
from tests.mount import cached_files, probes
from tests.mount.command import Mount
from tests.mount.makers import MakeMount, PackTree

MIB = 1 << 20
FILE = random.Random(0).randbytes(300_000)
TREE = {"file": FILE, "small": b"small", "d": {"b": b"beta", "e": {}}}
ENTRY_COUNT = 5000

pytestmark = pytest.mark.parametrize("engine", ["native", "uring"], indirect=True)


def new_requests(tree: Mount, act: Callable[[], object]) -> dict[str, int]:
    """Return the number of requests meanwhile, by kind."""
    before = tree.requests()
    act()
    after = tree.requests()
    return {
        kind: count - before.get(kind, 0)
        for kind, count in after.items()
        if count != before.get(kind, 0)
    }


def check_asks_only(
    tree: Mount,
    expected: dict[str, int],
    path: str,
    names: list[str],
    act: Callable[..., object],
    *arguments: object,
) -> object:
    """Check the requests of `act`, and return its result; repeat if pages were dropped before.

    Each of `names` is opened once more, to look for dropped pages (cached_files.py).
    """
    answers = []

    def look_and_act() -> None:
        answers.append(tree.ask(cached_files.given_up_and_act, path, names, act, *arguments))

    while True:
        asked = new_requests(tree, look_and_act)
        given_up, found = answers[-1]
        if not given_up:
            assert asked == expected
            return found


TOUCHED_FILES = ["file", "small", "d/b"]
TOUCHED_FOLDERS = ["", "d", "d/e"]
TOUCHED = {
    "contents": [FILE, b"small", b"beta"],
    "listings": [["d", "file", "small"], ["b", "e"], []],
}


def first_touch(tree: Mount) -> dict[str, int]:
    def touch() -> None:
        assert tree.ask(probes.touch, "", TOUCHED_FILES, TOUCHED_FOLDERS) == TOUCHED

    return new_requests(tree, touch)


def check_next_touch(tree: Mount, expected: dict[str, int]) -> None:
    names = TOUCHED_FILES + TOUCHED_FOLDERS
    act = (probes.touch, TOUCHED_FILES, TOUCHED_FOLDERS)
    assert check_asks_only(tree, expected, "", names, *act) == TOUCHED


@pytest.mark.promise("S6", "S23")
def test_repeated_access_sends_no_requests(tree: Mount) -> None:
    assert first_touch(tree).keys() >= {"lookup", "read", "readdir"}
    for _ in range(3):
        check_next_touch(tree, {})


@pytest.mark.promise("S8", "S23")
def test_unsupported_requests_are_sent_once_per_mount(tree: Mount) -> None:
    assert new_requests(tree, lambda: tree.ask(probes.read, "small"))["open"] == 1
    asked = new_requests(tree, lambda: tree.ask(probes.read, "file"))
    assert asked.keys() == {"read"}  # mounting has listed the root
    tree.ask(probes.listdir, "d")
    asked = new_requests(tree, lambda: tree.ask(probes.listdir, "d/e"))
    assert asked.keys() == {"readdir"}
    for act, kind in {"getxattr": "getxattr", "listxattr": "listxattr"}.items():
        assert new_requests(tree, lambda act=act: tree.ask(probes.errno_of, "file", act)) == {
            kind: 1
        }
        for path in ("small", "d/b", "d"):
            assert new_requests(tree, lambda a=act, p=path: tree.ask(probes.errno_of, p, a)) == {}


@pytest.mark.promise("S5", "S23")
def test_a_listing_brings_the_attributes_of_all_its_entries(
    mount: MakeMount, tmp_path: Path
) -> None:
    files = {f"{i:05d} with a name of forty bytes or so": b"x" * i for i in range(ENTRY_COUNT)}
    tree = mount(write_folder(tmp_path / "big.ffr", {"big": dict(files)}))
    tree.ask(probes.listdir, "")
    asked = new_requests(tree, lambda: tree.ask(probes.scan, "big"))
    assert asked.keys() == {"readdir"}  # no lookup, no getattr
    # About 200 bytes per entry. The kernel asks for a page at least, of which a part stays
    # empty, and the last answer is empty.
    assert asked["readdir"] <= ENTRY_COUNT * 200 // 3800 + 2
    check_asks_only(tree, {}, "big", [""], probes.scan)
    for _ in range(2):
        sizes = check_asks_only(tree, {}, "big", [""], probes.sizes)
        assert sizes == {name: len(data) for name, data in files.items()}


def test_a_file_of_a_megabyte_comes_in_one_or_two_reads(
    root_user: None, mount: MakeMount, pack_tree: PackTree
) -> None:
    content = random.Random(1).randbytes(MIB)
    tree = mount(pack_tree({"file": content, "other": content}))
    for name in ("file", "other"):
        asked = new_requests(tree, lambda n=name: tree.ask(probes.digest, n))
        assert asked["read"] in (1, 2), asked
    assert tree.ask(probes.read, "file") == content


def test_a_large_file_streams_in_large_reads(
    root_user: None, mount: MakeMount, pack_tree: PackTree
) -> None:
    count = 32
    tree = mount(pack_tree({"file": random.Random(2).randbytes(MIB) * count}))
    asked = new_requests(tree, lambda: tree.ask(probes.digest, "file"))
    assert asked["read"] <= count + count // 4 + 4


def test_readahead_is_raised(root_user: None, mount: MakeMount, pack_tree: PackTree) -> None:
    tree = mount(pack_tree(dict(TREE)))
    found = tree.ask(probes.stat, "").st_dev
    limit = Path(kernel_mount.DEVICES, f"{os.major(found)}:{os.minor(found)}", "read_ahead_kb")
    assert int(limit.read_text()) == kernel_mount.READAHEAD_KB


# A kernel that must send OPEN and OPENDIR.


@pytest.fixture
def opens_sent(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = places / "worker"
    program.write_text(f'#!/bin/sh\nexec "{worker_path()}" "$@" --send-opens\n')
    program.chmod(0o755)
    monkeypatch.setenv(PATH_VARIABLE, str(program))


def check_opens_are_sent_but_nothing_else(tree: Mount) -> None:
    asked = first_touch(tree)
    assert asked.keys() >= {"lookup", "open", "release", "read", "opendir", "readdir", "releasedir"}
    # Twice for each of the three files and folders. The page cache outlives a file that is
    # closed, and a cached listing outlives its folder.
    kinds = ("open", "release", "opendir", "releasedir")
    assert asked.items() >= dict.fromkeys(kinds, 6).items()
    for _ in range(2):
        check_next_touch(tree, dict.fromkeys(kinds, 9))


@pytest.mark.promise("S23")
def test_kernel_that_sends_opens_still_caches_everything(
    opens_sent: None, mount: MakeMount, pack_tree: PackTree
) -> None:
    check_opens_are_sent_but_nothing_else(mount(pack_tree(dict(TREE))))


@pytest.mark.promise("S23")
def test_allow_root_sees_every_open(mount: MakeMount, pack_tree: PackTree) -> None:
    check_opens_are_sent_but_nothing_else(mount(pack_tree(dict(TREE)), "-o", "allow_root"))


def test_big_folder_lists_the_same_where_opens_are_sent(
    opens_sent: None, mount: MakeMount, tmp_path: Path
) -> None:
    names = [f"{i:05d}" for i in range(ENTRY_COUNT)]
    tree = mount(write_folder(tmp_path / "big.ffr", {"big": dict.fromkeys(names, b"")}))
    for _ in range(2):
        first, again = tree.ask(probes.list_twice, "big")
        assert first == again == [".", "..", *names]
    opens = {"opendir": 2, "releasedir": 2}
    check_asks_only(tree, opens, "big", [""], probes.list_twice)


def test_many_readers_read_the_same_where_opens_are_sent(
    opens_sent: None, mount: MakeMount, pack_tree: PackTree
) -> None:
    tree = mount(pack_tree(dict(TREE)))
    digests = tree.ask(probes.digests, "")
    for _ in range(2):
        assert tree.ask(probes.digests, "") == digests
    assert tree.ask(probes.read_direct, "file") == FILE
    assert tree.ask(probes.read_mapped, "file") == FILE
