"""Stores that a program names for some URLs: endpoint, region, no credentials.

    in_store("s3://bucket/a.ffr", {"endpoint_url": "http://localhost:9000"})
    →  "s3://endpoint_url=http:%2F%2Flocalhost:9000@bucket/a.ffr"

So the store goes wherever the URL goes: to the fetcher, to forked and spawned workers. parse_url()
refuses such a URL unless it was made here, in this process: a text from elsewhere must not send
credentials to a server of its choice.

Not here: credentials, which settings never have (store.py).
Concurrency: any thread.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, overload
from urllib.parse import parse_qsl, quote, urlencode

from ffrfs.errors import OptionError
from ffrfs.printable import shown_name
from ffrfs.remote.url import RemoteUrl, admit_store, parse_url

if TYPE_CHECKING:  # `import ffrfs` needs no settings
    from ffrfs.remote.settings import RemoteSettings

PathType = str | os.PathLike[str]
_CLOUDS = ("s3", "gs", "az")
# Names of fsspec, s3fs and obstore, and ours.
_NAMES = {"endpoint_url": "a string", "region": "a string", "anonymous": "True or False"}
_SAME = {"anon": "anonymous", "skip_signature": "anonymous", "region_name": "region"}


class StoreKeywords(TypedDict, total=False):
    """Keywords of everything that opens URLs; None: as the environment says.

    `endpoint_url`: the server of s3://, gs:// or az://. `anonymous`: use no credentials.
    `storage_options`: the same as fsspec and pandas have them ("anon", "client_kwargs", …).
    """

    endpoint_url: str | None
    region: str | None
    anonymous: bool | None
    storage_options: Mapping[str, Any] | None


class StoreUrl(str):
    """A URL with its store; another process that unpickles it may use the store, too."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return _unpickled, (str(self),)


@overload
def in_store(path: PathType, keywords: StoreKeywords) -> PathType: ...
@overload
def in_store(
    path: PathType | Sequence[PathType], keywords: StoreKeywords
) -> PathType | Sequence[PathType]: ...
def in_store(
    path: PathType | Sequence[PathType], keywords: StoreKeywords
) -> PathType | Sequence[PathType]:
    """Return `path`, or several paths, with the store. Raises OptionError."""
    if not keywords:
        return path
    chosen = _chosen(keywords)
    if not isinstance(path, str | os.PathLike):
        return [_with_store(one, chosen) if chosen else one for one in path]
    return _with_store(path, chosen) if chosen else path


def settings_for(url: RemoteUrl, settings: RemoteSettings) -> RemoteSettings:
    """Return the settings of the URL's store: those of the process, except for those it names."""
    if not url.store:
        return settings
    fields: dict[str, Any] = dict(parse_qsl(url.store))
    if "anonymous" in fields:
        fields["anonymous"] = fields["anonymous"] == "1"
    return dataclasses.replace(settings, **fields)


def kept_in_store(url: str) -> str:
    """Return `url` as a StoreUrl if it names a store, as one made from a StoreUrl does."""
    return StoreUrl(url) if "@" in url.partition("://")[2].partition("/")[0] else url


def admit(url: str) -> None:
    """Let parse_url() take the URL with its store. Only for texts of this process or its parent."""
    store, at, _ = url.partition("://")[2].partition("/")[0].rpartition("@")
    if at:
        admit_store(store)


def _unpickled(url: str) -> StoreUrl:
    admit(url)
    return StoreUrl(url)


def _with_store(path: PathType, chosen: dict[str, str]) -> StoreUrl:
    name = os.fspath(path)
    scheme, begin, rest = name.partition("://")
    if not begin or scheme.lower() not in _CLOUDS:
        raise OptionError(
            f"{shown_name(name)}: {', '.join(chosen)}: these are for s3://, gs:// and az://, not "
            "for this"
        )
    parse_url(name)
    store = urlencode(chosen, safe=":", quote_via=quote)
    admit_store(store)
    return StoreUrl(f"{scheme}://{store}@{rest}")


def _chosen(keywords: StoreKeywords) -> dict[str, str]:
    """Return the values as texts, in the order of their names."""
    given: dict[str, Any] = {**keywords}
    options: dict[str, Any] = dict(given.pop("storage_options", None) or {})
    options |= options.pop("client_kwargs", None) or {}
    unknown = given.keys() - _NAMES
    if unknown:
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}")
    named: dict[str, Any] = {_SAME.get(name, name): value for name, value in options.items()}
    unknown = named.keys() - _NAMES
    if unknown:
        raise OptionError(
            f"storage_options: {min(unknown)} is not known (endpoint_url, region and anonymous "
            "are); credentials come from the environment and the files of the cloud"
        )
    # A keyword comes before an option.
    both = named | {name: value for name, value in given.items() if value is not None}
    chosen = {name: both[name] for name in sorted(both) if both[name] is not None}
    for name, value in chosen.items():
        if not isinstance(value, bool if name == "anonymous" else str):
            raise OptionError(f"{name} is {_NAMES[name]}, not {value!r:.40}")
    from ffrfs.remote.settings import RemoteSettings

    RemoteSettings(**chosen)  # raises OptionError for a wrong value
    if "anonymous" in chosen:
        chosen["anonymous"] = str(int(chosen["anonymous"]))
    return chosen
