"""Stores of obstore: one for each bucket, with its credentials and its limits.

Credentials come from each cloud's usual chain: obstore uses the environment, web identities and
the metadata of instances and containers, and the files of Google and Azure; aws_profile.py reads
profiles of AWS. Settings have no credentials.

obstore does not repeat requests that read: object_origin.py does, because it counts the retries
and knows the deadline.

Not here: requests (object_origin.py), the meaning of their failures (failures.py).
Concurrency: any thread; a store may be shared.
"""

from __future__ import annotations

import functools
import os
import urllib.request
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ffrfs.errors import RemoteError
from ffrfs.remote import aws_profile
from ffrfs.remote.named_store import settings_for
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_CONNECT_S = 5.0
_PART_TIMEOUT = timedelta(minutes=10)
# Connections go to the host of the endpoint, and to hosts that give credentials. Requests to any
# other host, after a redirect, go to this proxy, which cannot exist.
NOWHERE = "127.0.0.1:0"
_CREDENTIAL_HOSTS = (
    "169.254.169.254,169.254.170.2,169.254.170.23,fd00:ec2::254,fd00:ec2::23,amazonaws.com,"
    "amazonaws.com.cn,metadata.google.internal,googleapis.com,accounts.google.com,microsoftonline.com"
)
_CREDENTIAL_VARIABLES = (
    "AWS_METADATA_ENDPOINT",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_ENDPOINT_URL_STS",
    "GCE_METADATA_HOST",
    "AZURE_AUTHORITY_HOST",
    "AZURE_STORAGE_AUTHORITY_HOST",
    "AZURE_MSI_ENDPOINT",
    "AZURE_IDENTITY_ENDPOINT",
    "IDENTITY_ENDPOINT",
)
_ENDPOINT_VARIABLES = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}


def bucket_store(url: RemoteUrl, settings: RemoteSettings, silence_s: float) -> ObjectStore:
    """Return a store of the object's bucket. Raises RemoteError.

    `silence_s`: after so many seconds without a byte a request fails.
    """
    return _bucket_store(url.scheme, url.bucket, settings_for(url, settings), silence_s)


def writable_store(url: RemoteUrl, settings: RemoteSettings) -> ObjectStore:
    """Return a store for uploads, where obstore itself repeats requests. Raises RemoteError."""
    return _bucket_store(url.scheme, url.bucket, settings_for(url, settings), None)


@functools.lru_cache(maxsize=64)
def _bucket_store(
    scheme: str, bucket: str, settings: RemoteSettings, silence_s: float | None
) -> ObjectStore:
    if settings.offline:
        raise RemoteError.at(f"{scheme}://{bucket}", "offline: nothing is sent to it")
    _require_obstore(f"{scheme}://{bucket}")
    from obstore.store import AzureStore, GCSStore, S3Store

    config: dict[str, Any] = {}
    if settings.anonymous:
        config["skip_signature"] = True
    elif scheme == "s3":
        config |= aws_profile.configuration()
        # All programs for AWS know this name; obstore has its own, which has priority.
        metadata = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        if metadata and not os.environ.get("AWS_METADATA_ENDPOINT"):
            config["metadata_endpoint"] = metadata.rstrip("/")
    endpoint = settings.endpoint_url or _set_endpoint(scheme) or config.pop("endpoint", "")
    if endpoint:
        config["base_url" if scheme == "gs" else "endpoint"] = endpoint
    if settings.region and scheme == "s3":
        config["region"] = settings.region
    maker: Any = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[scheme]
    options = _client_options(endpoint, settings)
    retries: RetryConfig = {"max_retries": 0}
    if silence_s is not None:
        options["read_timeout"] = timedelta(seconds=silence_s)
    else:  # while a part is uploaded, which may take long, nothing is read
        options["timeout"] = _PART_TIMEOUT
        retries = {"max_retries": 20, "retry_timeout": timedelta(seconds=settings.timeout_s)}
    store: ObjectStore = maker(bucket, client_options=options, retry_config=retries, **config)
    return store


def _client_options(endpoint: str, settings: RemoteSettings) -> ClientConfig:
    timeout = settings.timeout_s
    options: ClientConfig = {
        "allow_http": endpoint.startswith("http://"),
        "timeout": timedelta(seconds=timeout),
        "connect_timeout": timedelta(seconds=min(_CONNECT_S, timeout)),
        "user_agent": "ffrfs",
    }
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    if endpoint and not proxy_for(parts.scheme, parts.netloc):  # which decides about redirects
        others = (urlsplit(os.environ.get(name, "")).hostname for name in _CREDENTIAL_VARIABLES)
        named = [host, _CREDENTIAL_HOSTS, *(other for other in others if other)]
        options["proxy_url"] = f"http://{NOWHERE}"
        options["proxy_excludes"] = ",".join(named)
    return options


def proxy_for(scheme: str, place: str) -> str:
    """Return the proxy that the environment names for a host, or host and port; "" if none."""
    host = urlsplit(f"//{place}").hostname or ""
    if any(map(urllib.request.proxy_bypass, (host, place))):
        return ""
    proxies = urllib.request.getproxies()
    return proxies.get(scheme) or proxies.get("all") or ""


def _set_endpoint(scheme: str) -> str:
    values = (os.environ.get(name, "") for name in _ENDPOINT_VARIABLES[scheme])
    return next(filter(None, values), "")


def _require_obstore(place: str) -> None:
    try:
        import obstore  # noqa: F401
    except ImportError:
        raise RemoteError.at(
            place, "reading URLs needs obstore: pip install 'ffrfs[remote]'"
        ) from None
