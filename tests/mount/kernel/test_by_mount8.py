"""mount(8), umount(8) and findmnt(8) with our helpers, in an environment without HOME or PATH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.mount.config.settings import SETTINGS
from ffrfs.mount.kernel.options import ON_CONFLICT
from tests.mount.command import Done
from tests.mount.machine import HELPERS, TEMPLATE, Machine, helper_text

TREE = {"a": b"alpha", "d": {"b": b"beta"}}


@pytest.fixture
def place(places: Path) -> Path:
    path = places / "data set"
    path.mkdir()
    return path


def succeeds(done: Done) -> None:
    assert (done.status, done.out, done.err) == (0, "", "")


def fails(done: Done, status: int, *words: str) -> None:
    """Check that it failed with one line of ours; mount(8) adds none."""
    assert (done.status, done.out) == (status, ""), done
    (line,) = done.err.splitlines()
    assert line.startswith("ffrfs: ")
    for word in words:
        assert word in line


@pytest.mark.promise("S44")
@pytest.mark.parametrize("kind", ["ffrfs", "fuse.ffrfs"])
def test_mount_read_find_and_umount(machine: Machine, pack: Path, place: Path, kind: str) -> None:
    succeeds(machine.mount("-t", kind, pack, place, "-o", "ro,allow_other"))
    assert machine.read(place / "d" / "b") == b"beta"
    found = machine.find(place)
    assert found is not None
    assert (found["source"], found["target"]) == (str(pack), str(place))
    assert found["fstype"] == "fuse.ffrfs"
    assert {"ro", "nosuid", "nodev", "allow_other"} <= set(found["options"].split(","))
    succeeds(machine.umount(place))
    machine.check_nothing_left()
    assert place.is_dir()


@pytest.mark.promise("S44")
def test_relative_names_with_spaces_and_commas(
    machine: Machine, pack: Path, places: Path, place: Path
) -> None:
    pack.rename(places / "a b,c=é.ffr")
    succeeds(machine.mount("-t", "ffrfs", "a b,c=é.ffr", "./data set", folder=places))
    assert machine.read(place / "a") == b"alpha"
    assert (machine.find(place) or {})["source"] == str(places / "a b,c=é.ffr")
    succeeds(machine.umount(place))


@pytest.mark.promise("S44")
def test_several_packs_in_one_source(
    machine: Machine, pack: Path, places: Path, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "more" / "d").mkdir(parents=True)
    (tmp_path / "more" / "d" / "c").write_bytes(b"gamma")
    pack_folder(tmp_path / "more", places / "with:colon.ffr")
    spec = f"{pack}:{places}/with\\:colon.ffr"
    succeeds(machine.mount("-t", "ffrfs", spec, place))
    assert machine.read(place / "d" / "b") + machine.read(place / "d" / "c") == b"betagamma"
    assert (machine.find(place) or {})["source"] == spec
    succeeds(machine.umount(place))


@pytest.mark.promise("S44")
def test_every_setting_is_a_mount_option(
    machine: Machine, pack: Path, places: Path, place: Path
) -> None:
    words = {
        "engine": "native",
        "transport": "dev",
        "threads": "3",
        "cache_mb": "33",
        "max_memory": "2G",
        "prefetch_window": "7:2M",
        "read_around": "off",
        "prefetch_ttl": "2.5",
        "cache_dir": str(places / r"a\, cache"),
        "cache_size": "1G",
        "cache_mode": "full",
        "cache_shared": None,
        "offline": None,
        "endpoint_url": "http://127.0.0.1:9",
        "region": "x",
        "anonymous": None,
        "remote_timeout": "7",
        "no_extensions": None,
        "log_file": str(places / r"a\, log"),
        "metrics_file": str(places / "metrics.prom"),
        "config": str(places / "config.toml"),
    }
    assert words.keys() == SETTINGS.keys()
    (places / "config.toml").write_text("threads = 2\noptions = 'umask=022'")
    text = ",".join(name if value is None else f"{name}={value}" for name, value in words.items())
    conflict = f"on_conflict={ON_CONFLICT[-1]},allow_missing"
    succeeds(machine.mount("-t", "ffrfs", pack, place, "-o", f"{text},{conflict}"))
    asked = machine.worker_arguments()
    assert {
        "--threads=3",
        "--transport=dev",
        f"--option=cache_bytes={33 << 20}",
        "--option=prefetch_records=7",
        f"--option=prefetch_bytes={2 << 20}",
        "--option=read_around=off",
        "--option=prefetch_ttl_ms=2500",
        "--option=extensions=0",
        f"--option=on_conflict={ON_CONFLICT[-1]}",
        "--option=allow_missing=1",
        "--option=umask=18",
        "--remote-timeout=7",
    } <= set(asked)
    assert list((places / "a, cache").rglob("*.state"))
    assert "mounted at" in (places / "a, log").read_text()
    succeeds(machine.umount(place))


@pytest.mark.promise("S44")
def test_fake_checks_and_mounts_nothing(machine: Machine, pack: Path, place: Path) -> None:
    succeeds(machine.mount("-f", "-t", "ffrfs", pack, place))
    done = machine.mount("-f", "-v", "-n", "-t", "fuse.ffrfs", pack, place)
    assert f"{pack}: can be mounted at {place}" in done.out
    assert done.status == 0
    fails(machine.mount("-f", "-t", "ffrfs", f"{pack}x", place), 1, f"{pack}x")
    fails(machine.mount("-f", "-t", "ffrfs", pack, place, "-o", "bogus"), 1, "'bogus'")
    assert machine.find(place) is None


def test_sloppy_ignores_unknown_options(machine: Machine, pack: Path, place: Path) -> None:
    words = "bogus=7,no_extensions,noiversion"
    fails(machine.mount("-t", "ffrfs", pack, place, "-o", words), 1, "'bogus=7'")
    fails(machine.mount("-s", "-t", "ffrfs", pack, place, "-o", "cache_mb=0"), 1, "'cache_mb=0'")
    succeeds(machine.mount("-s", "-n", "-t", "ffrfs", pack, place, "-o", words))
    assert "--option=extensions=0" in machine.worker_arguments()
    succeeds(machine.umount(place))


def test_remount_is_refused(machine: Machine, pack: Path, place: Path) -> None:
    succeeds(machine.mount("-t", "ffrfs", pack, place))
    fails(machine.mount("-o", "remount,noexec", place), 1, "remount: ", "unmount")
    assert machine.read(place / "a") == b"alpha"
    succeeds(machine.umount(place))


@pytest.mark.promise("S44")
def test_exit_statuses_are_those_of_mount8(machine: Machine, pack: Path, place: Path) -> None:
    missing, bad = pack.with_name("missing.ffr"), pack.with_name("bad.ffr")
    bad.write_bytes(b"no pack at all")
    fails(machine.mount("-t", "ffrfs", missing, place), 1, str(missing))
    fails(machine.mount("-t", "ffrfs", bad, place), 1, str(bad))
    fails(machine.mount("-t", "ffrfs", f"{pack}:{missing}", place), 1, str(missing))
    fails(machine.mount("-t", "ffrfs", f"{pack}:", place), 1, f"{pack}:")
    succeeds(machine.mount("-t", "ffrfs", pack, place))
    fails(machine.mount("-t", "ffrfs", pack, place), 32, str(place))
    succeeds(machine.umount(place))


def test_umount_of_a_busy_mount_fails(machine: Machine, pack: Path, place: Path) -> None:
    succeeds(machine.mount("-t", "ffrfs", pack, place))
    done = machine.run("/usr/bin/umount", place, folder=place)
    assert done.status == 32
    assert "busy" in done.err
    assert machine.read(place / "a") == b"alpha"
    succeeds(machine.run("/usr/bin/umount", "--lazy", place))


def test_mount_into_another_namespace(
    machine: Machine, pack: Path, places: Path, place: Path
) -> None:
    # The helper runs in our namespace, where no mount appears; the mount is in the other one.
    helper = places / "helper"
    helper.write_text(helper_text())
    done = subprocess.run(
        ["sh", helper, pack, place, "-N", machine.namespace, "-o", "rw"],
        env={},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert machine.read(place / "a") == b"alpha"
    assert list(place.iterdir()) == []
    succeeds(machine.umount(place))


@pytest.mark.parametrize(
    "arguments", [[], ["pack"], ["pack", "place", "-x"], ["pack", "place", "-f", "more"]]
)
def test_wrong_usage_of_the_helper(arguments: list[str], tmp_path: Path) -> None:
    helper = tmp_path / HELPERS[0]
    helper.write_text(helper_text())
    done = subprocess.run(
        ["sh", helper, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "usage: mount.ffrfs SPEC DIR" in done.stderr


def test_no_module_is_imported_from_the_working_directory(
    machine: Machine, pack: Path, places: Path, place: Path
) -> None:
    trap = places / "trap"
    trap.mkdir()
    for name in ("ffrfs.py", "argparse.py"):
        (trap / name).write_text("raise SystemExit('trapped')")
    succeeds(machine.mount("-t", "ffrfs", pack, place, folder=trap))
    succeeds(machine.umount(place))


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_helper_is_plain_sh(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not here")
    command = [program, "-n", str(TEMPLATE)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_shellcheck_finds_nothing() -> None:
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("shellcheck is not here")
    done = subprocess.run(
        [program, str(TEMPLATE)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == ""
