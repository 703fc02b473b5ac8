"""The options of a mount that are not about its tree: each once, with its default and its help.

They mean the same everywhere: as a long option (--cache-mb 512), as a word of
`-o` and fstab (cache_mb=512), as a key of a configuration file (cache_mb = 512), and as a
parameter of ffrfs.mount(). The argument parser, help and manual pages are made of SETTINGS.
The options of the tree (owner, modes, who may read it) are in options.py.

No state: safe from any thread.
"""

from __future__ import annotations

# ruff: noqa: RUF009 - the calls are of field()
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from ffrfs.errors import OptionError
from ffrfs.mount.kernel.options import TreeKeywords
from ffrfs.remote.settings import TIMEOUT_MAX_S, CacheMode, check_cache_size, check_endpoint
from ffrfs.sizes import parse_size

CACHE_MB_DEFAULT = 256
THREADS_MAX = 16
_PREFETCH_RECORDS = 512
_PREFETCH_BYTES = 64 << 20
_PREFETCH_TTL_S = 60.0

# The groups of `--help`, with their titles; the last ones are rarely needed.
GROUPS = {
    "memory and reading ahead": (
        *("cache_mb", "max_memory", "prefetch_window", "read_around", "prefetch_ttl"),
    ),
    "packs at URLs, and the cache of their blocks": (
        *("cache_dir", "cache_size", "cache_mode", "cache_shared", "offline"),
        *("endpoint_url", "region", "anonymous", "remote_timeout"),
    ),
    "log and metrics": ("log_file", "metrics_file"),
    "rarely needed": ("engine", "transport", "threads", "no_extensions"),
}

_NUMBER = re.compile(r"[0-9]{1,18}")
_REGION = re.compile(r"[\w-]{1,64}", re.ASCII)
_SHELLS = re.compile(r"(~[\w-]*|\$\w+|\$\{\w+\})(/|$)")  # only a shell replaces these
_SIZE_LIMIT_BYTES = 1 << 63
_TTL_LIMIT_S = 1_000_000_000

PathType: TypeAlias = str | os.PathLike[str]
Engine = Literal["auto", "native", "pyfuse3"]
Transport = Literal["auto", "dev", "uring"]
ReadAround = Literal["auto", "on", "off"]
Fields = dict[str, Any]  # of MountOptions


class MountKeywords(TreeKeywords, total=False):
    """The keywords of ffrfs.mount() and mounted(); MountOptions says what each means."""

    engine: Engine | None
    transport: Transport | None
    threads: int | None
    cache_mb: int | None
    max_memory: int | str | None  # bytes, or a text as "2G"
    prefetch_window: int | str | None  # records, or "512,64M"
    read_around: ReadAround | None
    prefetch_ttl: float | None
    cache_dir: PathType | None
    cache_size: int | str | None
    cache_mode: CacheMode | None
    cache_shared: bool
    offline: bool
    endpoint_url: str | None
    region: str | None
    anonymous: bool
    remote_timeout: int | None
    extensions: bool
    log_file: PathType | None
    metrics_file: PathType | None
    config: PathType | None


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How an option is written, and how its text becomes fields of MountOptions."""

    # Takes the text, and the directory in which relative names begin ("": the working directory).
    # Raises an OptionError that does not name the option: the caller does.
    parse: Callable[[str, str], Any]
    name: str = ""  # "": the name of the field
    # Fields of MountOptions that get the value of parse(); several get a part of a tuple each.
    fields: tuple[str, ...] = ()
    types: tuple[type, ...] = (str,)  # in a configuration file; bool: a flag without text
    metavar: str | None = None
    choices: tuple[str, ...] | None = None
    help: str

    @property
    def is_flag(self) -> bool:
        return self.types == (bool,)


def _setting(default: object, **how: Any) -> Any:  # noqa: ANN401 - as dataclasses.field()
    """Return a field of MountOptions that has a Setting. `default`: a value, or its factory."""
    metadata = {"setting": Setting(**how)}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def _one_of(literal: object, **how: Any) -> Any:  # noqa: ANN401
    """Return a field that takes one of the words of `literal`; the first is its default."""
    choices = get_args(literal)

    def parse(text: str, _: str) -> str:
        if text not in choices:
            raise OptionError(f"must be one of {', '.join(choices)}")
        return text

    default = how.pop("default", choices[0])
    return _setting(default, parse=parse, choices=choices, **how)


def _flag(default: bool, **how: Any) -> Any:  # noqa: ANN401
    return _setting(default, parse=lambda *_: not default, types=(bool,), **how)


def _file(kind: str = "file") -> Callable[[str, str], str]:
    def parse(text: str, folder: str) -> str:
        if not text:
            raise OptionError(f"needs the name of a {kind}")
        if _SHELLS.match(text):  # else a directory of that name would be made
            whole = os.path.expandvars(os.path.expanduser(text))
            more = f" ({whole})" if whole != text else ""
            raise OptionError(f"neither ~ nor $ is replaced: write the whole path{more}")
        return os.path.abspath(os.path.join(folder, text))

    return parse


def _whole(most: int, must_be: str) -> Callable[[str, str], int]:
    """Return the number, which must be at least 1."""

    def parse(text: str, _: str) -> int:
        if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
            raise OptionError(f"must be {must_be}")
        return int(text)

    return parse


def _cache_bytes(text: str, folder: str) -> int:
    most = (_SIZE_LIMIT_BYTES - 1) >> 20
    return _whole(most, f"a number of MiB, at least 1 and at most {most:,}")(text, folder) << 20


def _prefetch_window(text: str, _: str) -> tuple[int, ...]:
    # In -o and fstab a comma ends a word, so a colon is allowed instead of a comma.
    records, comma, size = text.replace(":", ",", 1).partition(",")
    if not _NUMBER.fullmatch(records):
        raise OptionError("needs a number of records, as in 512,64M")
    return int(records), *([parse_size(size, example="512,64M")] if comma else [])


def _prefetch_ttl(text: str, _: str) -> float:
    try:
        ttl_s = float(text)
    except ValueError:
        ttl_s = 0.0
    if not 0 < ttl_s <= _TTL_LIMIT_S:  # also false for NaN
        raise OptionError("must be a number of seconds over 0, and at most 1e9")
    return ttl_s


def _max_memory(text: str, _: str) -> int:
    size = parse_size(text, example="512M or 2G")
    if size < 1 << 20:  # less than any process takes
        raise OptionError(f"is {size:,} bytes; write a unit, as in 512M or 2G")
    return size


def _cache_size(text: str, _: str) -> int:
    size = parse_size(text, example="500G")
    check_cache_size(size)
    return size


def _endpoint_url(text: str, _: str) -> str:
    check_endpoint(text)
    return text


def _region(text: str, _: str) -> str:
    if not _REGION.fullmatch(text):
        raise OptionError("must be the name of a region, as in eu-central-1")
    return text


def _config_file(text: str, folder: str) -> tuple[str, bool]:
    optional = text.startswith("-")  # as in EnvironmentFile= of systemd.exec(5)
    return _file()(text.removeprefix("-"), folder), optional


def default_threads() -> int:
    """Return the number of cores that this process may use, up to a limit."""
    return min(len(os.sched_getaffinity(0)), THREADS_MAX)


@dataclass(frozen=True, kw_only=True)
class MountOptions:
    """How a tree is served. None in a setting of packs at URLs: the default of RemoteSettings."""

    engine: Engine = _one_of(
        Engine,
        help="engine that serves the mount: native (C++), pyfuse3 (Python), or auto, which is "
        "native if it was built (default: auto)",
    )
    transport: Transport = _one_of(
        Transport,
        help="how the native engine gets the kernel's requests: dev (/dev/fuse; a worker that dies "
        "is replaced), uring (io_uring, where readers get an error then, and the daemon mounts "
        "anew), or auto, which is dev (default: auto)",
    )
    threads: int = _setting(
        default_threads,
        parse=_whole(THREADS_MAX, f"1 to {THREADS_MAX}"),
        types=(int,),
        metavar="N",
        help=f"threads of the native engine, 1 to {THREADS_MAX} (default: one per core)",
    )
    cache_bytes: int = _setting(
        CACHE_MB_DEFAULT << 20,
        name="cache_mb",
        parse=_cache_bytes,
        types=(int,),
        metavar="N",
        help=f"memory for all buffers together, in MiB (default: {CACHE_MB_DEFAULT})",
    )
    max_memory_bytes: int | None = _setting(  # of all processes together; None: no such limit
        None,
        name="max_memory",
        parse=_max_memory,
        types=(str, int),
        metavar="SIZE",
        help="memory limit of all processes of the mount together, as in 512M or 2G; the limit "
        "of their control group applies, too",
    )
    prefetch_records: int = _setting(  # read ahead of each reader; 0: none
        _PREFETCH_RECORDS,
        name="prefetch_window",
        fields=("prefetch_records", "prefetch_bytes"),
        parse=_prefetch_window,
        types=(str, int),
        metavar="RECORDS[,SIZE]",
        help="how far to read ahead of a reader, in records and bytes (64M, 1G); 0 disables it "
        f"(default: {_PREFETCH_RECORDS},{_PREFETCH_BYTES >> 20}M)",
    )
    prefetch_bytes: int = _PREFETCH_BYTES
    read_around: ReadAround = _one_of(
        ReadAround,
        help="if a program reads small files in no order, give the kernel their neighbours before "
        "it requests them; auto does so only while programs read them, too (default: auto)",
    )
    prefetch_ttl_s: float = _setting(  # after that, read-ahead bytes that were not read are dropped
        _PREFETCH_TTL_S,
        name="prefetch_ttl",
        parse=_prefetch_ttl,
        types=(int, float),
        metavar="SECONDS",
        help="drop data read ahead if no reader asks for it within SECONDS "
        f"(default: {_PREFETCH_TTL_S:g})",
    )
    cache_dir: str | None = _setting(  # local packs are cached too, if it is named
        None,
        parse=_file("directory"),
        metavar="DIR",
        help="keep fetched blocks in DIR; packs at local paths are cached too, for slow file "
        "systems (default: ~/.cache/ffrfs, for URLs only)",
    )
    cache_size: int | None = _setting(
        None,
        parse=_cache_size,
        types=(str, int),
        metavar="SIZE",
        help="limit of the cache directory, as in 500G (default: 20G)",
    )
    cache_mode: CacheMode | None = _one_of(
        CacheMode,
        default=None,
        help="full keeps fetched blocks; stream keeps nothing on disk (default: full)",
    )
    cache_shared: bool = _flag(
        False,
        help="use a cache directory to which a group may write: each member can then change the "
        "bytes that the others read",
    )
    offline: bool = _flag(
        False,
        help="read from the cache alone, and ask no server: a block that is not in the cache is an "
        "error",
    )
    endpoint_url: str | None = _setting(
        None,
        parse=_endpoint_url,
        metavar="URL",
        help="the server of s3://, gs:// or az:// (default: the cloud's own)",
    )
    region: str | None = _setting(
        None,
        parse=_region,
        metavar="REGION",
        help="region of S3 (default: the environment's)",
    )
    anonymous: bool = _flag(False, help="use no credentials, for public buckets")
    timeout_s: int | None = _setting(
        None,
        name="remote_timeout",
        parse=_whole(TIMEOUT_MAX_S, f"a number of seconds, 1 to {TIMEOUT_MAX_S}"),
        types=(int,),
        metavar="SECONDS",
        help="fail a read whose bytes do not come within SECONDS; later reads try again "
        "(default: 60)",
    )
    extensions: bool = _flag(  # files in a TFRecord's records have one: .jpg, .npy
        True,
        name="no_extensions",
        help="show features of TFRecord files without extensions (.jpg, .npy and the like)",
    )
    log_file: str | None = _setting(
        None,
        parse=_file(),
        metavar="FILE",
        help="log file of the daemon (default: a small file in its runtime directory, "
        "or standard error with -f)",
    )
    metrics_file: str | None = _setting(
        None,
        parse=_file(),
        metavar="FILE",
        help="write metrics to FILE every 15 seconds, for the textfile collector of Prometheus's "
        "node_exporter",
    )
    # Only on the command line and in -o. The file is read again when the daemon reloads.
    config_file: str | None = _setting(
        None,
        name="config",
        fields=("config_file", "config_is_optional"),
        parse=_config_file,
        metavar="FILE",
        help="read settings that are not on the command line from FILE, see below; PACK and "
        "MOUNTPOINT may be omitted if FILE has them; a single argument is MOUNTPOINT; -FILE (write "
        "--config=-FILE) may be missing",
    )
    config_is_optional: bool = False  # a missing file is no error


def _settings() -> Iterator[Setting]:
    for each in fields(MountOptions):
        if setting := each.metadata.get("setting"):
            own = setting.fields or (each.name,)
            yield replace(setting, name=setting.name or each.name, fields=own)


# By its name on the command line, in a file and in -o.
SETTINGS = {setting.name: setting for setting in _settings()}


def parse_setting(name: str, text: str, *, folder: str = "") -> Fields:
    """Return the fields of MountOptions that a setting gives; a flag's text is empty."""
    setting = SETTINGS[name]
    value = setting.parse(text, folder)
    # A tuple may be shorter: the other fields stay as they are.
    values = value if isinstance(value, tuple) else (value,)
    return dict(zip(setting.fields, values, strict=False))
