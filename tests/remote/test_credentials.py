"""Credentials of AWS (moto): where they are found, that they are renewed, and wrong ones.

Not here: keys in files, in all their places (test_origin_s3.py), other clouds
(test_origin_clouds.py), mounts (test_mount_credentials.py).
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import pytest

from ffrfs.errors import RemoteDeniedError, RemoteError, RemoteTimeoutError
from ffrfs.remote.pin import Pin
from ffrfs.remote.settings import RemoteSettings
from tests.remote import origins
from tests.remote.conftest import Give
from tests.remote.servers.issuer import Issuer
from tests.remote.servers.moto import REGION, Moto
from tests.remote.servers.scripted import scripted

DATA = secrets.token_bytes(1000)
WAYS = ["metadata", "web identity"]


@pytest.fixture(scope="module")
def url(aws: Moto) -> str:
    name = f"bucket{secrets.token_hex(4)}"
    obstore.put(aws.make_bucket(name), "a", DATA)
    return f"s3://{name}/a"


@dataclass(frozen=True)
class Cloud:
    """An object of AWS, which is read with the credentials that `give` has given."""

    aws: Moto
    url: str
    give: Give

    def pin(self, *, timeout_s: float = 30) -> Pin:
        return origins.pin(self.url, RemoteSettings(self.aws.url, timeout_s=timeout_s))

    def reads(self, found: Pin, *, timeout_s: float = 30) -> bool:
        """Read some bytes; return whether they are right."""
        settings = RemoteSettings(self.aws.url, timeout_s=timeout_s)
        return origins.read(found, 10, 900, settings) == DATA[10:910]

    def refuses(self, kind: type[RemoteError], why: str, *, timeout_s: float = 30) -> None:
        with pytest.raises(kind, match=why) as caught:
            self.pin(timeout_s=timeout_s)
        is_one_line(caught.value)


def is_one_line(error: RemoteError) -> None:
    assert "HUSH" not in str(error)
    assert "\n" not in str(error)


@pytest.fixture
def cloud(aws: Moto, url: str, give: Give) -> Cloud:
    return Cloud(aws, url, give)


def new_name() -> str:
    return f"name{secrets.token_hex(4)}"


@pytest.fixture
def role(aws: Moto) -> str:
    return aws.make_role(new_name())


@pytest.fixture
def granting(machine: Issuer, role: str) -> Iterator[Issuer]:
    """The issuer gives sessions of `role`; obstore asks for a new one with each request."""
    machine.order(role=role, lifetime_s=60, status=200)
    yield machine
    machine.order(role="", status=200)


@pytest.fixture(params=WAYS)
def granted(request: pytest.FixtureRequest, cloud: Cloud, granting: Issuer, role: str) -> Issuer:
    """The same issuer, to which the environment leads in one of WAYS."""
    is_metadata = request.param == "metadata"
    cloud.give(granting.metadata() if is_metadata else granting.web_identity(role))
    return granting


def let_obstore_ask_again() -> None:
    """Wait: obstore uses credentials for a tenth of a second before it asks again."""
    time.sleep(0.2)


def later(function: Callable[..., object], *arguments: object, **more: object) -> threading.Timer:
    timer = threading.Timer(0.5, function, arguments, more)
    timer.start()
    return timer


@pytest.mark.promise("S65")
@pytest.mark.parametrize("kind", ["user", "session"])
def test_keys_in_the_environment(cloud: Cloud, role: str, kind: str) -> None:
    keys = cloud.aws.make_keys(new_name()) if kind == "user" else cloud.aws.assume(role)
    cloud.give(keys.environment())
    assert cloud.reads(cloud.pin())


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId"),
        ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"),
        ("AWS_SESSION_TOKEN", "InvalidToken"),
    ],
)
def test_wrong_keys(cloud: Cloud, role: str, name: str, code: str) -> None:
    cloud.give({**cloud.aws.assume(role).environment(), name: "ASIAHUSHHUSHHUSHHUSH"})
    cloud.refuses(RemoteDeniedError, rf"the credentials are wrong \({code}\)")


@pytest.mark.parametrize("status", [400, 403])
@pytest.mark.parametrize("code", ["ExpiredToken", "TokenRefreshRequired"])
def test_a_session_that_has_expired(status: int, code: str) -> None:
    """S3 answers 400 here, though it refuses everything else with 403."""
    body = f"<Error><Code>{code}</Code></Error>".encode()
    head = f"HTTP/1.1 {status} No\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with scripted(lambda _: (head + body, False)) as port:
        settings = RemoteSettings(endpoint_url=f"http://127.0.0.1:{port}", anonymous=True)
        with pytest.raises(RemoteDeniedError, match="have expired; sign in again"):
            origins.pin("s3://bucket/a.ffr", settings)


def test_a_bucket_that_is_not_public() -> None:
    """`--anonymous` is given already, so the message must not only advise it."""
    head = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"
    with scripted(lambda _: (head, False)) as port:
        settings = RemoteSettings(endpoint_url=f"http://127.0.0.1:{port}", anonymous=True)
        with pytest.raises(RemoteDeniedError, match="with --anonymous: the bucket is not public"):
            origins.pin("s3://bucket/a.ffr", settings)


def test_a_session_that_may_not_read(cloud: Cloud) -> None:
    cloud.give(cloud.aws.assume(cloud.aws.make_role(new_name(), "s3:ListBucket")).environment())
    cloud.refuses(
        RemoteDeniedError, r"refused \(403 AccessDenied\): these credentials lack the permission"
    )


def test_keys_of_a_profile_that_are_replaced(cloud: Cloud, tmp_path: Path) -> None:
    """A program that fetches short-lived keys writes them to the file again and again."""
    user = new_name()
    old = cloud.aws.make_keys(user)
    new = cloud.aws.make_keys(new_name())
    file = tmp_path / "credentials"
    file.write_text(f"[work]\n{old.profile()}")
    cloud.give({"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_PROFILE": "work"})
    found = cloud.pin()
    cloud.aws.remove_keys(user, old)
    let_obstore_ask_again()
    file.write_text("")
    timer = later(file.write_text, f"[work]\n{new.profile()}")
    assert cloud.reads(found)
    timer.join()


def test_a_profile_whose_keys_were_removed(cloud: Cloud, tmp_path: Path) -> None:
    """The read tries again until its time-out of 4 s."""
    file = tmp_path / "credentials"
    file.write_text(f"[work]\n{cloud.aws.make_keys(new_name()).profile()}")
    cloud.give({"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_PROFILE": "work"})
    found = cloud.pin()
    let_obstore_ask_again()
    file.write_text("[work]\naws_access_key_id = HUSH\n")
    with pytest.raises(RemoteTimeoutError, match="gives no credentials; see") as caught:
        cloud.reads(found, timeout_s=4)
    is_one_line(caught.value)


def test_a_profile_with_a_role(cloud: Cloud, tmp_path: Path, role: str) -> None:
    """boto3 gets the credentials of such a profile."""
    file = tmp_path / "config"
    file.write_text(
        f"[profile base]\n{cloud.aws.make_keys(new_name()).profile()}"
        f"[profile work]\nrole_arn = {role}\nsource_profile = base\n"
    )
    cloud.give({"AWS_CONFIG_FILE": str(file), "AWS_PROFILE": "work"})
    cloud.give({"AWS_ENDPOINT_URL_STS": cloud.aws.url, "AWS_REGION": REGION})
    assert cloud.reads(cloud.pin())
    cloud.aws.forbid(role)
    cloud.refuses(RemoteDeniedError, "refused")


@pytest.mark.promise("S65")
def test_credentials_of_the_machine_are_renewed(cloud: Cloud, granted: Issuer, role: str) -> None:
    found = cloud.pin()
    before = granted.given()
    let_obstore_ask_again()
    cloud.aws.forbid(role)
    granted.order(role=cloud.aws.make_role(new_name()))
    assert cloud.reads(found)
    assert granted.given() > before


@pytest.mark.promise("S63")
def test_a_credential_service_that_fails_for_a_while(cloud: Cloud, granted: Issuer) -> None:
    found = cloud.pin()
    let_obstore_ask_again()
    granted.order(status=503)
    timer = later(granted.order, status=200)
    assert cloud.reads(found)
    timer.join()


def test_a_credential_service_that_fails(cloud: Cloud, granted: Issuer) -> None:
    granted.order(status=503)
    cloud.refuses(RemoteTimeoutError, r"credential service failed \(503\)", timeout_s=4)


@pytest.mark.promise("S63")
def test_a_machine_without_a_role_for_a_while(cloud: Cloud, granting: Issuer, role: str) -> None:
    cloud.give(granting.metadata())
    granting.order(role="")
    cloud.refuses(RemoteDeniedError, "found no credentials; set")
    granting.order(role=role)
    found = cloud.pin()
    let_obstore_ask_again()
    granting.order(role="")
    timer = later(granting.order, role=role)
    assert cloud.reads(found)
    timer.join()


def test_a_machine_without_metadata(cloud: Cloud, granting: Issuer) -> None:
    cloud.give({"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1"})
    cloud.refuses(RemoteDeniedError, "found no credentials; set")
    cloud.give({"AWS_METADATA_ENDPOINT": f"http://127.0.0.1:{granting.port}"})
    assert cloud.reads(cloud.pin())  # obstore's own variable overrides that


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "FOLDER/wrong"}, r"refused \(400 InvalidIdentityToken\)"),
        (
            {"AWS_WEB_IDENTITY_TOKEN_FILE": "FOLDER/none"},
            "AWS_WEB_IDENTITY_TOKEN_FILE cannot be read",
        ),
        ({"AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1/"}, "must begin with https"),
    ],
)
def test_wrong_web_identities(
    cloud: Cloud, granting: Issuer, change: dict[str, str], why: str
) -> None:
    (granting.folder / "wrong").write_text("HUSH")
    change = {name: value.replace("FOLDER", str(granting.folder)) for name, value in change.items()}
    cloud.give(granting.web_identity("arn:aws:iam::123456789012:role/any") | change)
    cloud.refuses(RemoteDeniedError, why)


def test_an_sts_that_is_unreachable_or_not_trusted(
    cloud: Cloud, granting: Issuer, role: str, tmp_path: Path
) -> None:
    environment = granting.web_identity(role)
    cloud.give({**environment, "AWS_ENDPOINT_URL_STS": "https://127.0.0.1:1/"})
    cloud.refuses(RemoteTimeoutError, "credential service cannot be reached", timeout_s=4)
    (tmp_path / "none.pem").touch()
    cloud.give({**environment, "SSL_CERT_FILE": str(tmp_path / "none.pem")})
    cloud.refuses(RemoteError, "TLS: the server's certificate is not trusted")
