"""moto, an emulator of AWS: for versions of objects, and for credentials.

It checks signatures and policies. Its sessions do not end by themselves: `forbid` ends them.
"""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from obstore.store import S3Store

from tests.remote.servers.program import Server, answers_at, own_place, require, serving

REGION = "us-east-1"
_ADMIN = "admin"
_ALL = ("s3:*", "iam:*", "sts:*")


@dataclass(frozen=True)
class Keys:
    access_key: str
    secret_key: str = field(repr=False)
    token: str = field(default="", repr=False)

    def environment(self) -> dict[str, str]:
        token = {"AWS_SESSION_TOKEN": self.token} if self.token else {}
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
            **token,
        }

    def store(self, url: str, bucket: str) -> S3Store:
        return S3Store(
            bucket,
            endpoint=url,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
            region=REGION,
            client_options={"allow_http": True},
        )

    def profile(self) -> str:
        """Return the lines of these keys in a file of profiles."""
        keys = f"aws_access_key_id = {self.access_key}\naws_secret_access_key = {self.secret_key}\n"
        return keys + (f"aws_session_token = {self.token}\n" if self.token else "")


class _Begun(Server):
    def answers(self) -> bool:
        return answers_at(f"{self.url}/moto-api/")  # an S3 request would count as the first


@dataclass(frozen=True)
class Moto(_Begun):
    admin: Keys
    clients: Mapping[str, Any] = field(repr=False)  # clients of boto3, with the keys of the admin

    def make_bucket(self, name: str, *, versions: bool = False) -> S3Store:
        self.clients["s3"].create_bucket(Bucket=name)
        if versions:
            state = {"Status": "Enabled"}
            self.clients["s3"].put_bucket_versioning(Bucket=name, VersioningConfiguration=state)
        return self.admin.store(self.url, name)

    def make_keys(self, user: str) -> Keys:
        """Make keys of a new user, who may do anything."""
        self.clients["iam"].create_user(UserName=user)
        return _make_keys(self.clients["iam"], user)

    def remove_keys(self, user: str, keys: Keys) -> None:
        self.clients["iam"].delete_access_key(UserName=user, AccessKeyId=keys.access_key)

    def make_role(self, name: str, *allowed: str) -> str:
        """Make a role, and return its ARN; its sessions may do `allowed`, by default anything."""
        trust = _policy("sts:AssumeRole", Principal={"AWS": "*"})
        role = self.clients["iam"].create_role(RoleName=name, AssumeRolePolicyDocument=trust)
        self.clients["iam"].put_role_policy(
            RoleName=name,
            PolicyName="policy",
            PolicyDocument=_policy(*(allowed or _ALL), Resource="*"),
        )
        arn: str = role["Role"]["Arn"]
        return arn

    def forbid(self, role: str) -> None:
        """Forbid its sessions everything, as if they had expired."""
        name = role.rpartition("/")[2]
        self.clients["iam"].delete_role_policy(RoleName=name, PolicyName="policy")

    def assume(self, role: str) -> Keys:
        """Return the keys of a new session."""
        found = self.clients["sts"].assume_role(RoleArn=role, RoleSessionName="tests")
        made = found["Credentials"]
        return Keys(made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"])


@contextlib.contextmanager
def moto() -> Iterator[Moto]:
    binary = require("moto_server", remedy="pip install 'moto[server]'")
    with own_place("moto") as (place, [port]):
        command = [binary, "-H", "127.0.0.1", "-p", str(port)]
        with serving(
            lambda program: _Begun(program, port), command, place / "log", patient=False
        ) as server:
            # The first requests are not checked, and make the admin; from then on moto checks them.
            iam = _clients(port, Keys("first", "first"))["iam"]
            iam.create_user(UserName=_ADMIN)
            admin = _make_keys(iam, _ADMIN)
            address = f"{server.url}/moto-api/reset-auth"
            headers = {"Content-Type": "text/plain"}
            request = urllib.request.Request(address, data=b"0", headers=headers)
            urllib.request.urlopen(request, timeout=30).close()
            yield Moto(server.program, port, admin, _clients(port, admin))


def _clients(port: int, keys: Keys) -> dict[str, Any]:
    import boto3  # slow to import

    session = boto3.Session(keys.access_key, keys.secret_key, region_name=REGION)
    endpoint = f"http://127.0.0.1:{port}"
    return {name: session.client(name, endpoint_url=endpoint) for name in ("iam", "s3", "sts")}


def _make_keys(iam: Any, user: str) -> Keys:
    policy = _policy(*_ALL, Resource="*")
    iam.put_user_policy(UserName=user, PolicyName="policy", PolicyDocument=policy)
    made = iam.create_access_key(UserName=user)["AccessKey"]
    return Keys(made["AccessKeyId"], made["SecretAccessKey"])


def _policy(*actions: str, **more: Any) -> str:
    statement = {"Effect": "Allow", "Action": list(actions), **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
