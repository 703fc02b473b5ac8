"""A mount of a pack on a server, when server, cache or processes fail in the middle of reading.

No byte is ever wrong; and a fault that passes costs a delay, no error.

Not here: the same by both engines with a server that does right (tests/mount/engines/
test_remote.py), each thing that a server does wrong (test_origin_faults.py), and what two
fetchers share or lose (test_fetcher_cache.py, tests/cache).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ffrfs import pack_folder
from ffrfs.mount.kernel.process import Process
from tests.mount.command import Mount, ffrfs, wait_until
from tests.remote.epoch import Epoch, Reading, read, write_files
from tests.remote.servers.fault import Kind
from tests.remote.servers.faulty import Faulty, faulty

COUNT = 100
ALL_RIGHT = Epoch(COUNT, 0, {})
TIMEOUT_S = 4  # a request without an answer by then is an error
PATIENCE_S = 60.0
TURNS = 2  # kills in a test: the last one hits the replacement of the first victim
# One of each class of errors; ENDLESS sends bytes for as long as the fetcher takes them.
FOR_GOOD = (Kind.STALL, Kind.DENIED, Kind.ENDLESS)
MEMORY_MAX_MB = 400

Reach = Callable[..., Mount]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    write_files(folder / "source", COUNT, 110_000)
    (folder / "web").mkdir()
    pack_folder(folder / "source", folder / "web" / "tree.ffr")
    shutil.rmtree(folder / "source")
    return folder / "web" / "tree.ffr"


@pytest.fixture(scope="module")
def running(packed: Path) -> Iterator[Faulty]:
    with faulty(packed.parent) as server:
        yield server


@pytest.fixture
def server(running: Faulty) -> Iterator[Faulty]:
    running.forget_counts()
    yield running
    running.mend()
    running.shape()


@pytest.fixture
def reach(server: Faulty, tmp_path: Path, fuse: None) -> Iterator[Reach]:
    """Mounts the pack by the native engine: reach("--cache-mode", "stream")."""
    mounts: list[Mount] = []

    def make(*words: str, url: str = f"{server.url}/tree.ffr", cache: str = "cache") -> Mount:
        number = len(mounts)
        tree = Mount("native", [url], tmp_path / f"mnt{number}", tmp_path / f"{number}.log")
        mounts.append(tree)
        done = tree.mount("--cache-dir", str(tmp_path / cache), "--remote-timeout", "30", *words)
        assert (done.status, done.out, done.err) == (0, "", "")
        return tree

    yield make
    for tree in mounts:
        tree.close()
        assert "Traceback" not in tree.log(), tree.log()


def failed(epoch: Epoch) -> int:
    """Return how many files could not be read; each of them must give EIO, and none wrong bytes."""
    assert epoch.wrong == 0
    assert set(epoch.errors) <= {str(errno.EIO)}, epoch
    assert epoch.right + sum(epoch.errors.values()) == COUNT
    return COUNT - epoch.right


def kill(*processes: Process | None) -> None:
    """Kill all at once: none of them ends by itself because another one has ended."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            assert process is not None
            with contextlib.suppress(ProcessLookupError):  # it ends with its daemon
                os.kill(process.pid, number)


def statistics(tree: Mount) -> dict[str, Any]:
    """Get them ten times a second at most: each time takes CPU of the daemon and of the worker."""
    time.sleep(0.1)
    return tree.statistics()


def blocks_fetched(tree: Mount) -> int:
    count: int = statistics(tree)["remote"]["blocks_fetched"]
    return count


def peak_mb(tree: Mount) -> dict[str, float]:
    """Return the peak memory of the worker and of the fetcher."""
    tree.find_daemon()
    found = {}
    for name, process in [("worker", tree.worker), ("fetcher", tree.fetchers[0])]:
        assert process is not None
        status = Path(f"/proc/{process.pid}/status").read_text()
        found[name] = int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) / 1024
    return found


@pytest.mark.parametrize("kind", FOR_GOOD)
def test_lasting_faults_are_errors_and_then_forgotten(
    reach: Reach, server: Faulty, kind: Kind
) -> None:
    """The reads wait until a time-out of six seconds is over."""
    tree = reach("--remote-timeout", "6")  # enough to open it on a busy machine
    server.do(kind)
    begun_s = time.monotonic()
    assert failed(read(tree.path, readers=64)) > COUNT / 4
    assert time.monotonic() - begun_s < 20 * TIMEOUT_S
    assert max(peak_mb(tree).values()) < MEMORY_MAX_MB
    server.mend()
    # A request that is being tried again when the server is mended may still wait its time.
    wait_until(lambda: read(tree.path) == ALL_RIGHT, "all files are right", PATIENCE_S)


@pytest.mark.promise("S63", "S76")
def test_blocks_that_failed_to_fetch_are_left_to_the_next_warm(
    reach: Reach, server: Faulty, tmp_path: Path
) -> None:
    def remote() -> dict[str, int]:
        found: dict[str, int] = tree.statistics()["remote"]
        return found

    tree = reach()
    server.do(Kind.DENIED)
    done = ffrfs("warm", tree.path)
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    left = remote()["fill_left"]
    assert left == remote()["fill_given_up"] > 0
    assert f" {left} MiB of its packs could not be fetched into the cache; see: " in done.err
    assert f"left to fetch    {left} blocks, {left} failed (" in ffrfs("stats", tree.path).out
    server.mend()
    for _ in range(2):  # blocks that were removed from the cache are fetched again, too
        before = remote()
        assert ffrfs("warm", tree.path).status == 0
        now = remote()
        assert (now["fill_left"], now["fill_given_up"]) == (0, 0)
        assert now["blocks_fetched"] - before["blocks_fetched"] >= left
        assert now["fills"] == before["fills"] + 1
        assert ffrfs("cache", "rm", tmp_path / "cache", f"{server.url}/tree.ffr").status == 0


def test_an_object_that_was_replaced_is_not_read(reach: Reach, server: Faulty) -> None:
    """It is not read until it is mounted again."""
    tree = reach()
    server.do(Kind.CHANGED)
    assert failed(read(tree.path)) > COUNT / 4
    tree.count_logged("changed at its origin")
    tree.checked(1, "a pack at a URL was replaced")
    server.mend()
    failed(read(tree.path))
    assert tree.log().count(" WARNING ") == 1


def test_wrong_bytes_once_are_fetched_again(reach: Reach, server: Faulty) -> None:
    tree = reach()
    server.do(Kind.WRONG_BYTES, times=1)
    assert read(tree.path) == ALL_RIGHT


def test_wrong_bytes_always_are_errors(reach: Reach, server: Faulty) -> None:
    tree = reach()
    server.do(Kind.WRONG_BYTES)
    assert failed(read(tree.path)) > COUNT / 4
    asked = server.counts().bytes["/tree.ffr"]
    failed(read(tree.path))
    # Each block was fetched twice, and then not again for a minute.
    assert server.counts().bytes["/tree.ffr"] - asked < 2 * COUNT * 110_000


@pytest.mark.parametrize("kind", [Kind.LOGIN, Kind.STALL])
def test_a_hostile_server_is_not_mounted(
    server: Faulty, tmp_path: Path, kind: Kind, fuse: None
) -> None:
    server.do(kind)
    url = f"{server.url}/tree.ffr"
    words = ["--cache-dir", tmp_path / "cache", "--remote-timeout", str(TIMEOUT_S)]
    done = ffrfs("mount", *words, url, tmp_path / "mnt")
    assert (done.status, done.out) == (1, "")
    [line] = done.err.splitlines()
    assert url in line


@pytest.mark.promise("S19", "S63")
@pytest.mark.parametrize(
    "victims", [("worker",), ("fetcher", "worker"), ("daemon",), ("daemon", "worker", "fetcher")]
)
def test_a_process_that_is_killed_in_mid_epoch_costs_a_delay(
    reach: Reach, server: Faulty, packed: Path, victims: tuple[str, ...]
) -> None:
    """The server sends half a MB/s, so that the epoch is not over at the last kill."""
    tree = reach("--remote-timeout", "60")  # longer than the line needs for killed fetchers
    server.shape(bytes_per_s=500_000)  # the epoch must not end before the last turn
    reading = Reading(tree.path)
    for turn in range(1, TURNS + 1):
        before = blocks_fetched(tree)
        wait_until(lambda: blocks_fetched(tree) > before, "it goes on", PATIENCE_S)  # noqa: B023
        now = tree.statistics()
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):  # a fetcher ends with its daemon
                os.kill(now[f"{victim}_pid"], signal.SIGKILL)
        for victim, starts in (
            ("worker", lambda: statistics(tree)["worker"]["starts"]),
            ("daemon", lambda: statistics(tree)["daemon_starts"]),
        ):
            if victim in victims:
                wait_until(lambda: starts() >= turn, "another one serves", PATIENCE_S)  # noqa: B023
    assert reading.process.poll() is None, "nothing was killed in mid-epoch"
    server.shape()
    assert reading.result() == ALL_RIGHT
    # A killed fetcher loses what is under way, perhaps all of it; a killed worker loses nothing.
    again = TURNS if {"fetcher", "daemon"} & {*victims} else 0
    assert server.counts().bytes["/tree.ffr"] <= (1.1 + again) * packed.stat().st_size


@pytest.mark.parametrize("victims", ["daemon", "all"])
def test_blocks_fetched_by_a_mount_killed_in_mid_epoch_are_kept(
    reach: Reach, server: Faulty, packed: Path, victims: str
) -> None:
    tree = reach()
    server.shape(bytes_per_s=2_500_000)
    reading = Reading(tree.path)
    wait_until(lambda: blocks_fetched(tree) > 6, "half is there", PATIENCE_S)
    tree.find_daemon()
    tree.kill()
    if victims == "all":
        kill(tree.worker, tree.fetchers[0])
    assert reading.result().wrong == 0
    tree.wait_for_daemon()
    tree.close()
    server.shape()
    assert read(reach().path, seed=1) == ALL_RIGHT
    # At most what was under way is fetched again.
    assert server.counts().bytes["/tree.ffr"] <= 1.5 * packed.stat().st_size


def test_a_cache_directory_that_is_removed_in_mid_epoch_costs_no_error(
    reach: Reach, server: Faulty, tmp_path: Path
) -> None:
    tree = reach()
    server.shape(bytes_per_s=500_000)
    reading = Reading(tree.path)
    wait_until(lambda: blocks_fetched(tree), "a block is there", PATIENCE_S)
    shutil.rmtree(tmp_path / "cache")
    assert reading.process.poll() is None, "nothing was removed in mid-epoch"
    server.shape()
    assert reading.result() == ALL_RIGHT
    assert tree.log().count(" WARNING ") <= 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a tmpfs")
    place = tmp_path / "small"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=4m", "ffrfs-test"]
    subprocess.run(["mount", *options, place], timeout=20, check=True)
    yield place
    subprocess.run(["umount", "-l", place], timeout=20, check=True)


def test_a_disk_that_is_too_small_for_the_cache_costs_no_error(
    small_disk: Path, reach: Reach
) -> None:
    tree = reach(cache="small/cache")
    assert read(tree.path) == ALL_RIGHT
    assert read(tree.path, seed=1) == ALL_RIGHT
    assert tree.log().count(" WARNING ") <= 1


@pytest.mark.promise("S64")
@pytest.mark.parametrize("more", [[], ["--check"]])
def test_an_unusable_given_cache_directory_fails_the_mount(
    server: Faulty, tmp_path: Path, fuse: None, more: list[str]
) -> None:
    (tmp_path / "file").write_text("a file")
    for packs in ([f"{server.url}/tree.ffr"], [tmp_path / "file"]):  # a local pack is cached, too
        words = [*more, "--cache-dir", tmp_path / "file", *packs, tmp_path / "mnt"]
        done = ffrfs("mount", *words)
        assert (done.status, done.out) == (1, "")
        [line] = done.err.splitlines()
        assert (
            f"{tmp_path}/file: File exists; choose another with --cache-dir or FFRFS_CACHE_DIR"
            in line
        )
    assert not (tmp_path / "mnt").exists()


@pytest.mark.promise("S64")
@pytest.mark.promise("S59")
def test_an_unusable_default_cache_directory_is_reported(
    server: Faulty, tmp_path: Path, fuse: None
) -> None:
    """The log of the mount has the warning, though the warning comes before that log is open."""
    (tmp_path / "file").write_text("a file")
    # pytest uses a path again, and logs of mounts at that path are kept for a week.
    place = Path(tempfile.mkdtemp(dir=tmp_path))
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "file")}
    environment.pop("FFRFS_CACHE_DIR", None)
    done = ffrfs("mount", f"{server.url}/tree.ffr", place, env=environment)
    try:
        assert (done.status, done.err) == (0, "")

        def warnings() -> list[str]:
            return [line for line in ffrfs("log", place).out.splitlines() if " WARNING " in line]

        wait_until(warnings, "it is logged")
        [line] = warnings()
        assert f"the cache cannot be used: {tmp_path}/file/ffrfs: Not a directory" in line
        checked = ffrfs("check", place)
        assert checked.status == 1
        assert "its cache directory cannot be used (see ffrfs log" in checked.out
    finally:
        assert ffrfs("umount", place).status == 0


@pytest.mark.promise("S64")
@pytest.mark.parametrize("left", [0, 500_000])
def test_a_truncated_cache_file_is_fetched_again(
    reach: Reach, server: Faulty, tmp_path: Path, left: int
) -> None:
    tree = reach("--remote-timeout", "30")
    assert read(tree.path) == ALL_RIGHT
    tree.close()
    tree = reach("--remote-timeout", "30")  # the kernel has no pages of it
    server.forget_counts()
    [data] = (tmp_path / "cache").glob("??/*.data")
    os.truncate(data, left)
    assert read(tree.path, seed=1) == ALL_RIGHT
    assert server.counts().bytes["/tree.ffr"] > 0


def test_a_mount_is_unmounted_while_the_server_stalls(reach: Reach, server: Faulty) -> None:
    tree = reach("--remote-timeout", "60")
    server.do(Kind.STALL)
    reading = Reading(tree.path)
    wait_until(lambda: tree.statistics()["remote"]["ranges"], "a range is under way", PATIENCE_S)
    done = subprocess.run(["umount", "-l", tree.path], timeout=20, check=False)
    assert done.returncode == 0
    reading.kill()
    tree.wait_for_daemon()
