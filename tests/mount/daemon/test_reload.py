"""On SIGHUP a daemon reads its configuration again, and applies all that can change."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import trio

from ffrfs.mount.config.config import make_config
from ffrfs.mount.config.request import make_request
from ffrfs.mount.daemon.reload import Reload
from tests.mount import probes
from tests.mount.child import child
from tests.mount.command import Mount, check_nothing_left, engine_settings, ffrfs, wait_until
from tests.mount.makers import MakeMount, PackTree, StartService, by_both
from tests.mount.notify_socket import ServiceManager
from tests.mount.process_status import open_files

TREE = {"a": b"alpha" * 1000}
RELOADED = "reloaded"


class Configured:
    """A mount that a configuration file describes."""

    def __init__(self, tree: Mount, folder: Path) -> None:
        self.tree = tree
        self.file = folder / "ffrfs.toml"

    def write(self, **settings: Any) -> None:
        fixed = {
            "packs": str(self.tree.pack),
            "mountpoint": str(self.tree.path),
            **engine_settings(self.tree.engine),
            "log_file": str(self.tree.log_file),
        }
        lines = [f"{name} = {value!r}\n" for name, value in (fixed | settings).items()]
        self.file.write_text("".join(lines))

    def begin(self, **settings: Any) -> None:
        self.write(**settings)
        done = ffrfs("mount", "--config", self.file)
        assert (done.status, done.err) == (0, "")
        self.tree.find_daemon()

    def change(self, **settings: Any) -> None:
        self.write(**settings)
        before = self.tree.log().count(RELOADED)
        self.tree.signal(signal.SIGHUP)
        wait_until(lambda: self.tree.log().count(RELOADED) > before, "reloaded")


@pytest.fixture
def configured(new_mount: MakeMount, pack_tree: PackTree, tmp_path: Path) -> Configured:
    return Configured(new_mount(pack_tree(TREE)), tmp_path)


def check_serves(tree: Mount) -> None:
    assert tree.is_mounted
    assert tree.is_served
    assert tree.ask(probes.read, "a") == TREE["a"]


@pytest.mark.promise("S49")
def test_memory_limits_change(configured: Configured) -> None:
    configured.begin(cache_mb=64)
    assert configured.tree.statistics()["cache_limit_bytes"] == 64 << 20
    configured.change(cache_mb=32, max_memory="2G")
    found = configured.tree.statistics()
    assert found["cache_limit_bytes"] == 32 << 20
    assert found["memory_limit_bytes"] == 2 << 30
    check_serves(configured.tree)


@pytest.mark.promise("S19", "S49")
def test_next_daemon_has_the_new_configuration(configured: Configured, tmp_path: Path) -> None:
    configured.begin()
    tree = configured.tree
    log = tree.log_file = tmp_path / "another.log"
    log.touch()
    configured.change(cache_mb=32)
    configured.change(cache_mb=32, max_memory="20M")
    file = re.escape(str(configured.file))
    tree.expect_log(f"limits are not changed: {file}: max_memory = 20M cannot hold this mount")
    tree.expect_log("the daemon before this one")
    tree.replace_daemon()
    assert tree.statistics()["cache_limit_bytes"] == 32 << 20
    assert tree.statistics()["log_file"] == str(log)
    tree.find_daemon()
    configured.change(cache_mb=16)
    assert tree.statistics()["cache_limit_bytes"] == 16 << 20
    check_serves(tree)


@pytest.mark.parametrize("engine", ["uring"], indirect=True)
def test_mount_made_again_has_the_new_configuration(configured: Configured) -> None:
    configured.begin(cache_mb=64)
    configured.change(cache_mb=32)
    tree = configured.tree
    tree.expect_log("the worker was killed by SIGKILL")
    assert tree.worker is not None
    os.kill(tree.worker.pid, signal.SIGKILL)
    tree.wait_until_anew()
    assert tree.statistics()["cache_limit_bytes"] == 32 << 20


@pytest.mark.promise("S49")
def test_lingering_mount_leaves_the_metrics_file_of_the_next_one(
    configured: Configured, new_mount: MakeMount, tmp_path: Path
) -> None:
    metrics = tmp_path / "metrics"
    configured.begin(metrics_file=str(metrics))
    tree = configured.tree
    with child(probes.hold_open, tree / "a") as reader:
        reader.next()
        assert "busy" in ffrfs("umount", tree.path).err
        after = new_mount(tree.pack)
        assert after.mount("--metrics-file", metrics).status == 0
        wait_until(lambda: str(after.path) in metrics.read_text(), "its metrics are there")
    tree.wait_for_daemon()
    assert str(after.path) in metrics.read_text()


@pytest.mark.promise("S49")
def test_metrics_file_can_be_set_and_unset(configured: Configured, tmp_path: Path) -> None:
    first, second = tmp_path / "first.prom", tmp_path / "second.prom"
    configured.begin()
    configured.change(metrics_file=str(first))
    wait_until(first.exists, "written")
    configured.change(metrics_file=str(second))
    wait_until(lambda: second.exists() and not first.exists(), "written elsewhere")
    configured.change()
    wait_until(lambda: not second.exists(), "no more")


@pytest.mark.promise("S49")
def test_log_file_changes(configured: Configured, tmp_path: Path) -> None:
    tree = configured.tree
    configured.begin()
    old, new = tree.log_file, tmp_path / "other.log"
    configured.write(log_file=str(new))
    tree.signal(signal.SIGHUP)
    wait_until(lambda: new.exists() and RELOADED in new.read_text(), "reloaded")
    length = old.stat().st_size
    tree.log_file = new
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)
    assert "ended" in new.read_text()
    assert old.stat().st_size == length


def test_log_file_that_was_moved_away_is_reopened(configured: Configured) -> None:
    tree = configured.tree
    configured.begin()
    moved = tree.log_file.with_suffix(".1")
    tree.log_file.rename(moved)
    configured.change()
    assert tree.log_file.exists()
    assert tree.process is not None
    opened = open_files(tree.process.pid)
    logs = [path for path in opened if path.startswith(str(tree.log_file.with_suffix("")))]
    assert logs == [str(tree.log_file)]
    assert opened[logs[0]] == 2  # one for lines, and one for a crash


@pytest.mark.promise("S49")
def test_settings_that_cannot_change_give_one_warning(configured: Configured) -> None:
    tree = configured.tree
    configured.begin(threads=2, prefetch_window="64,8M", options="ro")
    tree.expect_log("unmount and mount again to change options, prefetch_window, threads$")
    configured.change(threads=3, prefetch_window="65,9M", options="xattr", cache_mb=32)
    assert tree.log().count("unmount and mount again") == 1
    assert tree.statistics()["cache_limit_bytes"] == 32 << 20
    check_serves(tree)


@pytest.mark.promise("S49")
@pytest.mark.parametrize(
    "text",
    ["cache_mb = ", "cache_mb = 0", "cache = 5", None],
    ids=["syntax", "value", "key", "gone"],
)
def test_mistake_in_the_file_changes_nothing(configured: Configured, text: str | None) -> None:
    tree = configured.tree
    configured.begin(cache_mb=64)
    if text is None:
        configured.file.unlink()
    else:
        configured.file.write_text(f"packs = '{tree.pack}'\n{text}\n")
    tree.expect_log(f"not reloaded, nothing is changed: {configured.file}")
    tree.signal(signal.SIGHUP)
    wait_until(lambda: "not reloaded" in tree.log(), "tried")
    assert tree.statistics()["cache_limit_bytes"] == 64 << 20
    check_serves(tree)


def test_reload_without_a_free_thread_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(trio.to_thread, "run_sync", fail)
    unused: Any = None
    request = make_request(make_config(packs=["/x.ffr"], mountpoint="/m", settings={}))
    assert trio.run(Reload(*[unused] * 4).run, request) == request
    assert "not reloaded, nothing is changed: cannot start a thread" in caplog.text


@by_both
def test_many_sighups_at_once_reload_the_file(configured: Configured) -> None:
    configured.begin(cache_mb=64)
    configured.write(cache_mb=32)
    for _ in range(50):
        configured.tree.signal(signal.SIGHUP)
    limit = 32 << 20
    wait_until(lambda: configured.tree.statistics()["cache_limit_bytes"] == limit, "reloaded")
    check_serves(configured.tree)


@pytest.mark.promise("S47", "S49")
def test_service_manager_is_notified_of_a_reload(
    start_service: StartService, manager: ServiceManager, pack_tree: PackTree
) -> None:
    service = start_service(pack_tree(TREE))
    status = service.wait_until_ready()["STATUS"]
    for _ in range(2):  # also without a configuration file
        service.tree.signal(signal.SIGHUP)
        reloading = manager.wait_for("RELOADING")
        assert int(reloading["MONOTONIC_USEC"]) > 0
        assert manager.wait_for("READY") == {"READY": "1", "STATUS": status}
    check_serves(service.tree)
    service.tree.signal(signal.SIGTERM)
    assert service.end() == 0
