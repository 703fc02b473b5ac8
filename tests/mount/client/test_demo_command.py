"""`ffrfs demo` runs the commands that it shows, and keeps only the files the user asked for."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ffrfs import PackedFolder
from ffrfs.mount.kernel.mount_table import mount_at, read_mount_table
from tests.mount.command import TIMEOUT_S, wait_until

DEMO = [sys.executable, "-m", "ffrfs", "demo"]


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*DEMO, *words], capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.usefixtures("fuse")
def test_demo(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    done = run(place)
    assert (done.returncode, done.stderr) == (0, "")
    shown = [line.split()[1:3] for line in done.stdout.splitlines() if line.startswith("$ ")]
    commands = [words[1] for words in shown if words[0] == "ffrfs"]
    assert commands == ["pack", "mount", "top", "umount"]
    assert sorted(path.name for path in place.iterdir()) == ["pets", "pets.ffr"]
    assert not [entry for entry in read_mount_table() if entry.mountpoint.startswith(str(place))]
    with PackedFolder(str(place / "pets.ffr")) as pack:
        assert len(pack) == 200


@pytest.mark.usefixtures("fuse")
def test_signal_ends_the_demo_and_unmounts(places: Path) -> None:
    place = str(places / "demo" / "mnt")
    process = subprocess.Popen([*DEMO, places / "demo"], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: mount_at(place) is not None, "mounted")
    finally:
        process.terminate()
        assert process.wait(TIMEOUT_S) == 128 + signal.SIGTERM
    assert mount_at(place) is None


def test_existing_directory_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert [*tmp_path.iterdir()] == []
