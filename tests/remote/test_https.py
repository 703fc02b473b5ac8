"""https:// with a private authority: trusted through SSL_CERT_FILE, otherwise refused.

Not here: what else a web server may do (test_origin_http.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from ffrfs import pack_folder
from tests.mount import probes
from tests.mount.command import ffrfs, mount_command_fails
from tests.mount.makers import closing_mounts
from tests.remote.servers.nginx import Nginx, nginx

FILES = {f"{number}": bytes([number]) * 50_000 for number in range(40)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `web`, which the server serves, and with its key and its authority."""
    folder = tmp_path_factory.mktemp("https")
    (folder / "source").mkdir()
    (folder / "web").mkdir()
    for name, content in FILES.items():
        (folder / "source" / name).write_bytes(content)
    pack_folder(folder / "source", folder / "web" / "set", shards=2)
    authority = trustme.CA()
    key = authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem
    key.write_to_path(str(folder / "key.pem"))
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    return folder


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Nginx]:
    with nginx(place / "web", certificate=place / "key.pem") as server:
        yield server


@pytest.fixture
def trusting(place: Path, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "SSL_CERT_FILE": str(place / "authority.pem"),
        "FFRFS_CACHE_DIR": str(tmp_path / "cache"),
    }


def test_commands(server: Nginx, trusting: dict[str, str]) -> None:
    done = ffrfs("ls", f"{server.url}/set/", env=trusting)
    assert (done.status, sorted(done.out.splitlines()), done.err) == (0, sorted(FILES), "")
    done = ffrfs("verify", f"{server.url}/set/", env=trusting)
    assert (done.status, done.err) == (0, "")


def test_a_mount(fuse: None, server: Nginx, trusting: dict[str, str], tmp_path: Path) -> None:
    with closing_mounts(tmp_path, tmp_path) as new:
        tree = new("native", f"{server.url}/set/")
        done = tree.mount(env=trusting)
        assert (done.status, done.out, done.err) == (0, "", "")
        assert tree.ask(probes.read_all_in, "", list(FILES)) == list(FILES.values())


@pytest.mark.parametrize("path", ["set/", "set/none.ffr"])
def test_an_untrusted_authority(server: Nginx, trusting: dict[str, str], path: str) -> None:
    del trusting["SSL_CERT_FILE"]
    done = ffrfs("ls", f"{server.url}/{path}", env=trusting)
    mount_command_fails(done, 1, "TLS: ", "set SSL_CERT_FILE")
