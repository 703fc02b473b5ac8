"""After `ffrfs warm` the kernel has the files in its cache, and a read sends no request."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.cli import warm
from ffrfs.errors import MountError
from ffrfs.mount.client import warming
from ffrfs.mount.client.control_client import ask
from ffrfs.mount.daemon.server import WARMINGS_MAX
from tests.ffrecord_file import write_folder
from tests.mount import cached_files, probes
from tests.mount.child import child
from tests.mount.command import Mount, ffrfs, mount_command_fails, wait_until
from tests.mount.hinted_files import figures, increase, settled
from tests.mount.makers import MakeMount, by_both
from tests.tfrecord_example import example, floats
from tests.tfrecord_file import flip_record, write_tfrecord

NAMES = [f"{i:03d}" for i in range(500)]
FILES = {name: random.Random(name).randbytes(40 * i) for i, name in enumerate(NAMES)}
LARGE = random.Random("large").randbytes(3 << 20)
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}

SIGNALLED = """
import os
import signal
from ffrfs.mount.client import warming

def warm(*_):
    signal.raise_signal(int(os.environ["FFRFS_TEST_SIGNAL"]))

warming.warm = warm
"""

pytestmark = pytest.mark.promise("S76")


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pack")
    return write_folder(folder / "pack.ffr", {"d": dict(FILES), "e": {"large": LARGE}})


@pytest.fixture(scope="module")
def linked_pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pack with links to files and directories inside and outside the mount."""
    folder = tmp_path_factory.mktemp("linked")
    source = folder / "source"
    (source / "d").mkdir(parents=True)
    for name in NAMES:
        (source / "d" / name).write_bytes(FILES[name])
    (folder / "outside").mkdir()
    (folder / "outside/known").touch()
    links = {"to_folder": "d", "d/to_file": "007", "out": folder / "outside", "above": ".."}
    for name, target in links.items():
        (source / name).symlink_to(target)
    pack_folder(source, folder / "linked.ffr", symlinks="keep")
    return folder / "linked.ffr"


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pack of three folders that share their records."""
    folder = tmp_path_factory.mktemp("packed")
    for name in "dpq":
        (folder / "source" / name).mkdir(parents=True)
        for file in NAMES[1:100]:
            (folder / "source" / name / file).write_bytes(FILES[file])
    pack_folder(folder / "source", folder / "packed.ffr", dedup=True)
    return folder / "packed.ffr"


def mounted(mount: MakeMount, pack: Path) -> Mount:
    made: Mount = mount(pack, "--read-around", "off")
    wait_until(lambda: figures(made)["pushed_limit_bytes"] > 0, "what may be pushed")
    return made


@pytest.fixture
def tree(mount: MakeMount, pack: Path) -> Mount:
    return mounted(mount, pack)


def read_requests(tree: Mount, folder: str = "d", names: Sequence[str] = NAMES) -> int:
    """Return how many READ requests reading a folder takes; check that the bytes are right.

    READs of pages that a busy machine has dropped meanwhile do not count.
    """
    before = settled(tree)
    misread, given_up = tree.ask(cached_files.misread_and_given_up, folder, DIGESTS, names)
    assert misread == []
    reads = increase(before, settled(tree))["requests.read.count"]
    return max(reads - sum(given_up.values()), 0)


@by_both
def test_warming_the_whole_tree(tree: Mount) -> None:
    done = ffrfs("warm", tree.path)
    assert (done.status, done.out, done.err) == (0, "", "")
    found = figures(tree)
    assert found["warm.files"] == len(FILES) + 1
    assert found["warm.pushed"] == len(FILES)  # not the empty file
    assert found["warm.left"] == found["warm.left_out"] == 0
    assert read_requests(tree) == 0


def test_warming_one_folder(tree: Mount) -> None:
    (tree.path.parent / "link").symlink_to(tree.path)
    for count, form in enumerate(("d", "/d", "{}/d", "{}/../link/d"), 1):
        done = ffrfs("warm", "-q", tree.path, form.format(tree.path))
        assert (done.status, done.err) == (0, "")
        assert figures(tree)["warm.files"] == count * len(FILES)
    assert read_requests(tree) == 0


@pytest.mark.parametrize("part", ["/", "p", "q"])
def test_files_that_share_a_record(mount: MakeMount, packed: Path, part: str) -> None:
    """It does not matter which of the files are in the part."""
    tree = mounted(mount, packed)
    assert ffrfs("warm", "-q", tree.path, part).status == 0
    found = figures(tree)
    assert found["warm.files"] == found["warm.pushed"] == (99 if part != "/" else 3 * 99)
    for folder in "dpq" if part == "/" else part:
        assert read_requests(tree, folder, NAMES[1:100]) == 0


def test_warming_again_restores_dropped_pages(tree: Mount) -> None:
    for _ in range(2):
        assert ffrfs("warm", tree.path).status == 0
        assert read_requests(tree) == 0
        tree.ask(cached_files.drop, "d", NAMES)
    assert read_requests(tree) > 0


@by_both
def test_damaged_record_is_left_out(mount: MakeMount, tmp_path: Path) -> None:
    pack = write_tfrecord(tmp_path / "x.tfrecord", [example(a=floats(b"1234"))] * 9)
    flip_record(pack, 4, place=20)
    tree: Mount = mount(pack)
    tree.expect_log("record 4 .*checksum mismatch")
    done = ffrfs("warm", tree.path)
    assert (done.status, done.err) == (0, "")


def test_missing_path_is_an_error(tree: Mount) -> None:
    (tree.path.parent / "d").mkdir()  # next to the mount
    for path in ("nothing", "../d", f"{tree.path}/../d"):
        done = ffrfs("warm", tree.path, path)
        assert done.status == 1
        assert path in done.err


def test_symlinks_are_followed_to_the_files_to_warm(mount: MakeMount, linked_pack: Path) -> None:
    tree, before = mounted(mount, linked_pack), (0, 0)
    for part, count in (("to_folder", len(NAMES)), ("to_folder/007", 1), ("d/to_file", 1)):
        assert ffrfs("warm", "-q", tree.path, part).status == 0
        found = figures(tree)
        assert found["warm.files"] - before[0] == count, part
        # The empty file is not pushed.
        assert found["warm.pushed"] - before[1] == (count if count == 1 else count - 1), part
        before = (found["warm.files"], found["warm.pushed"])


def test_symlink_out_of_the_mount_is_an_error(mount: MakeMount, linked_pack: Path) -> None:
    tree = mounted(mount, linked_pack)
    for part in ("out", "out/known", "above"):
        done = ffrfs("warm", tree.path, part)
        text = f"{part}: a symbolic link leads it out of the mount at {tree.path}"
        assert (done.status, done.err) == (1, f"ffrfs: {text}\n")


def test_mount_detached_by_another_program(root_user: None, tree: Mount) -> None:
    with child(probes.hold_open, tree / "e/large") as reader:
        reader.next()
        subprocess.run(["umount", "--lazy", "--internal-only", tree.path], check=True, timeout=20)
        done = ffrfs("warm", tree.path)
        assert (done.status, done.err) == (1, f"ffrfs: {tree.path}: not mounted there any more\n")


def test_number_of_files_left_out_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warming, "warm", lambda *_: warming.Warmed(9000, 2000, 7000))
    warm.warm("/mnt/x", (), is_shown=False)
    counts = "7,000 files of 9,000 (of TFRecord files: records)"
    assert f"ffrfs: /mnt/x: {counts} left out: memory has no room" in capsys.readouterr().err


def test_mounting_with_the_option_warm(mount: MakeMount, pack: Path) -> None:
    tree: Mount = mount(pack, "--warm")
    assert figures(tree)["warm.files"] == len(FILES) + 1


@pytest.mark.promise("S16")
@pytest.mark.parametrize("way", ["stream", signal.SIGINT, signal.SIGTERM])
def test_mount_that_cannot_be_warmed_is_removed(
    new_mount: MakeMount,
    pack: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str | signal.Signals,
) -> None:
    tree = new_mount(f"file://{pack}" if way == "stream" else pack)
    if isinstance(way, signal.Signals):
        (tmp_path / "sitecustomize.py").write_text(SIGNALLED)
        monkeypatch.setenv("FFRFS_TEST_SIGNAL", str(int(way)))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        assert tree.mount("--warm").status == 128 + way
    else:
        mount_command_fails(tree.mount("--warm", "--cache-mode=stream"), 1, "--cache-mode")
    assert not tree.is_mounted
    assert not tree.path.exists()


def test_warming_without_prefetch_is_refused(mount: MakeMount, pack: Path) -> None:
    tree: Mount = mount(pack, "--prefetch-window", "0")
    done = ffrfs("warm", tree.path)
    assert done.status == 1
    assert "--prefetch-window 0" in done.err


def test_too_many_waiting_parts_are_refused(tree: Mount) -> None:
    with tree.stopped():
        assert tree.process is not None
        os.kill(tree.process.pid, signal.SIGCONT)
        begun = [ask(str(tree.path), "warm", ino=1)["begun"] for _ in range(WARMINGS_MAX)]
        assert begun == [*range(1, WARMINGS_MAX + 1)]
        with pytest.raises(MountError, match="64 parts of the tree wait"):
            ask(str(tree.path), "warm", ino=1)


def test_end_of_another_clients_part_does_not_end_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = [
        {"begun": begun, "files": begun, "pushed": begun, "left_out": 0, "left": left}
        for begun, left in [(1, 5), (2, 1), (2, 0), (3, 1), (3, 0)]
    ]
    monkeypatch.setattr(warming, "stats", lambda _: {"warm": figures.pop(0)})
    monkeypatch.setattr(warming, "ask", lambda *_, **__: {"begun": 3})
    warming._bring(str(tmp_path), (), figures[0], lambda *_: None)
    assert figures == []
