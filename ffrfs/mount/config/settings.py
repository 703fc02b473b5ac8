"""The settings of a mount that are not about its tree: their names, and what they may be.

They mean the same everywhere: as a long option (--cache-mb 512), as a word of
`-o` and fstab (cache_mb=512), as a key of a configuration file (cache_mb = 512). Each gives
fields of MountRequest. The argument parser, help and manual pages are made of this table.
What a tree looks like, and to whom, is in options.py.

No state: safe from any thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ffrfs.errors import OptionError
from ffrfs.remote.settings import CACHE_MODES, TIMEOUT_MAX_S, check_cache_size, check_endpoint
from ffrfs.sizes import parse_size

CACHE_MB_DEFAULT = 256
ENGINES = ("auto", "native", "pyfuse3")
TRANSPORTS = ("auto", "dev", "uring")
READ_AROUND = ("auto", "on", "off")
THREADS_MAX = 16
PREFETCH_RECORDS_DEFAULT = 512
PREFETCH_BYTES_DEFAULT = 64 << 20
PREFETCH_TTL_S_DEFAULT = 60.0

_MEMORY = "memory and reading ahead"
_REMOTE = "packs at URLs, and the cache of their blocks"
_LOGS = "log and metrics"
RARE = "rarely needed"
GROUPS = (_MEMORY, _REMOTE, _LOGS, RARE)  # of options in help

_NUMBER = re.compile(r"[0-9]{1,18}")
_REGION = re.compile(r"[\w-]{1,64}", re.ASCII)
_SIZE_LIMIT_BYTES = 1 << 63
_TTL_LIMIT_S = 1_000_000_000

Fields = dict[str, Any]  # of MountRequest


def default_threads() -> int:
    """As many as there are cores for us, up to a limit."""
    return min(len(os.sched_getaffinity(0)), THREADS_MAX)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One of them."""

    # Of its text, and the directory in which relative names begin ("": the working directory);
    # what is wrong with it is an OptionError that leaves it to the caller to name it.
    parse: Callable[[str, str], Fields]
    fields: tuple[str, ...]  # of MountRequest, that parse() may give
    types: tuple[type, ...]  # of its value in a configuration file; bool: it has no text
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    group: str | None = None  # of GROUPS; None: one of the usual options
    help: str

    @property
    def is_flag(self) -> bool:
        return self.types == (bool,)


def _one_of(field: str, choices: tuple[str, ...]) -> Callable[[str, str], Fields]:
    def fields(text: str, _: str) -> Fields:
        if text not in choices:
            raise OptionError(f"must be one of {', '.join(choices)}")
        return {field: text}

    return fields


def _threads(text: str, _: str) -> Fields:
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= THREADS_MAX:
        raise OptionError(f"must be 1 to {THREADS_MAX}")
    return {"threads": int(text)}


def _cache_mb(text: str, _: str) -> Fields:
    if not _NUMBER.fullmatch(text) or not 0 < int(text) << 20 < _SIZE_LIMIT_BYTES:
        raise OptionError("must be a number of MiB, at least 1")
    return {"cache_bytes": int(text) << 20}


def _max_memory(text: str, _: str) -> Fields:
    return {"max_memory_bytes": parse_size(text, example="512M or 2G")}


def _prefetch_window(text: str, _: str) -> Fields:
    # In -o and fstab a comma ends a word: there a colon spares a backslash.
    records, comma, size = text.replace(":", ",", 1).partition(",")
    if not _NUMBER.fullmatch(records):
        raise OptionError("needs a number of records, as in 512,64M")
    fields = {"prefetch_records": int(records)}
    return fields | ({"prefetch_bytes": parse_size(size, example="512,64M")} if comma else {})


def _prefetch_ttl(text: str, _: str) -> Fields:
    try:
        ttl_s = float(text)
    except ValueError:
        ttl_s = 0.0
    if not 0 < ttl_s <= _TTL_LIMIT_S:  # nor is NaN
        raise OptionError("must be a number of seconds over 0, and at most 1e9")
    return {"prefetch_ttl_s": ttl_s}


def _cache_size(text: str, _: str) -> Fields:
    size = parse_size(text, example="500G")
    check_cache_size(size)
    return {"cache_size": size}


def _endpoint_url(text: str, _: str) -> Fields:
    check_endpoint(text)
    return {"endpoint_url": text}


def _region(text: str, _: str) -> Fields:
    if not _REGION.fullmatch(text):
        raise OptionError("must be the name of a region, as in eu-central-1")
    return {"region": text}


def _remote_timeout(text: str, _: str) -> Fields:
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= TIMEOUT_MAX_S:
        raise OptionError(f"must be a number of seconds, 1 to {TIMEOUT_MAX_S}")
    return {"remote_timeout_s": int(text)}


def _file(field: str, kind: str = "file") -> Callable[[str, str], Fields]:
    def fields(text: str, folder: str) -> Fields:
        if not text:
            raise OptionError(f"needs the name of a {kind}")
        return {field: os.path.abspath(os.path.join(folder, text))}

    return fields


def _config_file(text: str, folder: str) -> Fields:
    optional = text.startswith("-")  # as in EnvironmentFile= of systemd.exec(5)
    fields = _file("config_file")(text.removeprefix("-"), folder)
    return fields | {"config_is_optional": optional}


SETTINGS: dict[str, Setting] = {
    "engine": Setting(
        parse=_one_of("engine", ENGINES),
        fields=("engine",),
        types=(str,),
        choices=ENGINES,
        group=RARE,
        help="engine that serves the mount: native (C++), pyfuse3 (Python), or auto, which is "
        f"native if it was built (default: {ENGINES[0]})",
    ),
    "transport": Setting(
        parse=_one_of("transport", TRANSPORTS),
        fields=("transport",),
        types=(str,),
        choices=TRANSPORTS,
        group=RARE,
        help="how the native engine gets the kernel's requests: dev (/dev/fuse), uring (io_uring), "
        f"or auto, which is uring if the kernel offers it (default: {TRANSPORTS[0]})",
    ),
    "threads": Setting(
        parse=_threads,
        fields=("threads",),
        types=(int,),
        metavar="N",
        group=RARE,
        help=f"threads of the native engine, 1 to {THREADS_MAX} (default: one per core)",
    ),
    "cache_mb": Setting(
        parse=_cache_mb,
        fields=("cache_bytes",),
        types=(int,),
        metavar="N",
        group=_MEMORY,
        help=f"memory for all buffers together, in MiB (default: {CACHE_MB_DEFAULT})",
    ),
    "max_memory": Setting(
        parse=_max_memory,
        fields=("max_memory_bytes",),
        types=(str, int),
        metavar="SIZE",
        group=_MEMORY,
        help="memory limit of all processes of the mount together, as in 512M or 2G; the limit "
        "of their control group applies, too",
    ),
    "prefetch_window": Setting(
        parse=_prefetch_window,
        fields=("prefetch_records", "prefetch_bytes"),
        types=(str, int),
        metavar="RECORDS[,SIZE]",
        group=_MEMORY,
        help="how far to read ahead of a reader, in records and bytes (64M, 1G); 0 disables it "
        f"(default: {PREFETCH_RECORDS_DEFAULT},{PREFETCH_BYTES_DEFAULT >> 20}M)",
    ),
    "read_around": Setting(
        parse=_one_of("read_around", READ_AROUND),
        fields=("read_around",),
        types=(str,),
        choices=READ_AROUND,
        group=_MEMORY,
        help="give the kernel the neighbours of small files that are read in no order, before "
        "they are asked for; auto does so while it sees that they are read, too "
        f"(default: {READ_AROUND[0]})",
    ),
    "prefetch_ttl": Setting(
        parse=_prefetch_ttl,
        fields=("prefetch_ttl_s",),
        types=(int, float),
        metavar="SECONDS",
        group=_MEMORY,
        help="drop data read ahead if no reader asks for it within SECONDS "
        f"(default: {PREFETCH_TTL_S_DEFAULT:g})",
    ),
    "cache_dir": Setting(
        parse=_file("cache_dir", "directory"),
        fields=("cache_dir",),
        types=(str,),
        metavar="DIR",
        group=_REMOTE,
        help="keep fetched blocks in DIR; packs at local paths are cached too, for slow file "
        "systems (default: ~/.cache/ffrfs, for URLs only)",
    ),
    "cache_size": Setting(
        parse=_cache_size,
        fields=("cache_size",),
        types=(str, int),
        metavar="SIZE",
        group=_REMOTE,
        help="limit of that directory, as in 500G (default: 20G)",
    ),
    "cache_mode": Setting(
        parse=_one_of("cache_mode", CACHE_MODES),
        fields=("cache_mode",),
        types=(str,),
        choices=CACHE_MODES,
        group=_REMOTE,
        help=f"full keeps fetched blocks; stream keeps nothing on disk (default: {CACHE_MODES[0]})",
    ),
    "cache_shared": Setting(
        parse=lambda _text, _folder: {"cache_shared": True},
        fields=("cache_shared",),
        types=(bool,),
        group=_REMOTE,
        help="use that directory though a group may write to it: its members then decide what "
        "each of them reads",
    ),
    "endpoint_url": Setting(
        parse=_endpoint_url,
        fields=("endpoint_url",),
        types=(str,),
        metavar="URL",
        group=_REMOTE,
        help="the server of s3://, gs:// or az:// (default: the cloud's own)",
    ),
    "region": Setting(
        parse=_region,
        fields=("region",),
        types=(str,),
        metavar="REGION",
        group=_REMOTE,
        help="region of S3 (default: the environment's)",
    ),
    "anonymous": Setting(
        parse=lambda *_: {"anonymous": True},
        fields=("anonymous",),
        types=(bool,),
        group=_REMOTE,
        help="use no credentials, for public buckets",
    ),
    "remote_timeout": Setting(
        parse=_remote_timeout,
        fields=("remote_timeout_s",),
        types=(int,),
        metavar="SECONDS",
        group=_REMOTE,
        help="fail a read whose bytes do not come within SECONDS; later reads try again "
        "(default: 60)",
    ),
    "no_extensions": Setting(
        parse=lambda *_: {"extensions": False},
        fields=("extensions",),
        types=(bool,),
        group=RARE,
        help="show features of TFRecord files without extensions (.jpg, .npy and the like)",
    ),
    "log_file": Setting(
        parse=_file("log_file"),
        fields=("log_file",),
        types=(str,),
        metavar="FILE",
        group=_LOGS,
        help="log file of the daemon (default: a small file in its runtime directory, "
        "or standard error with -f)",
    ),
    "metrics_file": Setting(
        parse=_file("metrics_file"),
        fields=("metrics_file",),
        types=(str,),
        metavar="FILE",
        group=_LOGS,
        help="write metrics to FILE every 15 seconds, for the textfile collector of Prometheus's "
        "node_exporter",
    ),
    # On the command line and in -o alone.
    "config": Setting(
        parse=_config_file,
        fields=("config_file", "config_is_optional"),
        types=(str,),
        metavar="FILE",
        help="read settings that are not on the command line from FILE, see below; PACK and "
        "MOUNTPOINT may be omitted if FILE has them; a single argument is MOUNTPOINT; -FILE (write "
        "--config=-FILE) may be missing",
    ),
}


def parse_setting(name: str, text: str, *, folder: str = "") -> Fields:
    """The fields of MountRequest that a setting gives; a flag's text is empty."""
    return SETTINGS[name].parse(text, folder)


def may_be_secret(text: str) -> bool:
    """Whether a wrong value may hold a password or a key, which no message repeats."""
    return "@" in text or "?" in text
