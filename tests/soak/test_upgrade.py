"""Another version of ffrfs is installed under a live mount, and back: no reader notices."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT
from tests.mount import probes
from tests.mount.checkable_files import is_right
from tests.mount.child import child
from tests.mount.command import Mount, wait_until
from tests.soak.chaos_readers import read_in_chaos
from tests.soak.hints import hinting

ROUNDS = 2
DURATION_S = 12.0
ANSWER_S = 120.0
PACK_MB = 64
READERS = {"files": ("plain", "mapped", "tar"), "torch": ("plain", "torch")}
# Of the later version: one more field that daemons keep for the next one, and show.
CHANGES = {
    "kept_mount.py": ("    daemon_starts: ", "    later: int = 7\n    daemon_starts: "),
    "server.py": ('"daemon_starts": ', '"later": self._keeper.now().later, "daemon_starts": '),
}
LATER = 7

MakeMount = Callable[[Path], Mount]


class Installation:
    """A virtual environment in which one of several versions of the package is installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        place = folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
        self.python = place / "bin" / "python"
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(place)}))
        # The path alone: what an editable install of ffrfs has put there is not obeyed.
        (packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
        self._installed = packages / "ffrfs"

    def add(self, version: str, changes: dict[str, tuple[str, str]]) -> None:
        package = self._folder / version / "ffrfs"
        shutil.copytree(CHECKOUT / "ffrfs", package)
        spec = importlib.util.find_spec("ffrfs._native")
        assert spec is not None
        assert spec.origin is not None
        built = Path(spec.origin).parent
        for file in (Path(spec.origin), built / "ffrfs-worker", built / "ffrfs-guardian"):
            shutil.copy(file, package)
        for name, (text, other) in changes.items():
            source = package / "mount" / "daemon" / name
            assert text in source.read_text()
            source.write_text(source.read_text().replace(text, other, 1))

    def install(self, version: str) -> None:
        new = self._installed.with_name("new")
        new.symlink_to(self._folder / version / "ffrfs")
        new.rename(self._installed)

    def remove(self) -> None:
        self._installed.unlink()

    def run(self, *arguments: str | Path) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [self.python, "-P", "-m", "ffrfs", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    made = Installation(tmp_path)
    made.add("earlier", {})
    made.add("later", CHANGES)
    made.install("earlier")
    return made


@contextlib.contextmanager
def reading(tree: Mount, ways: tuple[str, ...]) -> Iterator[None]:
    """Files stay open, epochs run, hints are sent; nothing of it fails."""
    with contextlib.ExitStack() as stack:
        readers = []
        for seed, way in enumerate(ways):
            reader = stack.enter_context(
                child(read_in_chaos, way, str(tree.path), seed, DURATION_S)
            )
            assert reader.next(ANSWER_S) == "ready"
            readers.append(reader)
        hinters = stack.enter_context(hinting(tree, 1, DURATION_S))
        for reader in readers:
            reader.ask_next()
        yield
        for reader in readers:
            seen = reader.answer(ANSWER_S)
            assert (seen["wrong"], seen["failures"]) == ([], [])
            print(seen)
        assert all(hinter.answer(ANSWER_S) for hinter in hinters)


@pytest.mark.promise("S19")
@pytest.mark.parametrize("engine", ["native"], indirect=True)
@pytest.mark.parametrize("kind", ["files", "torch"])
def test_upgrade_under_load(
    kind: str,
    installation: Installation,
    new_mount: MakeMount,
    pack_checkable: Callable[[int], Path],
) -> None:
    if kind == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not here: pip install ffrfs[torch]")
    pack = pack_checkable(PACK_MB)
    tree = new_mount(pack)
    installation.run("mount", "--log-file", tree.log_file, pack, tree.path)
    tree.find_daemon()
    name = tree.ask(probes.listdir, "")[0]
    with reading(tree, READERS[kind]), child(probes.hold_open, tree / name) as holder:
        first = holder.next()
        for _ in range(ROUNDS):
            for version, later in (("later", LATER), ("earlier", None)):
                installation.install(version)
                installation.run("restart", tree.path)
                found = tree.statistics()
                assert found.get("later") == later
                program = os.readlink(f"/proc/{found['worker_pid']}/exe")
                assert Path(program).parent.parent.name == version
                time.sleep(0.3)
        assert is_right(name, first + holder.next())
    worker = tree.statistics()["worker"]
    assert (worker["restarts"], worker["deaths"]) == (2 * ROUNDS, 0)
    installation.run("umount", tree.path)
    tree.wait_for_daemon()


@pytest.mark.promise("S49")
@pytest.mark.parametrize("engine", ["native"], indirect=True)
def test_reload_lets_the_installed_version_take_over(
    installation: Installation, new_mount: MakeMount, pack_checkable: Callable[[int], Path]
) -> None:
    pack = pack_checkable(1)
    tree = new_mount(pack)
    config = tree.log_file.with_name("mount.toml")
    config.write_text(f'packs = ["{pack}"]\nlog_file = "{tree.log_file}"\n')
    installation.run("mount", "--config", config, "--", tree.path)
    tree.find_daemon()
    tree.signal_daemon(signal.SIGHUP)
    tree.count_logged("INFO reloaded")
    installation.remove()  # as while another version is being unpacked
    tree.signal_daemon(signal.SIGHUP)
    wait_until(lambda: tree.log().count("INFO reloaded") == 2, "it is read again")
    assert tree.statistics()["daemon_starts"] == 0
    installation.install("later")
    tree.signal_daemon(signal.SIGHUP)
    wait_until(lambda: tree.statistics().get("later") == LATER, "the later version serves")
    assert tree.count_logged("another version of ffrfs was installed") == 1
    assert tree.statistics()["worker"]["restarts"] == 1
    installation.run("umount", tree.path)
    tree.wait_for_daemon()
