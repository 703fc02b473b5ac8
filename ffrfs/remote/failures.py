"""Classifies failed requests: the error for the user, and whether to try again.

obstore reports most failures in a text, which also has the whole URL with its signature. So
only known words of the text are used; no part of it is passed on as it is.

Not here: trying again (object_origin.py).
Concurrency: functions without state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ffrfs.errors import (
    ChangedAtOriginError,
    RemoteDeniedError,
    RemoteError,
    RemoteNotFoundError,
    RemoteTimeoutError,
)
from ffrfs.remote.store import NOWHERE, proxy_for
from ffrfs.remote.url import RemoteUrl

NO_BUCKET = "there is no bucket"
REDIRECTS = (301, 302, 303, 307, 308)

_TEXT_MAX = 1 << 16
_URL = re.compile(r"(https?://[^/\s,]+)[^\s,]*")
_STATUS = re.compile(r"non-2xx status code: (\d{3})\b")
_CODE = re.compile(r"<Code>(\w{1,64})</Code>")
_TLS = re.compile(r"InvalidCertificate|tls handshake|AlertReceived|InvalidMessage|SSLError|SSLCert")
_TLS_WHY = re.compile(
    r"(UnknownIssuer|Expired|NotValidForName|NotValidYet|Revoked|CaUsed\w+|has expired|"
    r"[Hh]ostname mismatch|IP address mismatch|self-signed|unable to get local issuer)"
)
_NO_CREDENTIALS = (
    *("http://169.254.", "http://metadata.google.internal", "http://[fd00:ec2"),
    *("MissingAccount", "Account must be specified"),
)
# Requests for credentials go to the metadata service of an instance, and to STS, where obstore
# redacts the URL, because it holds a secret.
_METADATA = re.compile(r"performing (PUT|GET) https?://[^/\s]+/latest/(api/token|meta-data/iam)")
_STS = "performing POST REDACTED"
_IN_FILES = {
    "BadScheme": "AWS_ENDPOINT_URL_STS must begin with https://",
    "Failed to read token file": "the file of AWS_WEB_IDENTITY_TOKEN_FILE cannot be read",
    # aws_profile.py raises this one.
    "External AWS credential provider": (
        "the profile (AWS_PROFILE) gives no credentials; see `aws sts get-caller-identity`"
    ),
}
_UNABLE = (501, 505)  # statuses of a server that will never do it
_THROTTLING = ("SlowDown", "ServerBusy", "RequestLimitExceeded")
_WRONG_KEYS = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken"),
    "AuthenticationFailed",
)
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException")  # S3 sends 400
_BROKEN = (
    *("ConnectionReset", "ConnectionAborted", "BrokenPipe", "UnexpectedEof"),
    *("IncompleteMessage", "IncompleteBody", "ChannelClosed", "Canceled", "SendRequest"),
    *("RemoteDisconnected", "SSLEOFError", "SSLZeroReturnError", "got more than"),
    "IncompleteRead",
)
_KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile (AWS_PROFILE)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`",
    "az": "AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, or `az login`",
}


class BadStatusError(Exception):
    """A web server answered with a status other than 200 and 206; `text` is the answer's body."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__()
        self.status = status
        self.code = match[1] if (match := _CODE.search(text)) else ""  # of an object store behind


class NoProxyError(Exception):
    """The proxy cannot be reached, for the reason of `cause`."""

    def __init__(self, proxy: str, cause: OSError) -> None:
        super().__init__()
        self.proxy, self.cause = proxy, cause


WHOLE_FILES = (
    "the server sends whole files only (it ignores Range requests); download the file, or use "
    "another server"
)
OTHER_BYTES = "the server sent other bytes than requested (Content-Range): its fault"
NO_LENGTH = "the server does not say how many bytes it sends (Content-Length): its fault"
_WRONG_ANSWERS = (
    (("RangeNotSupported", "NotPartial"), WHOLE_FILES),
    (("UnexpectedRange", "ContentRange", "CONTENT_RANGE"), OTHER_BYTES),
    (("Content-Length", "MissingContentLength"), NO_LENGTH),
    (
        ("LastModified", "ETag"),
        "the server sent a Last-Modified or ETag that cannot be read: its fault",
    ),
    (("TooManyRedirects",), "the server redirects again and again: its fault"),
    (
        ("Parse(", "hyper::Error", "BadStatusLine"),
        "the answer is not valid HTTP; check host, port, and http or https",
    ),
)


@dataclass(frozen=True)
class Failure:
    """A classified failure; `error` is raised if this was the last attempt."""

    error: RemoteError
    again: bool = False
    throttled: bool = False
    renewal: bool = False  # no credentials were found: retry if there were some before


def failure_of(error: Exception, url: RemoteUrl) -> Failure:
    """Classify an exception of obstore after a request for `url`."""
    if isinstance(error, RemoteError):
        return Failure(error)
    if isinstance(error, BadStatusError):
        return _of_status(error.status, error.code, url)
    place = url.bucket if url.scheme in ("http", "https") else ""
    if isinstance(error, NoProxyError):
        place, error = f"the proxy {error.proxy}", error.cause
    # The exception also quotes the server, at any length.
    whole = repr(error)[:_TEXT_MAX]
    text = _URL.sub(r"\1", whole)
    found = _STATUS.search(text)
    failure = _no_way_there(text, url) or _of_credentials(whole, url)
    if failure is None and found is not None:
        code = _CODE.search(text)
        failure = _of_status(int(found[1]), code[1] if code else "", url)
    if failure is None and (why := _connection(text, place or _connected(text))):
        failure = Failure(RemoteTimeoutError.at(url.shown, why), again=True)
    why = _wrong_answer(text) or f"the request failed ({type(error).__name__})"
    return failure or Failure(RemoteError.at(url.shown, why))


def timed_out(url: RemoteUrl, seconds: float, last: Failure | None) -> RemoteTimeoutError:
    why = f" ({last.error.reason})" if last else ""
    return RemoteTimeoutError.at(url.shown, f"no answer for {seconds:g} s{why}")


def _no_way_there(text: str, url: RemoteUrl) -> Failure | None:
    """Return the failure if the server did not get the request for the object, else None."""
    if NOWHERE in text or "following redirect" in text or "BareRedirect" in text:
        return Failure(RemoteError.at(url.shown, _redirect("BareRedirect" in text, url)))
    if _TLS.search(text):
        return Failure(RemoteError.at(url.shown, _tls(text)))
    return None


def _of_credentials(text: str, url: RemoteUrl) -> Failure | None:
    """Return the failure if credentials could not be got from a file or a service, else None."""
    for word, why in _IN_FILES.items():
        if word in text:
            return Failure(RemoteDeniedError.at(url.shown, why), renewal=True)
    is_metadata = any(name in text for name in _NO_CREDENTIALS) or _METADATA.search(text)
    if not is_metadata and _STS not in text:
        return None
    found, code = _STATUS.search(text), _CODE.search(text)
    status = int(found[1]) if found else 0
    if status == 429 or status >= 500:
        why = f"the credential service failed ({status})"
        return Failure(RemoteTimeoutError.at(url.shown, why), again=True)
    if is_metadata:
        return Failure(RemoteDeniedError.at(url.shown, _no_credentials(url)), renewal=True)
    if status == 0:
        why = "the credential service cannot be reached (AWS_ENDPOINT_URL_STS)"
        return Failure(RemoteTimeoutError.at(url.shown, why), again=True)
    named = f"{status} {code[1] if code else ''}".strip()
    why = f"the credential service refused ({named}); check the role and the token"
    return Failure(RemoteDeniedError.at(url.shown, why))


def _of_status(status: int, code: str, url: RemoteUrl) -> Failure:
    kind: type[RemoteError] = RemoteError
    named = f"{status} {code}".strip()
    throttled = status in (429, 503) or code in _THROTTLING
    # Proxies have statuses of their own above 505, for servers that they do not reach.
    again = throttled or status in (408, 425) or code == "RequestTimeout"
    again = again or (status >= 500 and status not in _UNABLE)
    if again:
        kind = RemoteTimeoutError
        why = "throttles requests" if throttled else "failed"
        why = f"the server {why} ({named})"
    elif status in (401, 403) or code in _WRONG_KEYS + _EXPIRED:
        kind, why = RemoteDeniedError, _refused(named, code, url)
    elif code in ("NoSuchBucket", "ContainerNotFound"):
        kind = RemoteNotFoundError
        why = f"{NO_BUCKET} {url.bucket!r}; check the name and --endpoint-url"
    elif status in (404, 410):
        kind, why = RemoteNotFoundError, "there is no such object (for a directory, add a /)"
    elif status in (412, 416):
        return Failure(changed(url))
    elif status in REDIRECTS or code in (
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
    ):
        why = _redirect(url.scheme == "s3", url)
    else:
        why = f"the server answered {named}"
    return Failure(kind.at(url.shown, why), again, throttled)


def changed(url: RemoteUrl) -> ChangedAtOriginError:
    return ChangedAtOriginError.at(
        url.shown, "changed at its origin since it was opened; open or mount it again"
    )


def _refused(named: str, code: str, url: RemoteUrl) -> str:
    if code == "RequestTimeTooSkewed":
        return "refused: the clock of this machine is wrong; set it (timedatectl)"
    if code in _EXPIRED:
        return "refused: the credentials have expired; sign in again"
    keys = _KEYS.get(url.scheme)
    if keys and code in _WRONG_KEYS:
        return f"the credentials are wrong ({code}); check {keys}"
    if keys:
        advice = "for a public bucket give --anonymous; with --anonymous: the bucket is not public"
        return f"refused ({named}): these credentials lack the permission; {advice}"
    signed = "; a signed URL may have expired: make a new one" if url.query else ""
    if url.is_directory:
        return f"refused ({named}): the server lists no directory (nginx: autoindex on)"
    return f"refused ({named}){signed}"


def _no_credentials(url: RemoteUrl) -> str:
    return (
        f"found no credentials; set {_KEYS.get(url.scheme, 'them')}; for a public bucket give "
        "--anonymous"
    )


def _redirect(is_bare: bool, url: RemoteUrl) -> str:
    if is_bare and url.scheme == "s3":
        return "the bucket is in another region or store; give --region or --endpoint-url"
    return (
        "the server redirects to another place, which ffrfs does not follow; give the URL of "
        f"that place (`curl -sI '{url.shown}'` shows it)"
    )


def _tls(text: str) -> str:
    why = f" ({match[1]})" if (match := _TLS_WHY.search(text)) else ""
    return (
        f"TLS: the server's certificate is not trusted{why}; check the name of the host and this "
        "machine's clock; for an authority of your own set SSL_CERT_FILE"
    )


def _connected(text: str) -> str:
    """Return where obstore tried to send a request: to the proxy, if there is one."""
    found = _URL.search(text)
    # With a proxy, obstore connects to it alone, and looks up no other name.
    if found is not None and ("tcp connect error" in text or "dns error" in text):
        scheme, _, place = found[1].partition("://")
        if proxy := proxy_for(scheme, place):
            named = (proxy.partition("://")[2] or proxy).rpartition("@")[2]  # without a password
            return f"the proxy {named.partition('/')[0]}"
    return "the endpoint"


def _connection(text: str, place: str) -> str:
    if "dns error" in text or "gaierror" in text:
        return f"DNS does not know the name of {place}; check the name, and this machine's DNS"
    if "ConnectionRefused" in text:
        return f"{place} refuses connections; check host and port, and whether the server runs"
    if "Tunnel connection failed" in text:
        return "the proxy does not connect to it; check the proxy (HTTPS_PROXY)"
    if any(word in text for word in ("Unreachable", "unreachable", "NetworkDown", "No route")):
        return f"there is no route to {place}; check the network and the proxy (HTTPS_PROXY)"
    if "TimedOut" in text or "TimeoutError" in text:
        return f"{place} did not answer in time"
    return "the connection broke off" if any(word in text for word in _BROKEN) else ""


def _wrong_answer(text: str) -> str:
    found = (why for words, why in _WRONG_ANSWERS if any(word in text for word in words))
    if why := next(found, ""):
        return why
    if "HTTP error" not in text and "path" in text.lower():
        return "obstore does not support this name"
    return ""
