"""What a plan was asked for: it is in the plan, so that the same command finds its own.

Not here: what is done with it (planning.py). Concurrency: values that do not change.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self, TypeAlias, get_args

from ffrfs.errors import FormatError, OptionError
from ffrfs.packing.sources.contents import Symlinks
from ffrfs.remote.url import is_url, parse_url

# A local directory, one in a bucket, or packs.
Kind: TypeAlias = Literal["folder", "objects", "packs"]

_TUPLES = ("sources", "include", "exclude")


@dataclass(frozen=True)
class Request:
    """As plan(); paths are absolute. Raises OptionError for what contradicts itself."""

    sources: tuple[str, ...]
    target: str
    shards: int | None = None
    shard_size: int | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    symlinks: Symlinks | None = None
    skip_special: bool = False
    order: str | None = None
    time_ns: int | None = None
    append: bool = False

    def __post_init__(self) -> None:
        if not self.sources:
            raise OptionError("a plan needs a directory, or packs")
        if (self.shards is None) == (self.shard_size is None):
            raise OptionError("a plan needs shards or shard_size, one of them")
        for name, value in (("shards", self.shards), ("shard_size", self.shard_size)):
            if value is not None and value < 1:
                raise OptionError(f"{name} must be at least 1, not {value}")
        if self.symlinks is not None and self.symlinks not in get_args(Symlinks):
            known = ", ".join(get_args(Symlinks))
            raise OptionError(f"symlinks must be one of {known}, not {self.symlinks!r}")

    def key(self, *listing: object) -> str:
        """Return what says that a set was completed by such a request, from such a listing.

        Wherever the sources and the set are: equal sources make equal manifests.
        """
        options = asdict(replace(self, sources=("",), target=""))
        return hashlib.sha256(json.dumps([options, *listing]).encode()).hexdigest()

    @property
    def has_query(self) -> bool:
        """A source is a URL with a query, which may be a key."""
        return any(is_url(source) and parse_url(source).query for source in self.sources)

    def shown_symlinks(self, kind: Kind) -> Symlinks:
        """What becomes of links: those of packs are kept, unless it is said otherwise."""
        return self.symlinks or ("keep" if kind == "packs" else "inside")


@dataclass(frozen=True)
class Header:
    """The first record of a plan."""

    kind: Kind
    first_number: int  # of the shards: 0, or how many the set has that they are added to
    set_id: str | None  # of a set that is added to
    request: Request

    @property
    def symlinks(self) -> Symlinks:
        return self.request.shown_symlinks(self.kind)

    def fields(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def parse(cls, values: Mapping[str, Any], path: str) -> Self:
        """Raises FormatError, naming the plan `path`, for what fields() never gives."""
        try:
            given = dict(values["request"])
            for name in _TUPLES:
                given[name] = None if given[name] is None else tuple(map(_text, given[name]))
            request = Request(**{field.name: given[field.name] for field in fields(Request)})
            _text(request.target)
            kind, first = values["kind"], values["first_number"]
            if kind not in get_args(Kind) or type(first) is not int or not 0 <= first < 2**32:
                raise ValueError(kind)
            if request.time_ns is not None and not -(2**63) <= request.time_ns < 2**63:
                raise ValueError(request.time_ns)
            return cls(kind, first, values["set_id"], request)
        except (KeyError, TypeError, ValueError):
            raise FormatError.at(path, "bad plan: its first record; make the plan again") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
