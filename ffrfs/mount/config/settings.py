"""The settings of a mount that are not about its tree: their names, and what they may be.

They have one meaning wherever they stand: as a long option (--cache-mb 512), as a word of
`-o` and fstab (cache_mb=512), as a key of a configuration file (cache_mb = 512). Each gives
fields of MountRequest. What a tree looks like, and to whom, is in options.py.

No state: safe from any thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ffrfs.errors import OptionError

CACHE_MB_DEFAULT = 256
ENGINES = ("auto", "native", "pyfuse3")
THREADS_MAX = 16
PREFETCH_RECORDS_DEFAULT = 512
PREFETCH_BYTES_DEFAULT = 64 << 20
PREFETCH_TTL_S_DEFAULT = 60.0

_NUMBER = re.compile(r"[0-9]{1,18}")
_SIZE = re.compile(r"([0-9]{1,18})([KMGT]?)")
_SIZE_LIMIT_BYTES = 1 << 63
_TTL_LIMIT_S = 1_000_000_000

Fields = dict[str, Any]  # of MountRequest


def default_threads() -> int:
    """As many as there are cores for us, up to a limit."""
    return min(len(os.sched_getaffinity(0)), THREADS_MAX)


@dataclass(frozen=True)
class Setting:
    """One of them."""

    # Of its text, and the folder in which relative names begin ("": the working directory);
    # what is wrong with it is an OptionError that leaves it to the caller to name it.
    fields: Callable[[str, str], Fields]
    types: tuple[type, ...]  # of its value in a configuration file; bool: it has no text

    @property
    def is_flag(self) -> bool:
        return self.types == (bool,)


def _engine(text: str, _: str) -> Fields:
    if text not in ENGINES:
        raise OptionError(f"must be one of {', '.join(ENGINES)}")
    return {"engine": text}


def _threads(text: str, _: str) -> Fields:
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= THREADS_MAX:
        raise OptionError(f"must be 1 to {THREADS_MAX}")
    return {"threads": int(text)}


def _cache_mb(text: str, _: str) -> Fields:
    if not _NUMBER.fullmatch(text) or not 0 < int(text) << 20 < _SIZE_LIMIT_BYTES:
        raise OptionError("must be a number of MiB, at least 1")
    return {"cache_bytes": int(text) << 20}


def _max_memory(text: str, _: str) -> Fields:
    return {"max_memory_bytes": _size_bytes(text, "512M or 2G")}


def _prefetch_window(text: str, _: str) -> Fields:
    # In -o and fstab a comma ends a word: there a colon spares a backslash.
    records, comma, size = text.replace(":", ",", 1).partition(",")
    if not _NUMBER.fullmatch(records):
        raise OptionError("needs a number of records, as in 512,64M")
    fields = {"prefetch_records": int(records)}
    return fields | ({"prefetch_bytes": _size_bytes(size, "512,64M")} if comma else {})


def _prefetch_ttl(text: str, _: str) -> Fields:
    try:
        ttl_s = float(text)
    except ValueError:
        ttl_s = 0.0
    if not 0 < ttl_s <= _TTL_LIMIT_S:  # nor is NaN
        raise OptionError("must be a number of seconds over 0, and at most 1e9")
    return {"prefetch_ttl_s": ttl_s}


def _file(field: str) -> Callable[[str, str], Fields]:
    def fields(text: str, folder: str) -> Fields:
        if not text:
            raise OptionError("needs the name of a file")
        return {field: os.path.abspath(os.path.join(folder, text))}

    return fields


def _size_bytes(text: str, example: str) -> int:
    match = _SIZE.fullmatch(text)
    size_bytes = int(match[1]) << 10 * " KMGT".index(match[2] or " ") if match else 0
    if not 0 < size_bytes < _SIZE_LIMIT_BYTES:
        raise OptionError(f"needs a size in bytes, as in {example}")
    return size_bytes


SETTINGS: dict[str, Setting] = {
    "engine": Setting(_engine, (str,)),
    "threads": Setting(_threads, (int,)),
    "cache_mb": Setting(_cache_mb, (int,)),
    "max_memory": Setting(_max_memory, (str, int)),
    "prefetch_window": Setting(_prefetch_window, (str, int)),
    "prefetch_ttl": Setting(_prefetch_ttl, (int, float)),
    "no_extensions": Setting(lambda *_: {"extensions": False}, (bool,)),
    "log_file": Setting(_file("log_file"), (str,)),
    "metrics_file": Setting(_file("metrics_file"), (str,)),
    "config": Setting(_file("config_file"), (str,)),  # on the command line and in -o alone
}


def parse_setting(name: str, text: str, *, folder: str = "") -> Fields:
    """The fields of MountRequest that a setting gives; a flag's text is empty."""
    return SETTINGS[name].fields(text, folder)
