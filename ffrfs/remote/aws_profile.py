"""Read profiles of AWS from ~/.aws/credentials and ~/.aws/config, which obstore does not read.

The keys are read again for each renewal, because programs that fetch short-lived keys write them
there. boto3 handles profiles that need a program, a role or single sign-on.

Not here: environment, web identities, containers, instances (obstore itself).
Concurrency: any thread.
"""

from __future__ import annotations

import configparser
import functools
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from ffrfs.errors import RemoteDeniedError

# obstore renews keys that expire within five minutes at every request, at most ten times a second.
_VALID = timedelta(minutes=5)
# If one of these is set, the environment decides, as in all programs for AWS.
_BY_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
_FOR_BOTO3 = ("role_arn", "sso_session", "sso_start_url", "credential_process")


def configuration() -> dict[str, Any]:
    """Return arguments for an S3Store; `endpoint` and `region` only if the profile sets them.

    Raises RemoteDeniedError if AWS_PROFILE names a profile that cannot be used.
    """
    name = os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
    profile = _profile(name or "default")
    found: dict[str, Any] = {}
    if not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
        found |= {"region": profile["region"]} if "region" in profile else {}
    if "endpoint_url" in profile:
        found["endpoint"] = profile["endpoint_url"]
    # AWS_PROFILE has priority over all variables except those that hold keys.
    if any(map(os.environ.get, _BY_ENVIRONMENT[: 1 if name else None])):
        return found
    if "aws_access_key_id" in profile and "role_arn" not in profile:
        found["credential_provider"] = functools.partial(_keys_of, name or "default")
    elif any(key in profile for key in _FOR_BOTO3):
        found["credential_provider"] = _boto3_credentials(name or "default")
    elif name and not profile:
        raise RemoteDeniedError(
            f"profile {name!r} (AWS_PROFILE) is neither in ~/.aws/config nor in ~/.aws/credentials"
        )
    return found


def _keys_of(name: str) -> dict[str, Any]:
    """Return the keys of a profile, as obstore wants them."""
    profile = _profile(name)
    if not {"aws_access_key_id", "aws_secret_access_key"} <= profile.keys():
        raise RemoteDeniedError(f"profile {name!r} of ~/.aws has no keys any more")
    return {
        "access_key_id": profile["aws_access_key_id"],
        "secret_access_key": profile["aws_secret_access_key"],
        "token": profile.get("aws_session_token"),
        "expires_at": datetime.now(UTC) + _VALID,
    }


def _profile(name: str) -> dict[str, str]:
    """Return the keys of both files; the credentials file has priority, as in all tools of AWS."""
    home = os.path.expanduser("~/.aws")
    of_config = name if name == "default" else f"profile {name}"
    places = (
        (os.environ.get("AWS_CONFIG_FILE") or f"{home}/config", of_config),
        (os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or f"{home}/credentials", name),
    )
    found: dict[str, str] = {}
    for path, section in places:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(os.path.expanduser(path), encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError, OSError):
            # The parser's message quotes the file, which may hold secrets, so it is dropped.
            raise RemoteDeniedError(f"{path}: not a valid file of AWS profiles") from None
        if parser.has_section(section):
            found |= dict(parser[section])
    return found


def _boto3_credentials(name: str) -> Callable[[], Any]:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise RemoteDeniedError(
            f"profile {name!r} of ~/.aws needs boto3 (role, single sign-on or program): "
            "pip install 'ffrfs[aws]'"
        ) from None
    try:
        # boto3 itself does not know AWS_REGION.
        region = os.environ.get("AWS_REGION") or None
        session = boto3.Session(profile_name=name, region_name=region)
        provider: Callable[[], Any] = Boto3CredentialProvider(session, ttl=_VALID)
        return provider
    except Exception as error:  # boto3 raises a hundred kinds
        raise RemoteDeniedError(
            f"profile {name!r} of ~/.aws gives no credentials ({type(error).__name__}); "
            f"see `aws sts get-caller-identity --profile {name}`"
        ) from None
