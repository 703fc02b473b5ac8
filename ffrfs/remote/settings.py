"""Settings for reading URLs: where the servers are, how long to wait, where the cache is.

No setting is a secret, so they may be on a command line, in a state file and in a log. Credentials
come from the environment and the files of each cloud (store.py).

Not here: the options of the commands (ffrfs.cli.remote_options, ffrfs.mount.config).
Concurrency: values that do not change.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, get_args

from ffrfs.errors import OptionError
from ffrfs.sizes import parse_size

GIB = 1 << 30
CACHE_SIZE_MIN = 16 << 20
CacheMode = Literal["full", "stream"]
CACHE_MODES = get_args(CacheMode)
TIMEOUT_MAX_S = 86400
_YES = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}


@dataclass(frozen=True)
class RemoteSettings:
    """Settings of a fetcher. `cache_dir` None: the user's cache directory, default_cache_dir().

    `cache_shared`: other users may write to the cache, and are trusted. `offline`: nothing is
    requested of a server; blocks in the cache can be read.
    """

    endpoint_url: str | None = None
    region: str | None = None
    anonymous: bool = False
    timeout_s: float = 60.0
    cache_dir: str | None = None
    cache_size: int = 20 * GIB
    cache_mode: str = "full"
    cache_shared: bool = False
    offline: bool = False

    def __post_init__(self) -> None:
        """Check the values. Raises OptionError if one is wrong."""
        if self.endpoint_url is not None:
            check_endpoint(self.endpoint_url)
        if not 0.1 <= self.timeout_s <= TIMEOUT_MAX_S:
            raise OptionError(
                f"the timeout must be 0.1 to {TIMEOUT_MAX_S} seconds, not {self.timeout_s}"
            )
        check_cache_size(self.cache_size)
        if self.cache_mode not in CACHE_MODES:
            modes = " or ".join(CACHE_MODES)
            raise OptionError(f"the cache mode must be {modes}, not {self.cache_mode!r}")
        if self.offline and self.cache_mode != "full":
            raise OptionError("offline: the cache mode must be full, because the cache is all")

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the settings. Raises OptionError if `text` is not from to_json()."""
        fields = json.loads(text)
        expected = {field.name: field.type for field in dataclasses.fields(cls)}
        if not isinstance(fields, dict) or not fields.keys() <= expected.keys():
            raise OptionError("the settings of packs at URLs are those of another version")
        for name, value in fields.items():
            kind = type(value).__name__.replace("NoneType", "None")
            kinds = str(expected[name]).split(" | ")
            if kind not in kinds and not (kind == "int" and "float" in kinds):
                raise OptionError(f"{name} must be {expected[name]}, not {value!r}")
        return cls(**fields)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return settings from FFRFS_CACHE_DIR and so on; unset variables give the defaults."""
        env = os.environ if environ is None else environ

        def text(name: str) -> str | None:
            return env.get(f"FFRFS_{name}") or None

        return cls(
            endpoint_url=text("ENDPOINT_URL"),
            region=text("REGION"),
            anonymous=_yes(text("ANONYMOUS") or "", "FFRFS_ANONYMOUS"),
            timeout_s=_seconds(text("REMOTE_TIMEOUT") or "60", "FFRFS_REMOTE_TIMEOUT"),
            cache_dir=text("CACHE_DIR"),
            cache_size=_size(text("CACHE_SIZE") or "20G", "FFRFS_CACHE_SIZE"),
            cache_mode=text("CACHE_MODE") or "full",
            cache_shared=_yes(text("CACHE_SHARED") or "", "FFRFS_CACHE_SHARED"),
            offline=_yes(text("OFFLINE") or "", "FFRFS_OFFLINE"),
        )


def default_cache_dir(environ: Mapping[str, str] | None = None) -> str:
    env = os.environ if environ is None else environ
    base = env.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path is ignored.
    return os.path.join(base if base.startswith("/") else os.path.expanduser("~/.cache"), "ffrfs")


def check_cache_size(size: int) -> None:
    """Raise OptionError if the cache would be too small."""
    if size < CACHE_SIZE_MIN:
        raise OptionError(f"a cache needs at least {CACHE_SIZE_MIN >> 20}M, not {size:,} bytes")


def check_endpoint(url: str) -> None:
    """Raise OptionError, whose text has no part of a URL with a user, nor any query."""
    if not re.fullmatch(r"https?://[\w.\-\[\]:]+(/[\w.~/-]*)?", url, re.ASCII):
        shown = "a URL with an @" if "@" in url else repr(url.partition("?")[0][:200])
        raise OptionError(
            f"{shown} is not an endpoint; write https://HOST[:PORT], without user and query"
        )


def _yes(text: str, name: str) -> bool:
    if text.lower() not in _YES:
        raise OptionError(f"{name} must be 1 or 0, not {text!r}")
    return _YES[text.lower()]


def _size(text: str, name: str) -> int:
    try:
        return parse_size(text)
    except OptionError as error:
        raise OptionError(f"{name}={text}: {error}") from None


def _seconds(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{name} must be a number of seconds, not {text!r}") from None
