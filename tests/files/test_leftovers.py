"""What killed processes leave under staging names is removed, and nothing else is."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ffrfs.files import leftovers
from ffrfs.files.leftovers import remove_leftovers, staging_name
from ffrfs.files.staged_file import StagedFile, staged_folder
from ffrfs.folder.destination import Destination
from tests.own_mounts import with_own_mounts

TIMEOUT_S = 60
ROUNDS = 100
UNKNOWN_USER = 12_345

pytestmark = pytest.mark.promise("S74")

# Each program makes something in the directory argv[1], reports it, and waits.
FOLDER = """
with staged_folder(sys.argv[1], "set", mode=0o755) as place:
    open(place + "/part", "wb").close()
    hold()
"""
FILE = """
os.O_TMPFILE = os.O_DIRECTORY  # a file system without such files, as NFS is
with StagedFile(sys.argv[1] + "/x") as file:
    file.write(b"x")
    hold()
"""
LINKED = """
rename = os.rename
os.rename = lambda *a, **b: hold()
with StagedFile(sys.argv[1] + "/x") as file:
    file.publish()
"""
# Without /proc, an unnamed file could not get a name, so the writer begins with a named one.
NATIVE = """
subprocess.run(["mount", "-t", "tmpfs", "none", "/proc"], check=True)
with FileWriter(sys.argv[1] + "/x", 1) as file:
    file.write_one(b"x")
    hold()
"""
BUCKET = """
with BucketTarget("s3://b/x/", is_set=True, tmp_dir=sys.argv[1], as_in="") as target:
    open(target.folder + "/part", "wb").close()
    hold()
"""
BEGIN = """
import os, subprocess, sys
from ffrfs import FileWriter
from ffrfs.files.staged_file import StagedFile, staged_folder
from ffrfs.folder.destination import Destination
from ffrfs.packing.bucket_target import BucketTarget
def hold():
    print("made", flush=True)
    sys.stdin.read()
"""
KINDS = {"folder": FOLDER, "file": FILE, "linked": LINKED, "native": NATIVE, "bucket": BUCKET}


@contextlib.contextmanager
def held(kind: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that has made something and waits; kill it in the end."""
    command = [sys.executable, "-c", BEGIN + KINDS[kind], str(folder)]
    if kind == "native":
        if os.geteuid() != 0:
            pytest.skip("only root can have a mount namespace without a user namespace")
        command = with_own_mounts(*command)
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "made\n"
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=TIMEOUT_S)


def left_in(folder: Path) -> Path:
    """Return the only entry of the folder; it has a staging name."""
    (place,) = folder.iterdir()
    assert place.name.startswith(".")
    assert place.name.endswith(".partial")
    return place


@pytest.mark.parametrize("kind", KINDS)
def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path, kind: str) -> None:
    with held(kind, tmp_path):
        place = left_in(tmp_path)
        remove_leftovers(str(tmp_path), again=True)
        assert place.exists()
    remove_leftovers(str(tmp_path), again=True)
    assert list(tmp_path.iterdir()) == []


def test_the_next_command_removes_leftovers(tmp_path: Path) -> None:
    """Commands of all kinds do so, each in its own process."""
    program = BEGIN + "os.O_TMPFILE = os.O_DIRECTORY\n"
    for next_one in (
        'staged_folder(sys.argv[1], "x").__enter__()',
        'StagedFile(sys.argv[1] + "/y").close()',
        'FileWriter(sys.argv[1] + "/z", 0).close()',
        'Destination(sys.argv[1], "skip").close()',
        'Destination(os.path.dirname(sys.argv[1]), "skip").folder(os.path.basename(sys.argv[1]))',
    ):
        with held("folder", tmp_path):
            place = left_in(tmp_path)
        done = [sys.executable, "-c", program + next_one, str(tmp_path)]
        subprocess.run(done, check=True, timeout=TIMEOUT_S)
        assert not place.exists()
        (tmp_path / "z").unlink(missing_ok=True)


def test_a_staged_link_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    """A link cannot be locked."""
    (tmp_path / "x").symlink_to("old")
    for end, status in (("os.rename = lambda *_, **__: os.kill(0, 9)", -9), ("", 0)):
        link = 'with Destination(sys.argv[1], "replace") as target: target.link("x", "new")'
        command = [sys.executable, "-c", f"{BEGIN}{end}\n{link}", str(tmp_path)]
        done = subprocess.run(command, check=False, timeout=TIMEOUT_S, start_new_session=True)
        assert done.returncode == status
        assert len(list(tmp_path.iterdir())) == (1 if status == 0 else 2)
    assert os.readlink(tmp_path / "x") == "new"


def test_a_staged_link_removed_by_another_process_is_recreated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def late(*names: str, **folders: int) -> None:
        monkeypatch.setattr(os, "rename", rename)
        remove_leftovers(str(tmp_path), again=True)
        rename(*names, **folders)

    monkeypatch.setattr(os, "rename", late)
    (tmp_path / "x").symlink_to("old")
    with Destination(str(tmp_path), "replace") as target:
        target.link("x", "new")
    assert {path.name: os.readlink(path) for path in tmp_path.iterdir()} == {"x": "new"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / staging_name("x")
    place.write_bytes(b"x")
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / staging_name("x")
    (place / "below").mkdir(parents=True)
    return place


def test_other_files_are_not_removed(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("x.partial", ".x.0123456789abcdef.partial", f"{file.name}.txt", file.name[1:]):
        (tmp_path / name).write_bytes(b"mine")
    os.mkfifo(tmp_path / staging_name("fifo"))
    before = set(tmp_path.iterdir()) - {file}
    remove_leftovers(str(tmp_path), again=True)
    assert set(tmp_path.iterdir()) == before


def test_leftovers_of_another_machine_are_kept(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_machine", lambda: "00000000")
    remove_leftovers(str(tmp_path), again=True)
    assert file.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_leftovers_of_another_user_are_kept(tmp_path: Path, file: Path, folder: Path) -> None:
    for place in (file, folder):
        os.chown(place, UNKNOWN_USER, -1)
    remove_leftovers(str(tmp_path), again=True)
    assert file.exists()
    assert folder.exists()


@pytest.mark.parametrize(("mode", "stays"), [(0o777, True), (0o775, True), (0o1777, False)])
def test_a_leftover_folder_others_may_have_renamed_is_kept(
    tmp_path: Path, folder: Path, mode: int, stays: bool
) -> None:
    """They could rename a directory of ours to a staging name, to make us remove it."""
    tmp_path.chmod(mode)
    remove_leftovers(str(tmp_path), again=True)
    assert folder.exists() == stays


def test_links_in_a_leftover_folder_are_not_followed(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_bytes(b"mine")
    (folder / "link").symlink_to("../mine")
    remove_leftovers(str(tmp_path), again=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine" / "file").exists()


def test_a_process_searches_a_directory_once(tmp_path: Path, file: Path) -> None:
    remove_leftovers(str(tmp_path))
    assert not file.exists()
    file.write_bytes(b"x")
    remove_leftovers(str(tmp_path))
    assert file.exists()


@pytest.fixture
def before_the_lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """before_the_lock(what) runs `what` once, just before this process locks a file."""
    flock = fcntl.flock

    def do(what: Callable[[], object]) -> None:
        def late(fd: int, how: int) -> None:
            monkeypatch.setattr(fcntl, "flock", flock)
            what()
            flock(fd, how)

        monkeypatch.setattr(fcntl, "flock", late)

    return do


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_an_entry_removed_before_its_lock_is_recreated(
    tmp_path: Path,
    kind: str,
    before_the_lock: Callable[[Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    before_the_lock(lambda: remove_leftovers(str(tmp_path), again=True))
    if kind == "file":
        with StagedFile(str(tmp_path / "made")) as staged:
            staged.write(b"x")
            staged.publish()
    else:
        with staged_folder(str(tmp_path), "made") as place:
            os.rename(place, tmp_path / "made")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_an_entry_with_the_name_of_a_finished_one_is_kept(
    tmp_path: Path,
    kind: str,
    request: pytest.FixtureRequest,
    before_the_lock: Callable[[Callable[[], object]], None],
) -> None:
    """The name is checked again after the file that had it is locked."""
    place: Path = request.getfixturevalue(kind)

    def finish() -> None:
        place.rename(tmp_path / "made")
        place.mkdir() if kind == "folder" else place.write_bytes(b"y")

    before_the_lock(finish)
    remove_leftovers(str(tmp_path), again=True)
    assert {path.name for path in tmp_path.iterdir()} == {"made", place.name}


def test_no_file_in_progress_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads remove leftovers all the time meanwhile."""
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    is_done = threading.Event()

    def clean() -> None:
        while not is_done.is_set():
            remove_leftovers(str(tmp_path), again=True)

    def make_files() -> None:
        for number in range(ROUNDS):
            with StagedFile(str(tmp_path / "file")) as staged:
                staged.write(b"%d" % number)
                staged.publish(sync=False)
            assert (tmp_path / "file").read_bytes() == b"%d" % number

    def make_folders() -> None:
        for number in range(ROUNDS):
            with staged_folder(str(tmp_path), "set") as place:
                Path(place, "x").write_bytes(b"x")
                os.rename(place, tmp_path / f"set{number}")

    with ThreadPoolExecutor(4) as pool:
        cleaning = [pool.submit(clean) for _ in range(2)]
        try:
            for making in [pool.submit(make_files), pool.submit(make_folders)]:
                making.result()
        finally:
            is_done.set()
        for one in cleaning:
            one.result()
    assert len(list(tmp_path.glob("set*/x"))) == ROUNDS
    assert not list(tmp_path.glob(".*"))
