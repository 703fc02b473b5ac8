"""The request of a plan: the plan has it, so that the same command recognises its plan.

Not here: planning (planning.py). Concurrency: immutable values.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, get_args

from ffrfs.cluster.piece import bad_plan, link_bytes
from ffrfs.errors import OptionError
from ffrfs.folder.tree import OnConflict
from ffrfs.packing.sources.options import PLANNED, PackOptions, PathType
from ffrfs.packing.sources.path_list import STANDARD_INPUT
from ffrfs.remote.paths import absolute
from ffrfs.remote.url import is_url, parse_url

# A local directory, one in a bucket, an archive, or packs.
Kind: TypeAlias = Literal["folder", "objects", "archive", "packs"]

_FLAGS = ("skip_special", "allow_missing", "dedup", "append")


@dataclass(frozen=True)
class Request:
    """Sources, target and options. Paths are absolute. Raises OptionError for contradictions."""

    sources: tuple[str, ...]
    target: str
    options: PackOptions  # the options that a plan has
    time_ns: int | None = None
    listed: str | None = None  # the digest of a list of paths, if only these are packed

    def __post_init__(self) -> None:
        if not self.sources:
            raise OptionError("a plan needs a directory, an archive, or packs")
        if self.options.shards is None and self.options.shard_size is None:
            raise OptionError("a plan needs shards or shard_size, one of them")

    @classmethod
    def of(
        cls, sources: PathType | Sequence[PathType], target: PathType, options: PackOptions
    ) -> Self:
        """Return the request of these arguments. Raises OptionError, PackError."""
        if sources == STANDARD_INPUT:
            raise OptionError("a plan cannot be of standard input: name a file")
        given = [sources] if isinstance(sources, str | os.PathLike) else sources
        planned = {name: getattr(options, name) for name in PLANNED}
        if options.append and options.shard_size is None:
            planned["shards"] = options.shards or 1
        return cls(
            tuple(absolute(os.fspath(source)) for source in given),
            absolute(os.fspath(target)),
            PackOptions(**{name: _plain(value) for name, value in planned.items()}),
            options.time_ns,
            options.listed.digest if options.listed else None,
        )

    def key(self, *listing: object) -> str:
        """Return a key of such a request and such a listing, which the manifest of the set has.

        It does not depend on the places of sources and set: equal sources make equal manifests.
        """
        values = replace(self, sources=("",), target="").fields()
        return hashlib.sha256(json.dumps([values, *listing]).encode()).hexdigest()

    @property
    def has_query(self) -> bool:
        """Return whether a source is a URL with a query, which may be a key."""
        return any(is_url(source) and parse_url(source).query for source in self.sources)

    def fields(self) -> dict[str, object]:
        options = {name: getattr(self.options, name) for name in PLANNED}
        return {
            **{name: value for name, value in vars(self).items() if name != "options"},
            **options,
        }

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Return the request of fields(). Raises KeyError, TypeError, ValueError otherwise."""
        # Plans of earlier versions lack some options.
        planned = {name: _plain(given[name]) for name in PLANNED if name in given}
        for name in ("include", "exclude"):
            if isinstance(planned[name], str):
                raise TypeError(name)
            for value in planned[name] or ():
                _text(value)
        if not all(type(planned.get(name, False)) is bool for name in _FLAGS):
            raise TypeError(_FLAGS)
        if planned.get("on_conflict", "error") not in get_args(OnConflict):
            raise ValueError("on_conflict")
        time_ns = given["time_ns"]
        if time_ns is not None and not (type(time_ns) is int and -(2**63) <= time_ns < 2**63):
            raise ValueError(time_ns)
        sources = tuple(map(_text, given["sources"]))
        target, options = _text(given["target"]), PackOptions(**planned)
        return cls(sources, target, options, time_ns, given.get("listed"))


@dataclass(frozen=True)
class Header:
    """The first record of a plan."""

    kind: Kind
    first_number: int  # 0, or the number of shards that the set has already
    set_id: str | None  # of the set to which shards are added
    request: Request

    def fields(self) -> dict[str, object]:
        return {**vars(self), "request": self.request.fields()}

    @classmethod
    def parse(cls, values: Mapping[str, Any], path: str) -> Self:
        """Return the header. Raises FormatError, naming the plan `path`, if it is damaged."""
        try:
            request = Request.parse(values["request"])
            kind, first = values["kind"], values["first_number"]
            if kind not in get_args(Kind) or type(first) is not int or not 0 <= first < 2**32:
                raise ValueError(kind)
            return cls(kind, first, values["set_id"], request)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise bad_plan(path, "its first record") from None


def _plain(value: Any) -> Any:  # noqa: ANN401 - of any option
    """Return the value as JSON in a plan has it."""
    if isinstance(value, str | int | None):
        return value
    return os.fspath(value) if isinstance(value, os.PathLike) else tuple(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    if "\0" in value:
        raise ValueError("no path and no pattern")
    link_bytes(value)  # raises UnicodeEncodeError
    return value
