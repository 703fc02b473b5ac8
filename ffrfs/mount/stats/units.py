"""Numbers in few characters: "312.4", "1.2 GiB", "33 us", "3h12m"; "-" for None.

No state; any thread.
"""

from __future__ import annotations

import math

NONE = "-"


def megabytes(size_bytes: float | None) -> str:
    """Return the size in units of a million bytes, without the unit."""
    if size_bytes is None:
        return NONE
    mb = size_bytes / 1e6
    return f"{mb:,.0f}" if mb >= 1000 or not size_bytes else f"{mb:.1f}" if mb >= 0.1 else "<0.1"


def number(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,.0f}" if value >= 10 or not value else f"{value:.1f}"


def size(size_bytes: float | None) -> str:
    """Return a size as "512 B", "64.1 MiB"."""
    if size_bytes is None:
        return NONE
    units = iter(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
    unit = next(units)
    while size_bytes >= 999.5:  # so that there are three digits at most
        size_bytes /= 1024
        unit = next(units)
    return f"{size_bytes:.{0 if unit == 'B' or size_bytes >= 99.95 else 1}f} {unit}"


def time(time_us: float | None) -> str:
    if time_us is None:
        return NONE
    if time_us < 1000:
        return f"{math.ceil(time_us)} us"
    if time_us < 1_000_000:
        return f"{time_us / 1000:.{0 if time_us >= 99_950 else 1}f} ms"
    return f"{time_us / 1_000_000:.1f} s"


def percent(share: float | None) -> str:
    """Return the share, rounded down: 100 % means all."""
    return NONE if share is None else f"{math.floor(100 * share + 1e-9)}%"


def age(time_s: float | None) -> str:
    """Return the two largest units, as in "3d04h"."""
    if time_s is None:
        return NONE
    minutes, seconds = divmod(int(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02}h"
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"
