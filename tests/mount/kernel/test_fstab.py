"""Lines of fstab, mounted by `mount -a`, by their mount points, and by an ordinary user."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.mount.machine import Machine
from tests.mount.makers import ORDINARY_USER_ID, PackTree

OCTAL = {" ": r"\040", "\t": r"\011", "\\": r"\134"}


def line(spec: object, place: Path, options: str) -> str:
    """Return a line of fstab(5), which has white space in octal."""
    fields = (str(spec), str(place), "ffrfs", options)
    return " ".join("".join(OCTAL.get(char, char) for char in field) for field in fields) + " 0 0"


@pytest.fixture
def pack(pack_tree: PackTree, places: Path) -> Path:
    """A pack that every user can read."""
    path = places / "data set,1.ffr"
    shutil.copy(pack_tree({"a": b"alpha"}), path)
    return path


@pytest.fixture
def folders(places: Path) -> list[Path]:
    paths = [places / name for name in ("first place", "second", "third")]
    for path in paths:
        path.mkdir()
    return paths


@pytest.mark.promise("S44")
def test_mount_all_twice(machine: Machine, pack: Path, places: Path, folders: list[Path]) -> None:
    fstab, log = places / "fstab", places / "log, of it"
    first, second, third = folders
    for_others = "nofail,_netdev,x-systemd.automount,x-systemd.requires-mounts-for=/srv,noatime"
    logged = str(log).replace(",", r"\,")
    fstab.write_text(
        "# data sets\n"
        + line(pack, first, f"ro,allow_other,{for_others},log_file={logged}")
        + "\n"
        + line(f"{pack}:{pack}", second, "defaults,on_conflict=first,prefetch_window=9:1M")
        + "\n"
        + line(pack, third, "noauto,user")
        + "\n"
    )
    for _ in range(2):  # the second time nothing is mounted again
        done = machine.mount("-a", "-T", fstab)
        assert (done.status, done.out, done.err) == (0, "", "")
        assert [machine.find(place) is not None for place in folders] == [True, True, False]
    assert machine.read(first / "a") + machine.read(second / "a") == b"alphaalpha"
    assert (machine.find(second) or {})["source"] == f"{pack}:{pack}"
    assert log.read_text().count("mounted at") == 1
    for place in (first, second):
        assert machine.umount(place).status == 0
    machine.check_nothing_left()


def test_mount_by_mount_point_alone(machine: Machine, pack: Path, folders: list[Path]) -> None:
    machine.set_fstab(line(pack, folders[0], "noauto,noexec"))
    done = machine.mount(folders[0])
    assert (done.status, done.out, done.err) == (0, "", "")
    assert "noexec" in (machine.find(folders[0]) or {})["options"]
    assert machine.umount(folders[0]).status == 0


@pytest.mark.promise("S44")
def test_nofail_of_a_missing_pack(machine: Machine, pack: Path, folders: list[Path]) -> None:
    missing = pack.with_name("missing.ffr")
    machine.set_fstab(
        line(missing, folders[0], "nofail"),
        line(pack, folders[1], "defaults"),
        line(missing, folders[2], "defaults"),
    )
    done = machine.mount("-a")
    assert done.status == 64  # mount(8): some succeeded
    told = done.err.splitlines()
    assert len(told) == 2
    for text in told:
        assert text.startswith(f"ffrfs: {missing}: ")
        assert text.endswith("No such file or directory")
    assert [machine.find(place) is not None for place in folders] == [False, True, False]
    assert machine.umount(folders[1]).status == 0


@pytest.mark.promise("S44")
def test_entry_with_the_user_option(machine: Machine, pack: Path, folders: list[Path]) -> None:
    machine.open_to_all()
    theirs = folders[0]
    shutil.chown(theirs, ORDINARY_USER_ID, ORDINARY_USER_ID)
    machine.set_fstab(line(pack, theirs, "noauto,user,cache_mb=17"))
    done = machine.mount(theirs, user_id=ORDINARY_USER_ID)
    assert (done.status, done.out, done.err) == (0, "", "")
    found = machine.find(theirs)
    assert found is not None
    assert {"nosuid", "nodev", "noexec", f"user_id={ORDINARY_USER_ID}"} <= set(
        found["options"].split(",")
    )
    assert machine.read(theirs / "a", user_id=ORDINARY_USER_ID) == b"alpha"
    assert f"--option=cache_bytes={17 << 20}" in machine.worker_arguments()
    done = machine.umount(theirs, user_id=ORDINARY_USER_ID)
    assert (done.status, done.out, done.err) == (0, "", "")
    machine.check_nothing_left()
