"""Parses URLs of objects and of directories of objects.

Not here: requests to servers (object_origin.py), settings (settings.py). It imports no other
room but errors.
Concurrency: values that do not change.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import NoReturn
from urllib.parse import quote_from_bytes, unquote_to_bytes

from ffrfs.errors import OptionError

SCHEMES = ("s3", "gs", "az", "http", "https", "file")
_BEGIN = re.compile(rf"({'|'.join(SCHEMES)})://", re.IGNORECASE | re.ASCII)
_LENGTH_MAX = 8192  # a signed URL has one or two thousand characters
_BUCKET = re.compile(r"[\w.-]{1,255}", re.ASCII)
_stores: set[str] = set()
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]{1,255})(:\d{1,5})?", re.ASCII)


def is_url(text: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bool:
    """Return whether `text` is a URL that ffrfs knows; any other text is the path of a file."""
    name = os.fspath(text)
    return _BEGIN.match(os.fsdecode(name) if isinstance(name, bytes) else name) is not None


@dataclass(frozen=True)
class RemoteUrl:
    """A parsed URL. `bucket`: for HTTP the host and port, for file:// empty.

    `key`: the name of the object in its bucket; for HTTP the path as written, with percent signs;
    for file:// the path itself. `query`: for HTTP only; it may be a secret. `store`: the server
    that the program names for it (named_store.py); "": that of the process.
    """

    scheme: str
    bucket: str
    key: str
    query: str = ""
    store: str = ""

    @property
    def text(self) -> str:
        if self.store:
            return f"{self.scheme}://{self.store}@{self.bucket}/{self.key}"
        return self.shown + (f"?{self.query}" if self.query else "")

    @property
    def shown(self) -> str:
        """The URL without its secret, for people and logs, and as the object's name in a cache."""
        key = self.key
        if self.scheme == "file":
            return "file://" + quote_from_bytes(os.fsencode(key))
        return f"{self.scheme}://{self.bucket}/{key}"

    @property
    def is_directory(self) -> bool:
        return not self.key or self.key.endswith("/")

    def child(self, name: str) -> RemoteUrl:
        """Return the URL of the object or directory `name` in this directory."""
        assert self.is_directory
        return replace(self, key=self.key + name)


def parse_url(text: str) -> RemoteUrl:
    """Return the parsed URL. Raises OptionError if it is not supported, or ambiguous."""
    begin = _BEGIN.match(text)
    if begin is None:
        raise OptionError(f"{text[:200]!r} is not a supported URL ({', '.join(SCHEMES)})")
    scheme = begin[1].lower()
    rest = text[begin.end() :]
    if len(text) > _LENGTH_MAX:
        raise OptionError(
            f"{text.partition('?')[0][:80]}…: a URL may have at most {_LENGTH_MAX:,} characters"
        )
    if not text.isprintable():
        raise OptionError(f"{text.partition('?')[0][:200]!r}: not printable; check the URL")
    if scheme == "file":
        return _file_url(text, rest)
    bucket, _, key = rest.partition("/")
    if scheme in ("http", "https"):
        return _http_url(scheme, text, rest)
    store, at, bucket = bucket.rpartition("@")
    # A password may hold a "/".
    if (at and store not in _stores) or (":" in bucket and "@" in key):
        _refuse_user(scheme)
    if not _BUCKET.fullmatch(bucket):
        raise OptionError(f"{text[:200]}: no bucket; write {scheme}://BUCKET/NAME")
    _check_parts(text, key)
    return RemoteUrl(scheme, bucket, key, store=store)


def admit_store(store: str) -> None:
    """Let parse_url() take URLs with this store, which the program has named."""
    _stores.add(store)


def _http_url(scheme: str, text: str, rest: str) -> RemoteUrl:
    place, _, query = rest.partition("#")[0].partition("?")
    host, _, key = place.partition("/")
    is_host = _HOST.fullmatch(host)
    # A password may hold one of "/?#".
    if "@" in host or (not is_host and ":" in host and "@" in rest):
        _refuse_user(scheme)
    if not is_host:
        raise OptionError(f"{text.partition('?')[0][:200]}: no host; write {scheme}://HOST/NAME")
    name = "" if host.startswith("[") else host.partition(":")[0].removesuffix(".")
    if name and not all(0 < len(label) < 64 for label in name.split(".")):
        why = f"{host!r} is not a name of a host: each part of it has 1 to 63 letters"
        raise OptionError(f"{text.partition('?')[0][:200]}: {why}")
    _check_parts(text.partition("?")[0], key)
    return RemoteUrl(scheme, host.lower(), key, query)


def _file_url(text: str, rest: str) -> RemoteUrl:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise OptionError(f"{text[:200]}: write file:///PATH for a local file")
    key = os.fsdecode(unquote_to_bytes("/" + path))
    if "\0" in key:
        raise OptionError(f"{text[:200]}: a path must not have a zero byte")
    return RemoteUrl("file", "", key)


def _check_parts(text: str, key: str) -> None:
    # Servers and libraries normalize such names in different ways.
    if any(part in ("", ".", "..") for part in key.removesuffix("/").split("/") if key):
        raise OptionError(f"{text[:200]}: a part of the name is empty, '.' or '..'")


def _refuse_user(scheme: str) -> NoReturn:
    raise OptionError(
        f"{scheme}://…@…: a URL must not contain a user or a password, because ps and logs would "
        "show them; set them in the environment, or in the files of the cloud"
    )
