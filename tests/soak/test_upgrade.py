"""A live mount moves to another installed version of ffrfs and back; no reader notices."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mount import probes
from tests.mount.checkable_files import is_right
from tests.mount.child import child
from tests.mount.command import Mount, wait_until
from tests.mount.installation import ANSWER_S, Installation
from tests.soak.chaos_readers import read_in_chaos
from tests.soak.hints import hinting
from tests.soak.scale import IS_LONG, SMALL_PACK_MB

ROUNDS = 2 if IS_LONG else 1
DURATION_S = 6.0 * ROUNDS
READERS = {"files": ("plain", "mapped", "tar"), "torch": ("plain", "torch")}
# The later version has one more field, which daemons keep for the next one and show.
CHANGES = {
    "kept_mount.py": ("    daemon_starts: ", "    later: int = 7\n    daemon_starts: "),
    "server.py": ('"daemon_starts": ', '"later": self._keeper.now().later, "daemon_starts": '),
}
LATER = 7

MakeMount = Callable[[Path], Mount]


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    made = Installation(tmp_path)
    made.add("earlier", {})
    made.add("later", CHANGES)
    made.install("earlier")
    return made


@contextlib.contextmanager
def reading(tree: Mount, ways: tuple[str, ...]) -> Iterator[None]:
    """Run readers, and a program that hints; check that nothing fails."""
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
    """The readers read for six seconds."""
    if kind == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not here: pip install ffrfs[torch]")
    pack = pack_checkable(SMALL_PACK_MB)
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
    pack = pack_checkable(SMALL_PACK_MB)
    tree = new_mount(pack)
    config = tree.log_file.with_name("mount.toml")
    config.write_text(f'packs = ["{pack}"]\nlog_file = "{tree.log_file}"\n')
    installation.run("mount", "--config", config, "--", tree.path)
    tree.find_daemon()
    tree.signal_daemon(signal.SIGHUP)
    tree.count_logged("INFO reloaded")
    installation.remove()  # as if another version was just being unpacked
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
