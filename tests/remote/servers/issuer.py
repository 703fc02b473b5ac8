"""Who gives credentials to machines and pods: the metadata of an EC2 instance, and STS by TLS.

They are those of sessions that moto makes. moto itself has neither: its metadata knows no
IMDSv2 and has keys that it does not let in, and its STS takes no request without a signature.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.remote.servers.moto import REGION, Moto
from tests.remote.servers.program import Program, answers_at, free_ports, running

_HOST = "localhost"  # not the host of moto: it is reached since a variable names it


@dataclass(frozen=True)
class Issuer:
    """`order` changes what is answered from now on: see `Orders` of issuer_program.py."""

    program: Program
    port: int
    tls_port: int
    folder: Path

    def order(self, **orders: object) -> None:
        _order(self.folder, **orders)

    def given(self) -> int:
        """How often credentials were given."""
        return self.program.log.read_text().count("gave credentials")

    def metadata(self) -> dict[str, str]:
        """What leads to the metadata in the place of that of the machine."""
        return {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{_HOST}:{self.port}/",
            "AWS_REGION": REGION,
        }

    def web_identity(self, role: str) -> dict[str, str]:
        """What Kubernetes sets in a pod that has a role, and what leads here."""
        return {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(self.folder / "token"),
            "AWS_ROLE_ARN": role,
            "AWS_ENDPOINT_URL_STS": f"https://{_HOST}:{self.tls_port}/",
            "AWS_REGION": REGION,
            "SSL_CERT_FILE": str(self.folder / "authority.pem"),
        }


def _order(folder: Path, **orders: object) -> None:
    path = folder / "orders"
    known = json.loads(path.read_text()) if path.exists() else {}
    new = folder / "new"
    new.write_text(json.dumps({**known, **orders}))
    new.rename(path)


@contextlib.contextmanager
def issuer(moto: Moto) -> Iterator[Issuer]:
    import trustme  # which takes its time

    with (
        tempfile.TemporaryDirectory(prefix="ffrfs-issuer-") as place,
        free_ports(2) as (port, tls_port),
    ):
        folder = Path(place)
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "authority.pem")
        certificate = authority.issue_cert(_HOST)
        certificate.private_key_and_cert_chain_pem.write_to_path(folder / "certificate.pem")
        token = secrets.token_hex(16)
        (folder / "token").write_text(token)
        _order(folder, token=token)
        command = [sys.executable, "-m", "tests.remote.servers.issuer_program", place]
        command += [str(port), str(tls_port), moto.endpoint_url]
        with running(
            command,
            folder / "log",
            lambda: (
                answers_at(f"http://127.0.0.1:{port}/")
                and answers_at(f"https://127.0.0.1:{tls_port}/")
            ),
            environment=moto.admin.environment(),
            patient=False,
        ) as program:
            yield Issuer(program, port, tls_port, folder)
