"""State files of daemons, the identity of processes, and reports from a new daemon."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ffrfs.errors import ChecksumError, FormatError, MountError, describe
from ffrfs.mount.config.report import Report
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.kernel import runtime_lock, state
from ffrfs.mount.kernel.process import Process
from ffrfs.mount.kernel.user_id import outside_id
from tests.mount.command import kill_group


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = str(tmp_path / "runtime")
    monkeypatch.setattr(state, "runtime_directories", lambda: [path])
    return state.runtime_directory()


def a_mount(mountpoint: str, **changes: object) -> state.MountState:
    fields: dict[str, object] = {
        "mountpoint": mountpoint,
        "pack": "/data/p\udcff.ffr",
        "process": Process.current(),
        "created_mountpoint": False,
        "log_file": None,
    }
    return state.MountState(**(fields | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "user_id", "outer_id"),
    [
        ("         0          0 4294967295\n", 1000, 1000),
        ("0 1000 1\n", 0, 1000),
        ("0 1000 1\n1 100000 65536\n", 5, 100004),
        ("0 1000 1\n", 65534, 65534),  # nobody
        ("", 7, 7),
    ],
)
def test_user_id_outside_of_a_namespace(
    tmp_path: Path, text: str, user_id: int, outer_id: int
) -> None:
    (tmp_path / "uid_map").write_text(text)
    assert outside_id(user_id, str(tmp_path / "uid_map")) == outer_id


def test_runtime_directory_is_private(directory: str) -> None:
    assert os.stat(directory).st_mode & 0o777 == 0o700
    assert state.runtime_directory() == directory


def test_relative_runtime_directory_of_a_session_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The daemon has another working directory than a command that looks for it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "session").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", "session")
    assert all(os.path.isabs(path) for path in state.runtime_directories())
    state.runtime_directory(make=False)
    assert not any((tmp_path / "session").iterdir())


def test_runtime_directory_that_was_removed_has_no_lock(directory: str) -> None:
    known = a_mount("/mnt/x")
    state.save(directory, known)
    shutil.rmtree(directory)
    with runtime_lock.locked(directory):
        assert state.load(directory, "/mnt/x") is None
    state.release(directory, known)
    Path(directory).write_text("a file in its place")
    with runtime_lock.locked(directory):
        assert state.load(directory, "/mnt/x") is None
        state.forget(directory, known)
    with pytest.raises(OSError, match=r"Not a directory.*make room there") as failure:
        state.save(directory, known)
    assert failure.value.filename == directory


def test_state_is_found_by_its_mount_point(directory: str) -> None:
    known = a_mount("/mnt/with \udcff byte")
    state.save(directory, known)
    assert state.load(directory, known.mountpoint) == known
    assert state.find(known.mountpoint) == (directory, known)
    assert state.find("/mnt/other") is None
    (path,) = Path(directory).glob("*.json")
    assert path.stat().st_mode & 0o777 == 0o600


def test_age_after_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    known = a_mount("/mnt/x", began_s=time.time(), began_monotonic_s=time.monotonic() - 10)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 10 <= known.age_s < 600
    assert replace(known, began_monotonic_s=None).age_s == 0  # of an older version
    assert a_mount("/mnt/x").age_s == 0


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"mountpoint": 1}', '"x"', "null", pytest.param("[" * 10**6, id="deep")],
)
def test_unreadable_state_is_ignored(directory: str, text: str) -> None:
    state.save(directory, a_mount("/mnt/x"))
    (path,) = Path(directory).glob("*.json")
    path.write_text(text)
    assert state.load(directory, "/mnt/x") is None
    assert state.load_all() == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mountpoint", None),
        ("pack", 5),
        ("process", {"pid": "x", "start_ticks": 1}),
        ("guardian", {"pid": 1, "start_ticks": []}),
        ("log_file", 5),
        ("journal", {}),
        ("device", 1),
        ("packs", [5]),
        ("began_s", "x"),
        ("began_s", float("inf")),
        pytest.param("began_monotonic_s", 10**400, id="huge"),
        ("versions", []),
        ("versions", {"a": []}),
        ("versions", {"a": [[]]}),
    ],
)
def test_state_with_a_value_of_another_type_is_ignored(
    directory: str, name: str, value: object
) -> None:
    known = a_mount("/mnt/x", packs=("a",), began_s=1, versions={"a": [1, 2, 3]})
    state.save(directory, known)
    assert state.load(directory, "/mnt/x") == known
    (path,) = Path(directory).glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    assert state.load(directory, "/mnt/x") is None


def test_all_states_are_found(directory: str) -> None:
    known = [a_mount(f"/mnt/{name}", packs=(f"/{name}.ffr",), began_s=1.5) for name in "abc"]
    for one in known:
        state.save(directory, one)
    # Neither file is the state of a mount: one cannot be read, one has another mount's name.
    Path(directory, "other.json").write_text(json.dumps({"mountpoint": 1}))
    path = Path(state._path(directory, "/mnt/a"))
    path.with_name("0123456789abcdef.json").write_bytes(path.read_bytes())
    path.with_suffix(".log").write_text("a line")
    assert sorted(one.mountpoint for _, one in state.load_all()) == ["/mnt/a", "/mnt/b", "/mnt/c"]
    assert {one for _, one in state.load_all()} == set(known)
    assert {found for found, _ in state.load_all()} == {directory}


def test_state_of_a_later_version_is_read(directory: str) -> None:
    known = a_mount("/mnt/x", guardian=Process(1, 2))
    state.save(directory, known)
    (path,) = Path(directory).glob("*.json")
    fields = json.loads(path.read_text())
    for part in (fields, fields["process"], fields["guardian"]):
        part["later"] = 1
    path.write_text(json.dumps(fields))
    assert state.load(directory, "/mnt/x") == known


def test_state_of_an_older_version_is_read(directory: str) -> None:
    known = a_mount("/mnt/x")
    state.save(directory, known)
    (path,) = Path(directory).glob("*.json")
    fields = json.loads(path.read_text())
    del fields["packs"], fields["began_s"]
    path.write_text(json.dumps(fields))
    assert state.load(directory, "/mnt/x") == known


def test_state_of_the_live_mount_is_found_rather_than_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = [str(tmp_path / name) for name in ("first", "second")]
    monkeypatch.setattr(state, "runtime_directories", lambda: directories)
    for directory in directories:
        os.mkdir(directory, 0o700)
    dead, alive = a_mount("/mnt/x", process=Process(1, 1)), a_mount("/mnt/x")
    state.save(directories[0], dead)
    assert state.find("/mnt/x") == (directories[0], dead)
    state.save(directories[1], alive)
    assert state.find("/mnt/x") == (directories[1], alive)


def test_state_of_the_live_daemon_is_found_rather_than_a_dead_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both states have the same guardian."""
    directories = [str(tmp_path / name) for name in ("first", "second")]
    monkeypatch.setattr(state, "runtime_directories", lambda: directories)
    dead = a_mount("/mnt/x", process=Process(1, 1), guardian=Process.current(), began_s=5.0)
    alive = replace(dead, process=Process.current())
    another = replace(dead, began_s=6.0)
    for directory, known in zip(directories, (dead, alive), strict=True):
        os.mkdir(directory, 0o700)
        state.save(directory, known)
    assert state.find("/mnt/x") == (directories[1], alive)
    assert state.load_all() == [(directories[1], alive)]
    state.withdraw_others(directories[1], another)
    assert state.load(directories[0], "/mnt/x") == dead
    state.withdraw_others(directories[1], alive)
    assert os.listdir(directories[0]) == []
    assert state.load_all() == [(directories[1], alive)]


def test_release_removes_the_mount_point_and_keeps_the_log(directory: str, tmp_path: Path) -> None:
    place = tmp_path / "made"
    place.mkdir()
    known = a_mount(str(place), created_mountpoint=True)
    log = Path(state.log_path(directory, str(place)))
    log.write_text("a line")
    log.with_name(log.name + ".1").write_text("older lines")
    state.save(directory, known)
    for _ in range(2):  # the daemon and `ffrfs umount` may both do it
        state.release(directory, known)
        assert {Path(name).suffix for name in os.listdir(directory)} == {".ended", ".log", ".1"}
        assert not place.exists()
        assert state.find(str(place)) is None
        assert state.find_ended(str(place)) == (directory, known)


def test_withdrawn_mount_leaves_nothing(directory: str, tmp_path: Path) -> None:
    known = a_mount(str(tmp_path / "made"))
    state.save(directory, known)
    state.withdraw(directory, known)
    assert os.listdir(directory) == []
    assert state.find_ended(known.mountpoint) is None


def test_release_leaves_a_mount_that_another_daemon_took_over(
    directory: str, tmp_path: Path
) -> None:
    place = tmp_path / "made"
    place.mkdir()
    old = a_mount(str(place), created_mountpoint=True, process=Process(1, 1))
    new = a_mount(str(place))
    state.save(directory, new)
    state.release(directory, old)
    assert state.load(directory, str(place)) == new
    assert place.exists()


def test_mount_point_that_is_in_use_again_is_not_removed(directory: str, tmp_path: Path) -> None:
    place = tmp_path / "made"
    place.mkdir()
    (place / "file").write_text("of somebody else")
    known = a_mount(str(place), created_mountpoint=True)
    state.save(directory, known)
    state.release(directory, known)
    assert (place / "file").exists()


def test_lock_is_held_against_other_processes(directory: str) -> None:
    program = (
        "import sys\n"
        "from ffrfs.mount.kernel import runtime_lock\n"
        "with runtime_lock.locked(sys.argv[1]):\n"
        "    print('locked', flush=True)\n"
    )
    with runtime_lock.locked(directory):
        process = subprocess.Popen(
            [sys.executable, "-c", program, directory],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
    try:
        assert process.communicate(timeout=60)[0] == "locked\n"
    finally:
        kill_group(process)


def test_command_names_a_lock_held_by_another_process(directory: str) -> None:
    with (
        runtime_lock.locked(directory),
        runtime_lock.locked(directory, wait_s=0) as is_held,
        pytest.raises(MountError, match="another process has kept its lock for 0 s"),
    ):
        assert not is_held
        with runtime_lock.claimed(directory, wait_s=0):
            pytest.fail("it was held")


def test_end_of_a_process_is_noticed() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        process = Process.of(child.pid)
        assert process is not None
        assert process.is_alive()
        assert not process.wait(0.01)
        assert not Process(process.pid, process.start_ticks - 1).is_alive()  # a reused number
        assert Process(process.pid, process.start_ticks - 1).wait(0)
    finally:
        child.kill()
    assert process.wait(20)  # a zombie has ended
    assert not process.is_alive()
    child.communicate()
    assert process.wait(0)
    assert Process.of(child.pid) is None


def test_report_survives_the_pipe() -> None:
    report = Report(("first notice", "second: \udcff ü"))
    assert Report.decode(report.encode()) == report
    assert Report.decode(Report().encode()) == Report()
    assert isinstance(Report.decode(b"").failure, OSError)


@pytest.mark.parametrize(
    "error",
    [
        FormatError.at("/p\udcff.ffr", "record 7: bad", 7),
        ChecksumError("no file"),
        MountError("/m: refused"),
        OSError(39, "not empty", "/m"),
        OSError(24, "Too many open files"),
        OSError("without a number"),
        MemoryError("out of memory"),
        KeyError("of no kind that is known"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_survives_the_pipe(error: Exception) -> None:
    found = Report.decode(Report(failure=error).encode()).failure
    assert found is not None
    assert describe(found) == describe(error)
    if not isinstance(error, KeyError):
        assert type(found) is type(error)
    assert vars(found) == vars(error)
    assert getattr(found, "filename", None) == getattr(error, "filename", None)
    # A pool of processes, which pickles their exceptions, does not lose the fields either.
    assert vars(copy.copy(error)) == vars(error)


def test_description_of_an_error_is_one_line() -> None:
    assert describe(FileNotFoundError(2, "No such file", "/a")) == "/a: No such file"
    assert describe(OSError("two\nlines")) == "two lines"
    assert describe(FileNotFoundError(2, "No such file", "a\nb")) == r"a\nb: No such file"
    assert describe(MountError("a\nb: not mounted")) == r"a\nb: not mounted"
    assert Report(("a\nb: its header has no checksum",)).lines == [
        r"a\nb: its header has no checksum"
    ]
    assert describe(ZeroDivisionError("oh")) == "ZeroDivisionError: oh"


def test_status_follows_the_kind_of_failure() -> None:
    from ffrfs.mount.kernel.options import TreeOptions

    options = TreeOptions()
    request = MountRequest(packs=("/p.ffr",), mountpoint="/m", options=options, log_file="/l")
    full = OSError(28, "x")
    assert Report(failure=full).status(replace(request, log_file=None)) == 2
    for error, status in {
        MountError("refused"): 32,
        FormatError("bad"): 1,
        FileNotFoundError(2, "x", "/p.ffr"): 1,
        OSError(39, "not empty", "/m"): 1,
        PermissionError(13, "x", "/l"): 1,
        PermissionError(13, "x", "/run/ffrfs"): 2,
        OSError(28, "No space left on device"): 2,
        MemoryError(): 2,
    }.items():
        assert Report(failure=error).status(request) == status
