"""The data that a daemon keeps for the next daemon, which may be of another version."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.config.config import make_config
from ffrfs.mount.config.request import make_request
from ffrfs.mount.daemon.keeper import Keeper
from ffrfs.mount.daemon.kept_mount import FIGURES, NAMES, KeptMount, kept_mount, mount_of
from ffrfs.mount.daemon.notify import Notifier
from ffrfs.mount.engines.kept_engine import KeptEngine
from ffrfs.mount.kernel.mount_table import MountEntry
from ffrfs.mount.kernel.process import Process
from ffrfs.mount.kernel.state import MountState

FOUND = {name: 100 + serial for serial, name in enumerate(NAMES)}
TRY = [sys.executable, "-P", "-m", "ffrfs.mount.daemon.resume", "--try"]


@pytest.fixture
def kept(tmp_path: Path) -> KeptMount:
    place = str(tmp_path / "a \udcff name")
    asked = make_config(
        packs=["/x.ffr", "/y.ffr"],
        mountpoint=place,
        options=["allow_other", "umask=022"],
        settings={"cache_bytes": 1 << 20},
    )
    return KeptMount(
        request=make_request(asked, while_open=FOUND["owner"]),
        state=MountState(
            mountpoint=place,
            pack="x",
            process=Process.current(),
            created_mountpoint=True,
            log_file=None,
            packs=("/x.ffr",),
            versions={"/x.ffr": [1, 2, 3]},
            guardian=Process(1, 2),
        ),
        entry=MountEntry(place, "fuse.ffrfs", "/x.ffr", "0:99", user_id=0, group_id=0),
        connection=FOUND["connection"],
        engine=KeptEngine(
            descriptors={
                name: FOUND[name] for name in ("page", "worker", "log", "process", "fetched")
            },
            transport="dev",
            identities="00ff",
            deaths={"count": 3},
            failures=[{"ino": 7, "path": "a"}],
        ),
        base_bytes=7,
        is_foreground=False,
        sweeper=FOUND["sweeper"],
    )


def figures_of(kept: KeptMount) -> dict[str, Any]:
    with open(kept.figures(), "rb") as file:
        fields: dict[str, Any] = json.loads(file.read())
    return fields


def test_next_daemon_reads_the_same_kept_mount(kept: KeptMount) -> None:
    assert mount_of(json.dumps(figures_of(kept)).encode(), FOUND) == kept


def test_failed_write_of_the_figures_leaks_no_descriptor(kept: KeptMount) -> None:
    before = os.listdir("/proc/self/fd")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            kept.figures()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir("/proc/self/fd") == before


def test_kept_mount_of_an_earlier_version_lacks_some_descriptors(kept: KeptMount) -> None:
    found = {name: fd for name, fd in FOUND.items() if name not in ("fetched", "sweeper")}
    assert mount_of(json.dumps(figures_of(kept)).encode(), found) == replace(
        kept,
        engine=replace(
            kept.engine,
            descriptors={name: found[name] for name in ("page", "worker", "log", "process")},
        ),
        sweeper=None,
    )


def test_fields_of_a_later_version_are_ignored(kept: KeptMount) -> None:
    fields = figures_of(kept)
    parts = [fields, *(fields[name] for name in ("request", "state", "entry", "engine"))]
    for part in (*parts, fields["request"]["options"], fields["engine"]["deaths"]):
        part["later"] = 1
    assert mount_of(json.dumps(fields).encode(), FOUND) == kept


def test_mount_is_not_kept_if_the_service_manager_is_gone(
    kept: KeptMount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unused: Any = None
    notifier = Notifier(str(tmp_path / "gone"), keeps_descriptors=True)
    keeper = Keeper(unused, unused, notifier, kept)
    monkeypatch.setattr(keeper, "now", lambda: kept)
    assert not keeper.keep()


@pytest.mark.parametrize("part", ["request", "state"])
def test_kept_mount_with_a_missing_field_is_refused(kept: KeptMount, part: str) -> None:
    fields = figures_of(kept)
    del fields[part]["mountpoint"]
    done = subprocess.run(
        TRY, input=json.dumps(fields).encode(), capture_output=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert b"mountpoint" in done.stderr.splitlines()[-1]


def test_kept_mount_with_all_fields_is_accepted(kept: KeptMount) -> None:
    with open(kept.figures(), "rb") as figures:
        assert subprocess.run(TRY, stdin=figures, timeout=60, check=False).returncode == 0


def test_mount_with_damaged_figures_is_given_up() -> None:
    """The process has descriptors as from a service manager, and closes them."""
    names = [name for name in NAMES if name != FIGURES]
    program = (
        "import os\n"
        "from ffrfs.mount.daemon.kept_mount import kept_mount\n"
        "os.environ['LISTEN_PID'] = str(os.getpid())\n"
        "assert kept_mount() is None\n"
        "assert 'LISTEN_FDS' not in os.environ\n"
        f"for fd in range(3, {3 + len(NAMES)}):\n"
        "    try:\n"
        "        os.fstat(fd)\n"
        "    except OSError:\n"
        "        continue\n"
        "    raise SystemExit(f'{fd} is open')\n"
    )
    script = " ".join(f"{fd}</dev/null" for fd in range(3, 3 + len(NAMES)))
    done = subprocess.run(
        ["bash", "-c", f'exec "$0" -c "$1" {script}', sys.executable, program],  # sh: fd 9 at most
        env=os.environ
        | {"LISTEN_FDS": str(len(NAMES)), "LISTEN_FDNAMES": ":".join([FIGURES, *names])},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"the mount of the last daemon is given up" in done.stderr


def test_descriptors_for_another_process_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", "1")
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_FDNAMES", "connection")
    assert kept_mount() is None
