"""--offline: cached blocks are read, everything else is an error, and no server is asked."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.errors import OptionError
from ffrfs.remote.offline_origin import OfflineOrigin, keep_listing
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import parse_url
from tests.mount.command import Done, Mount, ffrfs
from tests.mount.makers import closing_mounts
from tests.remote.epoch import Epoch, read, write_files
from tests.remote.servers.faulty import Faulty, faulty
from tests.remote.servers.nginx import nginx

pytestmark = pytest.mark.promise("S64")

COUNT = 50


@pytest.fixture(scope="module")
def web_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offline")
    write_files(folder / "source", COUNT, 110_000)
    (folder / "web").mkdir()
    pack_folder(folder / "source", folder / "web" / "tree.ffr")
    pack_folder(folder / "source", folder / "web" / "set", shards=2)
    return folder / "web"


@pytest.fixture
def server(web_root: Path) -> Iterator[Faulty]:
    with faulty(web_root) as server:
        yield server


@pytest.fixture
def tree(server: Faulty, tmp_path: Path, fuse: None) -> Iterator[Mount]:
    with closing_mounts(tmp_path, tmp_path) as new:
        yield new("native", f"{server.url}/tree.ffr")


def test_cached_blocks_are_read(tree: Mount, server: Faulty, tmp_path: Path) -> None:
    cached = ("--cache-dir", str(tmp_path / "cache"))
    assert tree.mount(*cached).status == 0
    assert read(tree.path) == Epoch(COUNT, 0, {})
    tree.close()
    server.forget_counts()
    assert tree.mount(*cached, "--offline").status == 0
    assert read(tree.path) == Epoch(COUNT, 0, {})
    assert server.counts().requests == []


def test_a_block_that_is_absent_is_an_error(tree: Mount, server: Faulty, tmp_path: Path) -> None:
    cached = ("--cache-dir", str(tmp_path / "cache"), "--prefetch-window", "0", "--read-around")
    assert tree.mount(*cached, "off").status == 0
    name = sorted(os.listdir(tree.path))[0]
    expected = (tree.path / name).read_bytes()
    tree.close()
    server.forget_counts()
    assert tree.mount(*cached, "off", "--offline").status == 0
    assert (tree.path / name).read_bytes() == expected
    epoch = read(tree.path)
    assert (epoch.wrong, set(epoch.errors)) == (0, {str(errno.EIO)})
    assert epoch.right + sum(epoch.errors.values()) == COUNT
    tree.expect_log(
        "tree.ffr: offline, and not all of it is in the cache; read it without --offline$"
    )
    done = ffrfs("warm", tree.path)
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert "could not be fetched into the cache" in done.err
    assert server.counts().requests == []


def test_a_pack_that_is_absent_is_not_mounted(tree: Mount, server: Faulty, tmp_path: Path) -> None:
    cached = ("--cache-dir", str(tmp_path / "cache"))
    for _ in range(2):
        done = tree.mount(*cached, "--offline")
        assert (done.status, done.err.count("\n")) == (1, 1)
        assert f"/tree.ffr: offline, and it is not in the cache {tmp_path}/cache\n" in done.err
        assert server.counts().requests == []
        assert tree.mount(*cached, "--check").status == 0  # makes the cache directory
        for file in (tmp_path / "cache").glob("??/*"):
            file.unlink()
        server.forget_counts()


def test_commands_and_sets(web_root: Path, tmp_path: Path) -> None:
    """The server has ended, so a request to it would fail."""
    environment = os.environ | {"FFRFS_CACHE_DIR": str(tmp_path / "cache")}

    def verified(url: str, *words: str) -> Done:
        return ffrfs("verify", *words, url, env=environment)

    with nginx(web_root) as server:
        url = f"{server.url}/set/"
        expected = verified(url)
        assert expected.status == 0
    assert verified(url, "--offline") == expected
    done = verified(f"{server.url}/other/", "--offline")
    assert (done.status, done.err.count("\n")) == (1, 1)
    assert f"/other/: offline, and it is not in the cache {tmp_path}/cache" in done.err


@pytest.mark.parametrize("query", ["", "?k=hush"])
def test_a_pack_of_a_directory_that_is_absent(web_root: Path, tmp_path: Path, query: str) -> None:
    cache = tmp_path / "cache"
    environment = os.environ | {"FFRFS_CACHE_DIR": str(cache)}

    def run(*words: str) -> tuple[int, str]:
        done = ffrfs(*words, env=environment)
        assert done.err.count("\n") == (done.status != 0)
        return done.status, done.err

    with nginx(web_root) as server:
        url = f"{server.url}/set/"
        first, other = (f"{url}part_{number:05}.ffr" for number in range(2))
        assert run("verify", first + query) == (0, "")
        status, complaint = run("ls", "--offline", url + query)
        assert status == 1
        assert "/set/: offline, and the cache" in complaint
        assert "it may hold more than what is cached (1)" in complaint
        assert run("info", url + query) == (0, "")
    for path in cache.glob("??/*.state"):
        if b"part_00001" in path.read_bytes()[:4096]:
            path.unlink()
    status, complaint = run("ls", "--offline", url + query)
    assert (status, f"{other}: offline, and it is not in the cache" in complaint) == (1, True)
    [listing] = (cache / "listings").iterdir()
    assert b"hush" not in listing.read_bytes()
    listing.write_bytes(listing.read_bytes().replace(b"p", b"/"))  # so it is not trusted
    assert "has no listing of it" in run("ls", "--offline", url + query)[1]


def test_a_listing_leaves_out_names_that_are_not_printable(tmp_path: Path) -> None:
    url = parse_url("s3://bucket/set/")
    settings = RemoteSettings(cache_dir=str(tmp_path / "cache"))
    urls = [url.child(name).text for name in ("a.ffr", "my\u00a0notes.txt", "z.ffr")]
    keep_listing(url, urls, settings)
    assert asyncio.run(OfflineOrigin(settings).list(url)) == [urls[0], urls[2]]


def test_a_long_url(web_root: Path, tmp_path: Path) -> None:
    """If the state file has no room for the URL, the error says so."""
    environment = os.environ | {"FFRFS_CACHE_DIR": str(tmp_path / "cache")}
    found: dict[int, str] = {}
    for depth in (14, 19):
        place = web_root.joinpath(*["d" * 200] * depth)
        place.mkdir(parents=True)
        shutil.copy(web_root / "tree.ffr", place / f"{depth}.ffr")
        with nginx(web_root) as server:
            url = f"{server.url}/{(place / f'{depth}.ffr').relative_to(web_root)}"
            assert ffrfs("verify", url, env=environment).status == 0
        found[depth] = ffrfs("verify", "--offline", url, env=environment).err
    assert found[14] == ""
    assert "where an object of a URL over 3,600 bytes is not found again" in found[19]


def test_nothing_is_uploaded(tmp_path: Path) -> None:
    (tmp_path / "cache" / "index").mkdir(parents=True)
    environment = os.environ | {"FFRFS_CACHE_DIR": str(tmp_path / "cache")}
    done = ffrfs("pack", "--offline", tmp_path, "s3://bucket/x.ffr", env=environment)
    assert (done.status, done.out) == (1, "")
    assert done.err == "ffrfs: s3://bucket: offline: nothing is sent to it\n"


def test_offline_refuses_the_stream_cache_mode() -> None:
    with pytest.raises(OptionError, match="offline: the cache mode must be full"):
        RemoteSettings(offline=True, cache_mode="stream")
