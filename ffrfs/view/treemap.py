"""A treemap: areas in proportion to sizes, as square as can be (Bruls, Huizing, van Wijk 2000).

Concurrency: a function without state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Area(NamedTuple):
    x: float
    y: float
    width: float
    height: float


def squarified(sizes: Sequence[float], area: Area) -> Iterator[Area]:
    """Yield an area for each of the sizes, which are above 0 and begin with the largest."""
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
