"""A pack and a pack set, mounted from each kind of server, with credentials as users have them.

Not here: what goes wrong (test_mount_faults.py), uploads (test_upload.py, test_pack_to_bucket.py).
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest

from ffrfs import pack_folder
from tests.mount.command import Mount, ffrfs
from tests.mount.makers import closing_mounts
from tests.remote.epoch import Epoch, read, write_files
from tests.remote.servers.azurite import Azurite
from tests.remote.servers.fake_gcs import FakeGcs
from tests.remote.servers.nginx import Nginx
from tests.remote.servers.seaweedfs import SeaweedFS

# Other tests use the same servers, and one process of pytest-xdist starts them (conftest.py).
pytestmark = pytest.mark.xdist_group("clouds")

COUNT = 30
SHARDS = 3

# The URL of the files' folder, and the options and the environment that a command needs for it.
Place = tuple[str, list[str], dict[str, str]]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `one.ffr`, and `set`, a folder of shards."""
    folder = tmp_path_factory.mktemp("clouds")
    write_files(folder / "source", COUNT, 110_000)
    pack_folder(folder / "source", folder / "one.ffr")
    done = ffrfs("pack", "--shards", str(SHARDS), folder / "source", folder / "set")
    assert done.status == 0, done.err
    shutil.rmtree(folder / "source")
    return folder


def objects(packed: Path) -> dict[str, bytes]:
    files = (path for path in packed.rglob("*") if path.is_file())
    return {f"data/{path.relative_to(packed)}": path.read_bytes() for path in files}


@pytest.fixture(scope="module", params=["http", "s3", "az", "gs"])
def place(request: pytest.FixtureRequest, packed: Path) -> Place:
    makers: dict[str, Callable[[pytest.FixtureRequest, Path], Place]] = {
        "http": _on_nginx,
        "s3": _in_s3,
        "az": _in_azure,
        "gs": _in_gcs,
    }
    return makers[request.param](request, packed)


def _new_name() -> str:
    """Return a new bucket name: in some orders of the tests, pytest makes the fixture twice."""
    return f"clouds{secrets.token_hex(4)}"


def _on_nginx(request: pytest.FixtureRequest, packed: Path) -> Place:
    server: Nginx = request.getfixturevalue("web")
    root: Path = request.getfixturevalue("web_root")
    for name, content in objects(packed).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return f"{server.url}/data", [], {}


def _in_s3(request: pytest.FixtureRequest, packed: Path) -> Place:
    server: SeaweedFS = request.getfixturevalue("s3")
    bucket_name = _new_name()
    bucket = server.make_bucket(bucket_name)
    for name, content in objects(packed).items():
        obstore.put(bucket, name, content)
    return f"s3://{bucket_name}/data", ["--endpoint-url", server.url], server.environment()


def _in_azure(request: pytest.FixtureRequest, packed: Path) -> Place:
    server: Azurite = request.getfixturevalue("azure")
    container_name = _new_name()
    container = server.make_container(container_name)
    for name, content in objects(packed).items():
        obstore.put(container, name, content)
    return (f"az://{container_name}/data", ["--endpoint-url", server.url], server.environment())


def _in_gcs(request: pytest.FixtureRequest, packed: Path) -> Place:
    server: FakeGcs = request.getfixturevalue("gcs")
    bucket_name = _new_name()
    server.make_bucket(bucket_name)
    for name, content in objects(packed).items():
        server.put(bucket_name, name, content)
    return f"gs://{bucket_name}/data", ["--endpoint-url", server.url, "--anonymous"], {}


@pytest.fixture
def mounted(place: Place, tmp_path: Path, fuse: None) -> Iterator[Callable[[str], Mount]]:
    """Mounts a pack or a set of `place`: mounted("one.ffr")."""
    url, words, environment = place
    with closing_mounts(tmp_path, tmp_path) as new:

        def make(name: str) -> Mount:
            tree = new("native", f"{url}/{name}")
            cache = ["--cache-dir", str(tmp_path / "cache")]
            done = tree.mount(*cache, *words, env={**os.environ, **environment})
            assert (done.status, done.out, done.err) == (0, "", "")
            return tree

        yield make


def test_a_pack_and_a_set(mounted: Callable[[str], Mount]) -> None:
    """Two mounts and two epochs; the first test of a server waits until it has started."""
    assert read(mounted("one.ffr").path) == Epoch(COUNT, 0, {})
    assert read(mounted("set/").path) == Epoch(COUNT, 0, {})


# The errors of other servers: test_origin_s3.py, test_origin_clouds.py.
@pytest.mark.parametrize("place", ["http"], indirect=True, scope="module")
def test_a_missing_object_gives_one_line(place: Place, tmp_path: Path, fuse: None) -> None:
    url, words, environment = place
    done = ffrfs(
        "mount",
        *("--cache-dir", tmp_path / "cache"),
        *words,
        f"{url}/none.ffr",
        tmp_path / "mnt",
        env={**os.environ, **environment},
    )
    assert done.status == 1
    [line] = done.err.splitlines()
    assert f"{url}/none.ffr" in line
