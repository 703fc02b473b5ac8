"""Mounts of packs at URLs, and of local ones behind a cache, show one tree, whatever dies."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ffrfs.mount.engines.sidecars import make_sidecars
from ffrfs.mount.engines.worker import PATH_VARIABLE
from tests.ffrecord_file import write_folder
from tests.mount import cached_files, probes
from tests.mount.command import (
    ENGINES,
    TIMEOUT_S,
    Mount,
    ffrfs,
    mount_command_fails,
    start_ffrfs,
    wait_until,
)
from tests.mount.makers import MakeMount, PackTree, by_native
from tests.remote.servers.nginx import Nginx, nginx

SERVED_BY = ENGINES
TREE = {
    f"d{folder}": {f"f{n}": random.Random(folder * 100 + n).randbytes(110_000) for n in range(20)}
    for folder in range(4)
}
NAMES = [f"d{folder}/f{n}" for folder in range(4) for n in range(20)]


@pytest.fixture
def server(pack: Path) -> Iterator[Nginx]:
    with nginx(pack.parent) as server:
        yield server


@pytest.fixture
def cache(tmp_path: Path) -> list[str]:
    return ["--cache-dir", str(tmp_path / "cache")]


Reach = Callable[..., Mount]


@pytest.fixture
def reach(new_mount: MakeMount, cache: list[str]) -> Reach:
    """Mounts the pack at a URL: reach(url, "--cache-mode", "stream")."""

    def make(url: str | None, *arguments: str) -> Mount:
        made = new_mount(*([] if url is None else [url]))
        done = made.mount(*cache, *arguments)
        assert (done.status, done.out, done.err) == (0, "", "")
        assert made.fetchers
        return made

    return make


def content(name: str) -> bytes:
    folder, _, file = name.partition("/")
    return TREE[folder][file]


def check(tree: Mount, names: list[str] = NAMES) -> None:
    for name in names:
        assert tree.ask(probes.read, name) == content(name), name


def remote(tree: Mount) -> dict[str, int]:
    found: dict[str, int] = tree.statistics()["remote"]
    return found


URLS: dict[str, Callable[[Nginx, Path], str]] = {
    "http": lambda server, pack: f"{server.url}/{pack.name}",
    "file": lambda _, pack: f"file://{pack}",
    "cached": lambda _, pack: str(pack),
}


@pytest.mark.promise("S61", "S64")
@pytest.mark.parametrize(
    ("engine", "kind"),
    [("native", "http"), ("pyfuse3", "http"), ("native", "file"), ("pyfuse3", "cached")],
    indirect=["engine"],
)
def test_tree_is_read_from_the_server_and_then_from_the_cache(
    reach: Reach, pack: Path, server: Nginx, kind: str
) -> None:
    url = URLS[kind](server, pack)
    tree = reach(url)
    check(tree)
    size_bytes = pack.stat().st_size
    wait_until(lambda: remote(tree)["bytes"] >= size_bytes * 0.9, "what was fetched is counted")
    assert remote(tree)["bytes"] <= size_bytes + (1 << 20)
    assert ffrfs("umount", tree.path).status == 0
    tree.wait_for_daemon()
    assert all(fetcher.wait(TIMEOUT_S) for fetcher in tree.fetchers)
    again = reach(url)
    check(again, NAMES[::-1])
    assert remote(again)["blocks_fetched"] == 0
    wait_until(lambda: remote(again)["blocks_hit"] > 0, "what was read is counted")
    assert str(pack) in again.statistics()["pack"] or kind == "http"


@by_native
def test_rest_of_a_pack_is_fetched_after_most_was_read_randomly(
    reach: Reach, pack_tree: PackTree
) -> None:
    """A block holds nine files, so 110 of the 600 need four fifths of the blocks.

    With `--read-around on` the result does not depend on how fast this machine reads.
    """
    chance = random.Random(1)
    files = {f"{number:03}": chance.randbytes(110_000) for number in range(600)}
    pack = pack_tree(dict(files))
    tree = reach(f"file://{pack}", "--read-around", "on")
    order = chance.sample(sorted(files), 110)
    for name in order:
        assert tree.ask(probes.read, name) == files[name]
    size = pack.stat().st_size
    wait_until(lambda: remote(tree)["bytes"] >= 0.95 * size, "the rest was fetched")
    assert remote(tree)["bytes"] <= size + (1 << 20)


@pytest.mark.promise("S63")
def test_killed_fetcher_only_delays_readers(reach: Reach, pack: Path, server: Nginx) -> None:
    tree = reach(f"{server.url}/{pack.name}", "--cache-mode", "stream")
    check(tree, NAMES[:20])
    for turn in range(1, 4):
        os.kill(tree.statistics()["fetcher_pid"], signal.SIGKILL)
        check(tree, NAMES[20 * turn : 20 * turn + 20])
        # Bytes read ahead need no fetcher, so the next one may not run yet.
        wait_until(lambda: remote(tree)["starts"] > turn, "another fetcher was started")  # noqa: B023
    tree.expect_log("the fetcher has ended; another one takes over")


@pytest.mark.promise("S63")
def test_short_server_outage_only_delays_readers(reach: Reach, pack: Path, server: Nginx) -> None:
    tree = reach(f"{server.url}/{pack.name}", "--cache-mode", "stream")
    check(tree, NAMES[:10])
    server.program.kill()
    server.start_again()
    check(tree)


@pytest.mark.promise("S62")
def test_replaced_object_is_not_mixed_with_the_old_one(
    reach: Reach, pack: Path, server: Nginx
) -> None:
    tree = reach(f"{server.url}/{pack.name}")
    check(tree, NAMES[:5])
    other = pack.with_name("other")
    other.write_bytes(pack.read_bytes()[::-1])
    os.utime(other, (1, 1))  # nginx makes its ETag from size and time in s
    other.rename(pack)
    failed = 0
    for name in NAMES:
        try:
            assert tree.ask(probes.read, name) == content(name)
        except OSError:
            failed += 1
    assert failed
    tree.expect_log("changed at its origin")
    assert f"{server.url}/{pack.name} (changed at its origin)" in ffrfs("ps").out
    tree.expect_log(pack.name)
    assert tree.log().count("WARNING") == 1


@pytest.mark.promise("S59", "S62")
@by_native
def test_next_daemon_knows_that_an_object_was_replaced(
    reach: Reach, pack: Path, server: Nginx
) -> None:
    """It also adds to the counts of earlier fetchers."""
    tree = reach(f"{server.url}/{pack.name}")
    tree.expect_log("changed at its origin|the daemon before this one")
    check(tree, NAMES[:5])
    other = pack.with_name("other")
    other.write_bytes(pack.read_bytes()[::-1])
    os.utime(other, (1, 1))  # nginx makes its ETag from size and time in s
    kept = pack.rename(pack.with_name("kept"))
    other.rename(pack)
    assert errno.EIO in {tree.ask(probes.errno_of, name, "read") for name in NAMES}
    before = remote(tree)
    assert before["changed"] == 1
    tree.replace_daemon()
    tree.checked(1, "a pack at a URL was replaced since it was mounted")
    wait_until(lambda: remote(tree)["starts"] > before["starts"], "its fetcher has begun")
    for name in ("bytes", "requests", "blocks_fetched", "errors"):
        assert remote(tree)[name] >= before[name] > 0
    assert errno.EIO in {tree.ask(probes.errno_of, name, "read") for name in NAMES}
    assert remote(tree)["changed"] == 1
    kept.rename(pack)
    tree.replace_daemon()
    wait_until(lambda: not tree.ask(probes.errno_of, NAMES[-1], "read"), "it is read again")
    before = remote(tree)
    assert before["changed"] == 0
    assert ffrfs("restart", tree.path).status == 0
    assert remote(tree)["requests"] >= before["requests"]


@pytest.mark.promise("S65")
def test_secrets_of_a_url_are_not_shown(
    reach: Reach, pack: Path, server: Nginx, tmp_path: Path
) -> None:
    file = tmp_path / "mount.toml"
    file.write_text(f'packs = ["{server.url}/{pack.name}?signature=SECRET"]\n')
    tree = reach(None, "--config", str(file))
    check(tree, NAMES[:3])
    seen = [Path("/proc/mounts").read_bytes(), tree.log_file.read_bytes()]
    for process in filter(None, [tree.process, tree.worker, *tree.fetchers]):
        seen.append(Path(f"/proc/{process.pid}/cmdline").read_bytes())
    for command in (["ps", "--json"], ["stats", "--json", str(tree.path)], ["ps"]):
        seen.append(ffrfs(*command).out.encode())
    seen += [each.read_bytes() for each in (tmp_path / "cache").rglob("*") if each.is_file()]
    assert not any(b"SECRET" in each for each in seen)
    assert "SECRET" in "".join(server.requests())


@pytest.mark.promise("S65")
def test_only_the_fetcher_gets_credentials(
    reach: Reach, pack: Path, server: Nginx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    tree = reach(f"{server.url}/{pack.name}")
    check(tree, NAMES[:3])
    if tree.worker is not None:
        assert b"SECRET" not in Path(f"/proc/{tree.worker.pid}/environ").read_bytes()
    [fetcher] = tree.fetchers
    assert b"SECRET" in Path(f"/proc/{fetcher.pid}/environ").read_bytes()  # root may read it
    assert os.stat(f"/proc/{fetcher.pid}/fd").st_uid == 0  # and nobody else


@pytest.mark.promise("S65")
def test_worker_that_lists_packs_gets_no_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "worker"
    program.write_text('#!/bin/sh\nenv >"$0.env"\n')
    program.chmod(0o755)
    monkeypatch.setenv(PATH_VARIABLE, str(program))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    assert make_sidecars([str(tmp_path / "x.ffr")]) == []
    assert "SECRET" not in (tmp_path / "worker.env").read_text()


@pytest.mark.promise("S61")
def test_missing_object_gives_one_error_line(
    server: Nginx, tmp_path: Path, cache: list[str], engine: str
) -> None:
    place = tmp_path / "mnt"
    words = ["--engine", "native" if engine == "native" else "pyfuse3", *cache]
    for check in ([], ["--check"]):
        url = f"{server.url}/none.ffr"
        done = ffrfs("mount", *words, *check, url, place)
        mount_command_fails(done, 1, url)


def test_a_check_says_that_a_url_can_be_mounted(
    server: Nginx, pack: Path, tmp_path: Path, cache: list[str]
) -> None:
    done = ffrfs("mount", "--check", *cache, f"{server.url}/{pack.name}", tmp_path / "mnt")
    assert (done.status, done.err) == (0, "")
    assert "can be mounted" in done.out


def test_prefetch_all_brings_everything_into_the_cache(
    reach: Reach, pack: Path, server: Nginx
) -> None:
    tree = reach(f"{server.url}/{pack.name}")
    done = ffrfs("prefetch", "--all", tree.path)
    assert (done.status, done.out, done.err) == (0, "", "")
    blocks = -(-pack.stat().st_size // (1 << 20))
    wait_until(lambda: remote(tree)["fill_left"] == 0, "the cache is filled")
    wait_until(lambda: remote(tree)["blocks_fetched"] >= blocks, "every block has come")
    server.program.kill()
    check(tree)


@by_native
def test_prefetch_all_continues_with_the_next_fetcher(
    reach: Reach, pack: Path, server: Nginx
) -> None:
    """Another fetcher fills the cache; until it knows how much, no figure says that all is done."""
    tree = reach(f"{server.url}/{pack.name}")
    with server.program.stopped():
        assert ffrfs("prefetch", "--all", tree.path).status == 0
        wait_until(lambda: remote(tree)["filling"] == 1, "the missing blocks are counted")
        os.kill(tree.statistics()["fetcher_pid"], signal.SIGKILL)
        tree.expect_log("the fetcher has ended; another one takes over")
        wait_until(lambda: remote(tree)["starts"] == 2, "another fetcher")
    wait_until(lambda: remote(tree)["starts"] == 2, "another fetcher")
    wait_until(
        lambda: remote(tree)["filling"] and not remote(tree)["fill_left"], "the filled cache"
    )
    server.program.kill()
    check(tree)


@pytest.mark.parametrize("engine", ["native", "uring"], indirect=True)
def test_prefetch_all_continues_with_the_next_daemon(
    reach: Reach, pack: Path, server: Nginx, engine: str
) -> None:
    """Another daemon, or a mount made again, fetches the blocks that an outage has left."""
    tree = reach(f"{server.url}/{pack.name}", "--remote-timeout", "2")
    tree.expect_log("no answer for ")
    with server.program.stopped():
        assert ffrfs("prefetch", "--all", tree.path).status == 0
        wait_until(lambda: remote(tree)["fill_given_up"] > 0, "blocks are given up")
    if engine == "native":
        tree.expect_log("the daemon before this one")
        tree.replace_daemon()
    else:
        tree.expect_log("the worker was killed by SIGKILL")
        os.kill(tree.statistics()["worker_pid"], signal.SIGKILL)
        tree.wait_until_anew()
    wait_until(
        lambda: remote(tree)["filling"] and not remote(tree)["fill_left"], "the filled cache"
    )
    server.program.kill()
    check(tree)


@by_native
def test_prefetch_all_needs_a_cache_on_disk(
    reach: Reach, new_mount: MakeMount, pack: Path, server: Nginx
) -> None:
    local = new_mount(pack)
    assert local.mount().status == 0
    assert "local files" in ffrfs("prefetch", "--all", local.path).err
    kept_nowhere = reach(f"{server.url}/{pack.name}", "--cache-mode", "stream")
    large = pack.with_name("large.ffr")
    write_folder(large, {"f": random.Random(1).randbytes(17 << 20)})
    too_large = reach(f"{server.url}/large.ffr", "--cache-size", "16M")
    assert "a larger --cache-size" in ffrfs("prefetch", "--all", too_large.path).err
    assert "keeps nothing on disk" in ffrfs("prefetch", "--all", kept_nowhere.path).err


@by_native
@pytest.mark.promise("S75")
def test_pushing_neighbours_fetches_no_blocks(reach: Reach, server: Nginx, pack: Path) -> None:
    """The mount pushes from blocks that a reader has fetched; it fetches no other block."""
    tree = reach(f"{server.url}/{pack.name}", "--read-around", "on")
    wait_until(lambda: tree.statistics()["pushed_limit_bytes"] > 0, "what may be pushed")
    tree.ask(probes.listdir, "d0")
    assert tree.ask(probes.read, NAMES[0]) == content(NAMES[0])
    before = remote(tree)["blocks_fetched"]
    wait_until(lambda: tree.statistics()["read_around"]["pushed"] > 0, "neighbours are pushed")
    assert remote(tree)["blocks_fetched"] == before
    check(tree)


@pytest.mark.promise("S76")
def test_warm_pushes_every_file_of_a_remote_tree(reach: Reach, server: Nginx, pack: Path) -> None:
    tree = reach(f"{server.url}/{pack.name}", "--read-around", "off")
    assert ffrfs("warm", tree.path).status == 0
    found = tree.statistics()
    assert found["warm"]["pushed"] == len(NAMES)
    assert found["remote"]["blocks_again"] == 0
    digests = {name: hashlib.sha256(content(name)).hexdigest() for name in NAMES}
    misread, given_up = tree.ask(cached_files.misread_and_given_up, "", digests, NAMES)
    assert misread == []
    # A busy machine may have dropped pages meanwhile.
    reads = tree.requests_now()["read"] - found["requests"]["read"]["count"]
    assert reads <= sum(given_up.values())


@by_native
def test_warm_waits_for_a_slow_fetcher(reach: Reach, server: Nginx, pack: Path) -> None:
    tree = reach(f"{server.url}/{pack.name}", "--read-around", "off")
    fetcher = tree.statistics()["fetcher_pid"]
    os.kill(fetcher, signal.SIGSTOP)
    try:
        warming = start_ffrfs("warm", tree.path)
        time.sleep(1)  # it looks every half second
    finally:
        os.kill(fetcher, signal.SIGCONT)
    _, err = warming.communicate(timeout=TIMEOUT_S)
    assert (warming.returncode, err) == (0, "")
    assert tree.statistics()["warm"]["pushed"] == len(NAMES)


@by_native
@pytest.mark.promise("S76")
def test_warm_pushes_cached_files_without_the_server(
    reach: Reach, server: Nginx, pack: Path
) -> None:
    url = f"{server.url}/{pack.name}"
    tree = reach(url, "--read-around", "off", "--prefetch-window", "16", "--remote-timeout", "2")
    assert tree.ask(probes.read, NAMES[0]) == content(NAMES[0])
    server.program.kill()
    tree.expect_log("no answer for ")
    done = ffrfs("warm", tree.path)
    assert (done.status, done.out, done.err.count("\n")) == (1, "", 1)
    assert "MiB of its packs could not be fetched into the cache; see: " in done.err
    found = tree.statistics()["warm"]
    assert 0 < found["pushed"] < found["files"] == len(NAMES)
    assert found["left"] == found["left_out"] == 0
