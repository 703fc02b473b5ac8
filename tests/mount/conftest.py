"""Fixtures of the mount tests: packs, and mounts over every engine.

The mount points are in a folder that other users may enter. Nothing is removed there before
it is certain that nothing is mounted there.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ffrfs import pack_folder
from ffrfs.mount.engines.worker import PATH_VARIABLE, worker_path
from ffrfs.mount.kernel import state
from ffrfs.mount.kernel.mount_table import read_mount_table
from ffrfs.mount.kernel.process import Process
from tests.ffrecord_file import Tree, record_extents
from tests.mount.command import ENGINES, Mount, kill_group
from tests.mount.disk import Disk
from tests.mount.disk_files import ALL_NAMES, content
from tests.mount.hint_taker import HintTaker, hint_taker
from tests.mount.hinted_files import write_hinted_files
from tests.mount.machine import Machine, new_machine
from tests.mount.makers import (
    ORDINARY_USER_ID,
    AskAsUser,
    MakeDisk,
    MakeMount,
    PackTree,
    StartService,
    closing_mounts,
    engine_of,
    write_files,
)
from tests.mount.notify_socket import Service, ServiceManager
from tests.own_mounts import with_own_mounts
from tests.page_cache import forget_pages


@pytest.fixture
def root_user() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user or remount")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, fuse: None) -> str:
    return engine_of(request)


@pytest.fixture
def places() -> Iterator[Path]:
    """A folder for mount points, which other users may enter, unlike pytest's own folders."""
    # Its cleanup() tolerates that a daemon removes its own mount point at the same time.
    folder = tempfile.TemporaryDirectory(prefix="ffrfs-test-")
    path = Path(folder.name)
    path.chmod(0o755)
    yield path
    left = [e.mountpoint for e in read_mount_table() if e.mountpoint.startswith(f"{path}/")]
    assert not left  # before anything is removed in there
    folder.cleanup()


@pytest.fixture
def pack_tree(tmp_path: Path) -> PackTree:
    """Packs {name: bytes | {...}} and gives back the file."""

    def pack(tree: Tree) -> Path:
        source, file = tmp_path / "source", tmp_path / "tree.ffr"
        write_files(source, tree)
        pack_folder(source, file, force=True)
        shutil.rmtree(source)
        return file

    return pack


@pytest.fixture
def as_ordinary_user(root_user: None, fuse: None, pack_tree: PackTree, places: Path) -> AskAsUser:
    """Runs a program of this folder, like ordinary_user.py, on a pack of one file; gives its JSON.

    The program's arguments are PACK HOME USER-ID and those given.
    """
    # A copy, as the user may have no access to the folders above the program itself.
    worker = worker_path()
    assert worker is not None
    shutil.copy(worker, places / "worker")
    pack, home = places / "tree.ffr", places / "home"
    pack.write_bytes(pack_tree({"file": b"content"}).read_bytes())
    home.mkdir()
    os.chown(home, ORDINARY_USER_ID, ORDINARY_USER_ID)

    def ask(program: str, *arguments: str) -> dict[str, Any]:
        path = Path(__file__).with_name(program)
        user_id = str(ORDINARY_USER_ID)
        process = subprocess.Popen(
            with_own_mounts(sys.executable, *map(str, (path, pack, home)), user_id, *arguments),
            env=os.environ | {PATH_VARIABLE: str(places / "worker")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=60)
        finally:
            kill_group(process)
        if "unshare failed" in err:
            pytest.skip("mount namespaces are not permitted here")
        assert process.returncode == 0, err
        seen: dict[str, Any] = json.loads(out)
        return seen

    return ask


@pytest.fixture
def machine(root_user: None, fuse: None, places: Path) -> Iterator[Machine]:
    """A mount namespace with the helpers of mount(8); at the end nothing may be left in it."""
    with new_machine(places / "machine") as made:
        yield made
        made.check_nothing_left()


@pytest.fixture
def new_mount(engine: str, places: Path, tmp_path: Path) -> Iterator[MakeMount]:
    """Makes a Mount of packs, not mounted yet; closes and checks it after the test."""
    with closing_mounts(places, tmp_path) as new:
        yield functools.partial(new, engine)


@pytest.fixture
def mount(new_mount: MakeMount) -> MakeMount:
    """Mounts packs: mount(pack, "-o", "xattr", ...)."""

    def make(*packs_and_arguments: Path | str, mountpoint: Path | None = None) -> Mount:
        packs = [given for given in packs_and_arguments if isinstance(given, Path)]
        made = new_mount(*packs, mountpoint=mountpoint)
        done = made.mount(*(given for given in packs_and_arguments if isinstance(given, str)))
        assert (done.status, done.out, done.err) == (0, "", "")
        assert made.is_mounted
        return made

    return make


@pytest.fixture
def pack(request: pytest.FixtureRequest, pack_tree: PackTree) -> Path:
    """A pack of the module's TREE; a module may have another one."""
    return pack_tree(dict(request.module.TREE))


@pytest.fixture
def tree(request: pytest.FixtureRequest, mount: MakeMount, pack: Path) -> Mount:
    """A mount of `pack` with the module's OPTIONS, if it has any."""
    return mount(pack, *getattr(request.module, "OPTIONS", ()))


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    made = ServiceManager(tmp_path / "notify")
    yield made
    made.close()


@pytest.fixture
def start_service(manager: ServiceManager, new_mount: MakeMount) -> Iterator[StartService]:
    """Starts a service with a mount: start_service(pack, "--cache-mb", "8", WATCHDOG_USEC="1")."""
    services: list[Service] = []

    def start(pack: Path, *arguments: str, **environment: str) -> Service:
        services.append(Service(new_mount(pack), manager, *arguments, **environment))
        return services[-1]

    yield start
    for service in services:
        service.tree.close()
        service.close()


@pytest.fixture
def hinted_tree(mount: MakeMount, tmp_path: Path) -> Mount:
    """A mount of the files that prefetch tests hint; nothing of them is cached."""
    pack = write_hinted_files(tmp_path)
    made: Mount = mount(pack)
    forget_pages(pack)
    return made


@pytest.fixture
def new_disk(fuse: None, places: Path) -> Iterator[MakeDisk]:
    """Makes a Disk of a pack and the extents of its parts; one per test, closed at its end."""
    with ExitStack() as stack:

        def make(pack: Path, extents: dict[str, tuple[int, int]]) -> Disk:
            disk = Disk(pack, places / "disk", extents)
            stack.callback(disk.close)
            return disk

        yield make


@pytest.fixture
def disk(new_disk: MakeDisk, pack_tree: PackTree) -> Disk:
    """A Disk with a pack of disk_files.py's files; a module may have another one."""
    pack = pack_tree({name: content(name) for name in ALL_NAMES})
    *files, _ = record_extents(pack)
    return new_disk(pack, dict(zip(ALL_NAMES, files, strict=True)))


@pytest.fixture
def stalling(new_mount: MakeMount, disk: Disk) -> Iterator[Mount]:
    """A mount of the pack on `disk`: it stalls when the disk does, and reads nothing ahead."""
    made: Mount = new_mount(disk.pack)
    assert made.mount("--read-around", "off").status == 0
    yield made
    disk.go()  # or unmounting would wait for the disk
    made.close()


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> state.MountState:
    """A mount that state.find() finds, whose daemon is this process; nothing is mounted."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(state, "runtime_directories", lambda: [str(tmp_path)])
    known = state.MountState(
        mountpoint=str(tmp_path / "mount"),
        pack="/data/x.ffr",
        process=Process.current(),
        created_mountpoint=False,
        log_file=None,
    )
    state.save(str(tmp_path), known)
    return known


@pytest.fixture
def taker(known: state.MountState, tmp_path: Path) -> Iterator[HintTaker]:
    """The server of the control socket of `known`, which takes hints."""
    with hint_taker(state.socket_path(str(tmp_path), known.mountpoint)) as taker:
        yield taker
