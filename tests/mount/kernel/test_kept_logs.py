"""Logs of mounts that have ended: for how long, and how many of them, are kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ffrfs.mount.kernel import control_socket, kept_logs, runtime_lock, state
from ffrfs.mount.kernel.kept_logs import KEPT_S, remove_old_logs
from ffrfs.mount.kernel.process import Process


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(state, "runtime_directories", lambda: [str(tmp_path)])
    return str(tmp_path)


def make_mount(directory: str, place: str, size: int = 100) -> state.MountState:
    """Save the state of a live mount, with two files of its log."""
    log = Path(state.log_path(directory, place))
    made = state.MountState(
        mountpoint=place,
        pack="/data/x.ffr",
        process=Process.current(),
        created_mountpoint=False,
        log_file=str(log),
    )
    state.save(directory, made)
    log.write_bytes(bytes(size))
    log.with_name(log.name + ".1").write_bytes(bytes(size))
    return made


def end(directory: str, place: str, age_s: float, size: int = 100) -> None:
    """Make a mount that ended so long ago."""
    state.release(directory, make_mount(directory, place, size))
    log = state.log_path(directory, place)
    ended_s = time.time() - age_s
    for path in (log, log + ".1", log.removesuffix(state.LOG) + state.ENDED):
        os.utime(path, (ended_s, ended_s))


def kept(directory: str) -> set[str]:
    """Return the places of ended mounts, which must have all their files."""
    names = os.listdir(directory)
    found = {place for place in ("/a", "/b", "/c") if state.find_ended(place) is not None}
    assert len(names) == 3 * len(found), names
    return found


@pytest.mark.promise("S57")
def test_log_is_removed_a_week_after_the_end(directory: str) -> None:
    end(directory, "/a", KEPT_S - 60)
    end(directory, "/b", KEPT_S + 60)
    remove_old_logs(directory)
    assert kept(directory) == {"/a"}


@pytest.mark.promise("S57")
def test_log_is_kept_while_its_mount_exists(directory: str) -> None:
    """The mount may be dead or alive; the week begins with its end, not with the last line."""
    known = make_mount(directory, "/a")
    log = state.log_path(directory, "/a")
    for path in (log, log + ".1"):
        os.utime(path, (0, 0))
    remove_old_logs(directory)
    assert Path(log).exists()
    state.release(directory, known)
    remove_old_logs(directory)
    assert kept(directory) == {"/a"}


@pytest.mark.promise("S57")
@pytest.mark.parametrize(("limit", "value"), [("BYTES", 450 << 10), ("COUNT", 2)])
def test_oldest_logs_are_removed_beyond_the_limits(
    directory: str, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    for age_s, place in enumerate(("/b", "/c", "/a")):
        end(directory, place, age_s, 100 << 10)
    monkeypatch.setattr(kept_logs, f"KEPT_{limit}_MAX", value)
    remove_old_logs(directory)
    assert kept(directory) == {"/b", "/c"}


def test_nothing_is_removed_while_another_process_has_the_lock(directory: str) -> None:
    end(directory, "/a", KEPT_S + 60)
    with runtime_lock.locked(directory):
        remove_old_logs(directory)
    assert kept(directory) == {"/a"}
    remove_old_logs(directory)
    assert kept(directory) == set()


def test_other_files_are_kept(directory: str) -> None:
    for name in ("note.txt", "x.socket", "log"):
        Path(directory, name).touch()
        os.utime(Path(directory, name), (0, 0))
    remove_old_logs(directory)
    assert sorted(os.listdir(directory)) == ["log", "note.txt", "x.socket"]


def test_old_socket_without_a_state_is_removed(directory: str) -> None:
    make_mount(directory, "/a")
    paths = [Path(state.socket_path(directory, place)) for place in ("/a", "/b", "/c")]
    for path, age_s in zip(paths, (KEPT_S + 60, KEPT_S + 60, KEPT_S - 60), strict=True):
        control_socket.listen(str(path)).close()
        os.utime(path, (time.time() - age_s,) * 2)
    remove_old_logs(directory)
    assert [path.exists() for path in paths] == [True, False, True]


def test_missing_directory_is_no_error(directory: str) -> None:
    remove_old_logs(os.path.join(directory, "gone"))


def test_last_of_two_ended_mounts_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directories = [str(tmp_path / name) for name in ("first", "second")]
    monkeypatch.setattr(state, "runtime_directories", lambda: directories)
    for directory, age_s in zip(directories, (10, 20), strict=True):
        os.mkdir(directory, 0o700)
        end(directory, "/a", age_s)
    found = state.find_ended("/a")
    assert found is not None
    assert found[0] == directories[0]
    assert state.find_ended("/b") is None
