"""The sizes, types and folders of a pack's files, by one pass over its index; folders as a treemap.

No record is read. Names are hostile: the number of types and folders that are kept has a limit.
Concurrency: one thread for each survey.
"""

from __future__ import annotations

import math
import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ffrfs.mount.stats import units
from ffrfs.printable import printable

if TYPE_CHECKING:
    from ffrfs.folder.tree import PackTree
    from ffrfs.view.job import Job

_LIST_COUNT = 4096
_TYPES_MAX, _TYPES_SHOWN = 1000, 50
_FOLDERS_MAX = 50_000
_AREA_COUNT, _INNER_COUNT = 24, 300
_OTHERS = "(others)"


class Area(NamedTuple):
    x: float
    y: float
    width: float
    height: float


@dataclass
class Sum:
    count: int = 0
    size: int = 0

    def add(self, count: int, size: int) -> None:
        self.count += count
        self.size += size


def _sums() -> defaultdict[str, Sum]:
    return defaultdict(Sum)


@dataclass
class Survey:
    """`folders`: of one or two levels below `top`, each with all that is below it."""

    top: str = ""
    whole: Sum = field(default_factory=Sum)
    by_bits: dict[int, Sum] = field(default_factory=lambda: defaultdict(Sum))
    types: dict[str, Sum] = field(default_factory=_sums)
    folders: dict[tuple[str, ...], Sum] = field(default_factory=lambda: defaultdict(Sum))


def survey(tree: PackTree, job: Job[Survey]) -> Survey:
    """Return the sums of all files. Links are left out: their targets count."""
    found = Survey()
    stack: list[tuple[int, tuple[str, ...]]] = [(tree.folder_ino(""), ())]
    at_top = True
    while stack:
        ino, names = stack.pop()
        inside, here = _list(tree, ino, found, job)
        if at_top and len(inside) == 1 and not here.count:
            found.top = "/".join(filter(None, (found.top, inside[0][1])))
            stack.append((inside[0][0], ()))
            continue
        at_top = False
        key = names if names in found.folders or len(found.folders) < _FOLDERS_MAX else (_OTHERS,)
        found.folders[key].add(here.count, here.size)
        stack += [(below, (*names, name) if len(names) < 2 else names) for below, name in inside]
    return found


def _list(
    tree: PackTree, ino: int, found: Survey, job: Job[Survey]
) -> tuple[list[tuple[int, str]], Sum]:
    """Return the directories in the directory `ino`, and the sum of its files."""
    inside: list[tuple[int, str]] = []
    here = Sum()
    start = 0
    while entries := tree.volume.list(ino, start, _LIST_COUNT):
        start += len(entries)
        known_count = len(inside)
        for name, attributes in entries:
            if stat.S_ISDIR(attributes.mode):
                inside.append((attributes.ino, os.fsdecode(name)))
            elif stat.S_ISREG(attributes.mode):
                size = attributes.size
                here.add(1, size)
                found.by_bits[size.bit_length()].add(1, size)
                ending = _type(name)
                known = ending in found.types or len(found.types) < _TYPES_MAX
                found.types[ending if known else _OTHERS].add(1, size)
        job.tick(len(entries) - (len(inside) - known_count))
    found.whole.add(here.count, here.size)
    return inside, here


def _type(name: bytes) -> str:
    stem, _, ending = name.rpartition(b".")
    return f".{os.fsdecode(ending).lower()}" if stem and 0 < len(ending) <= 12 else "(none)"


def size_label(bits: int) -> str:
    """Return the sizes that need so many bits."""
    return f"{units.size(1 << bits - 1)} to {units.size(1 << bits)}" if bits else "0 B"


def shown(found: Survey) -> dict[str, Any]:
    most = max((one.count for one in found.by_bits.values()), default=1)
    bits = range(min(found.by_bits, default=0), max(found.by_bits, default=-1) + 1)
    types = sorted(found.types.items(), key=lambda item: -item[1].size)
    return {
        "count": found.whole.count,
        "size": found.whole.size,
        "sizes": [
            {
                "label": size_label(bit),
                "count": (count := found.by_bits[bit].count if bit in found.by_bits else 0),
                "share": count / most,
            }
            for bit in bits
        ],
        "types": [
            {"type": printable(name), "count": one.count, "size": one.size}
            for name, one in types[:_TYPES_SHOWN]
        ],
        "more_types": max(len(types) - _TYPES_SHOWN, 0),
        "folders": _areas(found),
    }


def _areas(found: Survey) -> list[dict[str, Any]]:
    """Return the folders below the top, the largest first, with their areas in a treemap.

    "" is the name of the files that are in no folder below, and None that of the rest.
    """
    outer: dict[str, Sum] = {}
    inner: dict[str, dict[str, Sum]] = {}
    for names, one in found.folders.items():
        name, below = (*names, "", "")[:2]
        outer.setdefault(name, Sum()).add(one.count, one.size)
        inner.setdefault(name, {}).setdefault(below, Sum()).add(one.count, one.size)
    return [
        {
            "path": None if name is None else "/".join(filter(None, (found.top, name))),
            "name": name,
            "count": one.count,
            "size": one.size,
            "area": area,
            "inside": [
                {"name": below, "size": part.size, "area": place}
                for below, part, place in (_placed(inner[name], _inner_count(area)) if name else ())
            ],
        }
        for name, one, area in _placed(outer, _AREA_COUNT)
    ]


def _inner_count(area: Area) -> int:
    return max(int(_INNER_COUNT * area.width * area.height), 4)


def _placed(sums: dict[str, Sum], most: int) -> list[tuple[str | None, Sum, Area]]:
    """Return the largest with their areas; the rest is one, without a name."""
    ordered = sorted((item for item in sums.items() if item[1].size), key=lambda one: -one[1].size)
    largest: list[tuple[str | None, Sum]] = [*ordered[:most]]
    rest = Sum()
    for _, one in ordered[most:]:
        rest.add(one.count, one.size)
    if rest.size:
        largest.append((None, rest))
        largest.sort(key=lambda one: -one[1].size)
    places = squarified([one.size for _, one in largest], Area(0, 0, 1, 1))
    return [(name, one, place) for (name, one), place in zip(largest, places, strict=True)]


def squarified(sizes: Sequence[float], area: Area) -> Iterator[Area]:
    """Yield areas in proportion to the sizes, which are above 0 and begin with the largest.

    They are as square as can be (Bruls, Huizing, van Wijk 2000).
    """
    first = 0
    while first < len(sizes):
        x, y, width, height = area
        left = sum(sizes[first:])
        side, scale = min(width, height), width * height / left
        if not scale:  # too little is left beside the first for any area
            yield from [area] * (len(sizes) - first)
            return
        worst, total, count = math.inf, 0.0, 0
        for size in sizes[first:]:
            thick = (total + size) * scale / side
            lengths = (sizes[first] * scale / thick, size * scale / thick)
            ratio = max(max(thick / length, length / thick) for length in lengths)
            if ratio > worst:
                break
            worst, total, count = ratio, total + size, count + 1
        share, along = total / left, 0.0
        for size in sizes[first : first + count]:
            part = size / total
            if width >= height:
                yield Area(x, y + along * height, share * width, part * height)
            else:
                yield Area(x + along * width, y, part * width, share * height)
            along += part
        if first + count == len(sizes):
            return
        if width >= height:
            area = Area(x + share * width, y, (1 - share) * width, height)
        else:
            area = Area(x, y + share * height, width, (1 - share) * height)
        first += count
