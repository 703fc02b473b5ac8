"""The issuer's process: `python -m tests.remote.servers.issuer_program FOLDER PORT TLS_PORT MOTO`.

At PORT it serves the metadata of an instance (IMDSv2), at TLS_PORT STS. It reads FOLDER/orders
at each request.
"""

from __future__ import annotations

import json
import os
import secrets
import ssl
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3

_PREFIX = "/latest/meta-data/iam/security-credentials/"
_SESSION = secrets.token_hex(8)  # the token of IMDSv2
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_STS_ANSWER = """\
<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><SessionToken>{Token}</SessionToken>
<SecretAccessKey>{SecretAccessKey}</SecretAccessKey><Expiration>{Expiration}</Expiration>
<AccessKeyId>{AccessKeyId}</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
_STS_ERROR = """\
<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>InvalidIdentityToken</Code><Message>No</Message></Error></ErrorResponse>"""


@dataclass(frozen=True)
class Orders:
    token: str = ""  # the web identity that it accepts
    role: str = ""  # gives sessions of it, whatever the request; empty: the machine has no role
    lifetime_s: float = 3600.0
    status: int = 200  # of all answers

    @classmethod
    def now(cls, folder: Path) -> Orders:
        return cls(**json.loads((folder / "orders").read_text()))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, sts: Any, *arguments: Any) -> None:
        self._folder, self._sts = folder, sts
        super().__init__(*arguments)

    def do_PUT(self) -> None:
        if not self._is_down():
            known = self.path == "/latest/api/token"
            self._answer(200 if known else 404, _SESSION if known else "")

    def do_GET(self) -> None:
        orders = Orders.now(self._folder)
        if self._is_down():
            return
        role = orders.role.rpartition("/")[2]
        if self.headers["X-aws-ec2-metadata-token"] != _SESSION:
            self._answer(401, "")
        elif self.path == _PREFIX and role:
            self._answer(200, role)
        elif self.path == _PREFIX + role and role:
            self._answer(200, json.dumps({"Code": "Success", **self._credentials(orders)}))
        else:
            self._answer(404, "")

    def do_POST(self) -> None:
        orders = Orders.now(self._folder)
        if self._is_down():
            return
        query = parse_qs(urlsplit(self.path).query)
        if query.get("WebIdentityToken") != [orders.token]:
            self._answer(400, _STS_ERROR)
        else:
            self._answer(200, _STS_ANSWER.format(**self._credentials(orders)))

    def _is_down(self) -> bool:
        status = Orders.now(self._folder).status
        if status != 200:
            self._answer(status, "")
        return status != 200

    def _credentials(self, orders: Orders) -> dict[str, str]:
        made = self._sts.assume_role(RoleArn=orders.role, RoleSessionName="issuer")["Credentials"]
        expiration = datetime.now(UTC) + timedelta(seconds=orders.lifetime_s)
        print("gave credentials", flush=True)
        return {
            "AccessKeyId": made["AccessKeyId"],
            "SecretAccessKey": made["SecretAccessKey"],
            "Token": made["SessionToken"],
            "Expiration": expiration.strftime(_TIME),
        }

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def main(folder: Path, port: int, tls_port: int, moto: str) -> None:
    sts = boto3.client("sts", endpoint_url=moto, region_name=os.environ["AWS_REGION"])
    handler = partial(Handler, folder, sts)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem")
    tls = ThreadingHTTPServer(("127.0.0.1", tls_port), handler)
    tls.socket = context.wrap_socket(tls.socket, server_side=True)
    threading.Thread(target=tls.serve_forever, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
