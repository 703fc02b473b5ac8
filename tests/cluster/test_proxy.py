"""docs/cluster/nginx-proxy.conf between an origin and mounts: each block leaves the origin once,
and no reader gets bytes of another object than the one it has opened.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import obstore
import pytest
import trustme

from ffrfs import pack_folder
from tests.checkout import CHECKOUT
from tests.mount.command import Mount, ffrfs, mount_command_fails
from tests.mount.makers import MakeMount, closing_mounts
from tests.remote.epoch import Epoch, Reading, write_files
from tests.remote.servers.delay import delay
from tests.remote.servers.nginx import Nginx, nginx, nginx_of
from tests.remote.servers.seaweedfs import SeaweedFS, seaweedfs

RECIPE = CHECKOUT / "docs" / "cluster" / "nginx-proxy.conf"
COUNT, SIZE = 100, 110_000
NODES = 4
BLOCK_SIZE = 1 << 20
EIO = "5"
# The rest is for headers, indexes, and the first byte that each mount asks for.
ALMOST_ONCE = 1.05


def proxy_of(
    port: int, host: str, authority: Path | None = None
) -> contextlib.AbstractContextManager[Nginx]:
    """Run nginx by the recipe. `port` is the origin's, `host` the name that the origin expects.

    `authority` has signed the certificate of the origin, which then is at https.
    """

    def servers(folder: Path, own_port: int) -> str:
        text = RECIPE.read_text()
        words = {
            "server origin.example.org:80;": f"server 127.0.0.1:{port};",
            "Host origin.example.org;": f"Host {host};",
            "listen 8080;": f"listen 127.0.0.1:{own_port};",
            "/var/cache/nginx/ffrfs": str(folder / "cache"),
        }
        if authority is not None:
            words |= {
                "proxy_pass http://": "proxy_pass https://",
                "# proxy_ssl_": "proxy_ssl_",
                "/etc/ssl/certs/ca-certificates.crt": str(authority),
            }
        for old, new in words.items():
            assert old in text, old
            text = text.replace(old, new)
        return text

    return nginx_of(servers, workers=2)


class Served:
    """The requests for one object, by a server's log."""

    def __init__(self, server: Nginx, path: str) -> None:
        words = [line.split(" ", 4) for line in server.requests()]
        requests = [line for line in words if line[1] == path]
        self.size = sum(int(size) for _, _, _, size, _ in requests)
        self.statuses = {status for _, _, status, _, _ in requests}
        self.ranges = Counter(found for *_, found in requests)


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `one.ffr`, `set`, and `new.ffr`, which has other files."""
    folder = tmp_path_factory.mktemp("packs")
    write_files(folder / "source", COUNT, SIZE)
    pack_folder(folder / "source", folder / "one.ffr")
    pack_folder(folder / "source", folder / "set", shards=2)
    (folder / "other").mkdir()
    for number in range(COUNT):
        content = random.Random(-1 - number).randbytes(SIZE)
        (folder / "other" / f"{zlib.crc32(content):08x}").write_bytes(content)
    pack_folder(folder / "other", folder / "new.ffr")
    # nginx makes an ETag of a time in seconds and a size, so this time must differ.
    os.utime(folder / "new.ffr", (1e9, 1e9))
    return folder


@pytest.fixture
def web(packs: Path, tmp_path: Path) -> Path:
    """The folder that the origin serves, for one test."""
    root = tmp_path / "web"
    (root / "set").mkdir(parents=True)
    for path in [packs / "one.ffr", packs / "new.ffr", *(packs / "set").iterdir()]:
        os.link(path, root / path.relative_to(packs))
    return root


@pytest.fixture
def origin(web: Path) -> Iterator[Nginx]:
    with nginx(web) as server:
        yield server


@pytest.fixture
def proxy(origin: Nginx) -> Iterator[Nginx]:
    with proxy_of(origin.port, f"127.0.0.1:{origin.port}") as server:
        yield server


@pytest.fixture
def mounted(tmp_path: Path, fuse: None) -> Iterator[MakeMount]:
    """Mounts of nodes that share nothing: each has a cache directory of its own."""
    with closing_mounts(tmp_path, tmp_path) as new:

        def make(url: str, *words: str) -> Mount:
            tree = new("native", url)
            done = tree.mount("--cache-dir", f"{tree.path}.cache", *words)
            assert (done.status, done.out, done.err) == (0, "", "")
            return tree

        yield make


def read_at_once(trees: list[Mount]) -> list[Epoch]:
    """Read the trees at the same time, each in an order of its own."""
    readings = [Reading(tree.path, seed=seed) for seed, tree in enumerate(trees)]
    return [reading.result() for reading in readings]


def test_four_nodes_fetch_each_block_once(
    origin: Nginx, proxy: Nginx, web: Path, mounted: MakeMount
) -> None:
    trees = [mounted(f"{proxy.url}/one.ffr") for _ in range(NODES)]
    assert ffrfs("prefetch", "--all", trees[0].path).status == 0
    assert read_at_once(trees) == [Epoch(COUNT, 0, {})] * NODES
    size = (web / "one.ffr").stat().st_size
    served, passed = Served(origin, "/one.ffr"), Served(proxy, "/one.ffr")
    assert passed.size > 0.95 * NODES * size
    assert size <= served.size <= ALMOST_ONCE * size
    assert served.statuses == {"206"}
    # Each mount asks the origin itself for the present version of the object.
    assert served.ranges.pop("bytes=0-0") == NODES
    assert set(served.ranges.values()) == {1}
    for words in served.ranges:
        first, last = map(int, words.removeprefix("bytes=").split("-"))
        assert first % BLOCK_SIZE == 0
        assert last - first + 1 == BLOCK_SIZE


def test_a_set_is_listed_and_read(origin: Nginx, proxy: Nginx, mounted: MakeMount) -> None:
    trees = [mounted(f"{proxy.url}/set/") for _ in range(2)]
    assert read_at_once(trees) == [Epoch(COUNT, 0, {})] * 2
    for path in {line.split(" ")[1] for line in proxy.requests()}:
        if path.endswith(".ffr"):
            ranges = Served(origin, path).ranges
            assert ranges.pop("bytes=0-0") == 2
            assert set(ranges.values()) == {1}


@pytest.mark.parametrize("is_trusted", [True, False])
def test_an_origin_at_https(
    web: Path, tmp_path: Path, mounted: MakeMount, is_trusted: bool
) -> None:
    """If the proxy does not trust the origin, a mount tries for seconds."""
    authority, stranger = trustme.CA(), trustme.CA()
    key = tmp_path / "key.pem"
    # The recipe has this name for the origin: the proxy asks for it, and checks it.
    authority.issue_cert("origin.example.org").private_key_and_cert_chain_pem.write_to_path(
        str(key)
    )
    trusted = tmp_path / "authority.pem"
    (authority if is_trusted else stranger).cert_pem.write_to_path(str(trusted))
    with (
        nginx(web, certificate=key) as origin,
        proxy_of(origin.port, "origin.example.org", trusted) as proxy,
    ):
        url = f"{proxy.url}/one.ffr"
        if is_trusted:
            assert Reading(mounted(url).path).result() == Epoch(COUNT, 0, {})
            assert set(Served(origin, "/one.ffr").ranges.values()) == {1}
        else:
            words = ("--remote-timeout", "20", "--cache-dir", tmp_path / "cache")
            done = ffrfs("mount", *words, url, tmp_path / "mnt")
            mount_command_fails(done, 1, url)
            assert "upstream SSL certificate verify error" in proxy.program.log.read_text()


@pytest.mark.parametrize("how", ["as it is read", "ahead"])
def test_an_object_that_changes(
    proxy: Nginx, web: Path, mounted: MakeMount, packs: Path, how: str
) -> None:
    """The proxy has a part of the old object, and gets the new one."""
    url = f"{proxy.url}/one.ffr"
    # For so long a mount repeats a request that the proxy breaks off.
    before, between = (mounted(url, "--remote-timeout", "6") for _ in range(2))
    names = sorted(path.name for path in (packs / "source").iterdir())
    for some in (names[:20], names[50:60]):
        contents = [(packs / "source" / name).read_bytes() for name in some]
        assert before.ask(_read_all_in, "", some) == contents
    os.replace(web / "new.ffr", web / "one.ffr")
    if how == "ahead":  # with requests for several blocks, of which the proxy has some
        assert ffrfs("prefetch", "--all", between.path).status == 0
    for tree in (between, before):
        epoch = Reading(tree.path).result()
        assert epoch.wrong == 0
        assert epoch.errors.keys() == {EIO}
        assert epoch.right + epoch.errors[EIO] == COUNT
        tree.expect_log("changed at its origin")
    # A mount that opens it now gets the new object, and nothing of the old one.
    after = mounted(url)
    assert Reading(after.path).result() == Epoch(COUNT, 0, {})
    assert set(after.ask(_names_in, "")) == {path.name for path in (packs / "other").iterdir()}


def _read_all_in(root: str, names: list[str]) -> list[bytes]:
    return [Path(root, name).read_bytes() for name in names]


def _names_in(root: str) -> list[str]:
    return os.listdir(root)


def test_writes_through_the_proxy_are_refused(proxy: Nginx, web: Path) -> None:
    before = (web / "one.ffr").read_bytes()
    done = ffrfs("pack", web / "set", f"{proxy.url}/one.ffr")
    assert done.status != 0
    store = obstore.store.HTTPStore(proxy.url, client_options={"allow_http": True})
    with pytest.raises(Exception, match="405"):
        obstore.put(store, "one.ffr", b"")
    with pytest.raises(Exception, match="405"):
        obstore.delete(store, "one.ffr")
    assert (web / "one.ffr").read_bytes() == before


@pytest.fixture(scope="module")
def s3() -> Iterator[SeaweedFS]:
    with seaweedfs() as server:
        yield server


def test_the_proxy_passes_signed_urls_but_not_signed_requests(
    s3: SeaweedFS, packs: Path, mounted: MakeMount, tmp_path: Path
) -> None:
    """A signature of a URL covers the host; one of a request also the range, which changes."""
    content = (packs / "one.ffr").read_bytes()
    bucket = s3.make_bucket("data")
    obstore.put(bucket, "one.ffr", content)
    with delay(s3.port, 0) as counted, proxy_of(counted.port, f"127.0.0.1:{s3.port}") as proxy:
        words = ("--cache-dir", tmp_path / "cache", "--endpoint-url", proxy.url)
        environment = {**os.environ, **s3.environment()}
        done = ffrfs("mount", *words, "s3://data/one.ffr", tmp_path / "mnt", env=environment)
        mount_command_fails(done, 1, "s3://data/one.ffr", "SignatureDoesNotMatch")

        # Their times differ, and so their signatures; they share the blocks that the proxy has.
        signed = [
            obstore.sign(bucket, "GET", "one.ffr", timedelta(hours=hours)) for hours in (1, 2)
        ]
        assert len(set(signed)) == 2
        before = counted.carried()
        trees = [mounted(url.replace(s3.url, proxy.url)) for url in signed]
        assert read_at_once(trees) == [Epoch(COUNT, 0, {})] * 2
        carried = counted.carried() - before
        assert len(content) <= carried.bytes_down <= ALMOST_ONCE * len(content)


def test_placeholder_hosts_of_the_configuration_file() -> None:
    text = RECIPE.read_text()
    assert set(re.findall(r"[\w.]+\.example\.org", text)) == {
        "origin.example.org",
        "proxy.example.org",
    }
