"""The request of one `ffrfs mount`: the command line, which wins over a configuration file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ffrfs.errors import OptionError
from ffrfs.mount.config.config import Config, read_config
from ffrfs.mount.config.settings import SETTINGS, MountOptions
from ffrfs.mount.kernel.options import TreeOptions, parse_words
from ffrfs.remote.pace import ahead_blocks, flight_size, memory_cache_size
from ffrfs.remote.settings import RemoteSettings
from ffrfs.remote.url import RemoteUrl, is_url


@dataclass(frozen=True, kw_only=True)
class MountRequest(MountOptions):
    """A mount to make. Paths are absolute, because a daemon works in the root directory."""

    packs: tuple[str, ...]  # at least one; files, or directories of them, or their URLs
    signed: dict[str, str] = field(default_factory=dict, repr=False)  # as in Config; secret
    mountpoint: str  # canonical
    options: TreeOptions
    spec: str | None = None  # PACK1:PACK2, if the packs were named so
    splits: str = ""  # of an engine's packs, if TFDS has them (ffrfs/tfrecord/shown_splits.py)
    while_open: int | None = None  # a descriptor: the daemon unmounts when its other end closes
    is_filling: bool = False  # by `ffrfs prefetch --all`; the next daemon goes on with it
    asked: Config | None = None  # the Config of the command line alone, for reread()

    def volume_options(self) -> dict[str, Any]:
        """Return the keywords of _native.Volume, with which both engines open the tree."""
        return {
            "uid": self.options.uid,
            "gid": self.options.gid,
            "umask": self.options.umask,
            "cache_bytes": self.opening_cache_bytes,
            "extensions": self.extensions,
            "on_conflict": self.options.on_conflict,
            "allow_missing": self.options.allow_missing,
            "read_around": self.read_around,
            "prefetch_records": self.prefetch_records,
            "prefetch_bytes": self.prefetch_bytes,
            "prefetch_ttl_ms": max(round(self.prefetch_ttl_s * 1000), 1),
            **({"splits": self.splits} if self.splits else {}),
            **({"far_records": self._far_records()} if self.is_remote else {}),
        }

    def written(self, name: str) -> str:
        """Return how a setting that has a value begins: as an option, or as a key of the file."""
        own = self.asked.settings if self.asked else {}
        if self.config_file is None or any(field in own for field in SETTINGS[name].fields):
            return f"--{name.replace('_', '-')}"
        return f"{self.config_file}: {name} ="

    @property
    def is_remote(self) -> bool:
        """Return whether a fetcher brings bytes of the packs."""
        return self.cache_dir is not None or any(map(is_url, self.packs))

    def behind_cache(self) -> MountRequest:
        """Return the request with URLs for paths, if their blocks are cached."""
        return (
            self if self.cache_dir is None else replace(self, packs=tuple(map(_url_of, self.packs)))
        )

    def remote_settings(self) -> RemoteSettings:
        """Return the fetcher's settings. Raises OptionError: a wrong value in the environment."""
        named = {each.name: getattr(self, each.name) for each in fields(RemoteSettings)}
        named = {name: value for name, value in named.items() if value}
        return replace(RemoteSettings.from_environment(), **named)

    def _far_records(self) -> int:
        """Return how many records may be requested ahead: each may take a block of the cache."""
        settings = self.remote_settings()
        if settings.offline:
            return 0
        size = settings.cache_size
        if settings.cache_mode == "stream":
            size = memory_cache_size(flight_size(self.max_memory_bytes))
        return ahead_blocks(size)

    @property
    def opening_cache_bytes(self) -> int:
        """Return the cache size with which the engine is opened.

        It decides which parts of a TFRecord file can be shown and read at all, so it depends on
        the command line alone.
        """
        if self.max_memory_bytes is None:
            return self.cache_bytes
        return min(self.cache_bytes, self.max_memory_bytes // 2)

    @property
    def source(self) -> str:
        """Return the source, the first word in /proc/mounts."""
        return self.options.fsname or self.spec or self.packs[0]

    @property
    def title(self) -> str:
        """Return a few words that name the packs, for people."""
        first, *more = self.packs
        return f"{first} and {len(more)} more" if more else first


def _url_of(pack: str) -> str:
    if is_url(pack):
        return pack
    return RemoteUrl("file", "", pack + ("/" if os.path.isdir(pack) else "")).shown


def make_request(asked: Config, *, while_open: int | None = None) -> MountRequest:
    """Return the request of the command line and of the configuration file that it names, if any.

    The command line wins. Raises OptionError, and OSError if the file cannot be read.
    """
    under = _read_file_of(asked)
    named = asked if asked.packs else under
    if not named.packs:
        raise OptionError(f"{_file_of(asked)}no packs: name them there (packs = ...), or as PACK")
    request = MountRequest(
        packs=named.packs,
        signed=named.signed,
        mountpoint=_mountpoint(asked, under),
        options=parse_words([*under.words, *asked.words]),
        spec=named.spec,
        while_open=while_open,
        asked=asked,
        **(under.settings | asked.settings),
    )
    if request.transport == "uring" and request.engine == "pyfuse3":
        raise OptionError(
            f"{_file_of(asked)}transport uring needs the native engine, and the engine is pyfuse3"
        )
    return request


def find_mountpoint(asked: Config) -> str:
    """Return the mount point of `asked`. Raises as make_request() does."""
    return asked.mountpoint or _mountpoint(asked, _read_file_of(asked))


def _read_file_of(asked: Config) -> Config:
    """Return the Config of the configuration file that a command line names."""
    path: str | None = asked.settings.get("config_file")
    try:
        return Config() if path is None else read_config(path)
    except FileNotFoundError:
        if asked.settings["config_is_optional"]:
            return Config()
        raise


def _mountpoint(asked: Config, under: Config) -> str:
    place = asked.mountpoint or under.mountpoint
    if place is None:
        raise OptionError(f"{_file_of(asked)}no mountpoint: name it there, or as MOUNTPOINT")
    return place


def _file_of(asked: Config) -> str:
    """Return the beginning of an error that a change of the configuration file could mend."""
    path: str | None = asked.settings.get("config_file")
    return "" if path is None else f"{path}: "


def reread(request: MountRequest) -> MountRequest:
    """Return the request made again, because its configuration file may have changed."""
    if request.asked is None:
        return request
    return make_request(request.asked, while_open=request.while_open)
