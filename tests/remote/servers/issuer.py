"""A server of credentials for machines and pods: the metadata of an EC2 instance, and STS over TLS.

They are of sessions that moto makes. moto's own services do not fit: its metadata knows no
IMDSv2 and gives keys that moto refuses, and its STS takes no request without a signature.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.remote.servers.moto import REGION, Moto
from tests.remote.servers.program import Server, answers_at, own_place, serving

_HOST = "localhost"  # not moto's host: only a variable leads there


@dataclass(frozen=True)
class Issuer(Server):
    """`order` changes the answers from now on: see `Orders` of issuer_program.py."""

    tls_port: int
    folder: Path

    def answers(self) -> bool:
        return super().answers() and answers_at(f"https://127.0.0.1:{self.tls_port}/")

    def order(self, **orders: object) -> None:
        _order(self.folder, **orders)

    def given(self) -> int:
        """Return how often credentials were given."""
        return self.program.log.read_text().count("gave credentials")

    def metadata(self) -> dict[str, str]:
        """Return the variables that lead to this metadata instead of the machine's."""
        return {
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{_HOST}:{self.port}/",
            "AWS_REGION": REGION,
        }

    def web_identity(self, role: str) -> dict[str, str]:
        """Return the variables that Kubernetes gives a pod with a role, and the way here."""
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
    import trustme  # slow to import

    with own_place("issuer", 2) as (folder, (port, tls_port)):
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "authority.pem")
        certificate = authority.issue_cert(_HOST)
        certificate.private_key_and_cert_chain_pem.write_to_path(folder / "certificate.pem")
        token = secrets.token_hex(16)
        (folder / "token").write_text(token)
        _order(folder, token=token)
        command = [sys.executable, "-m", "tests.remote.servers.issuer_program", str(folder)]
        command += [str(port), str(tls_port), moto.url]
        with serving(
            lambda program: Issuer(program, port, tls_port, folder),
            *(command, folder / "log"),
            environment=moto.admin.environment(),
            patient=False,
        ) as server:
            yield server
