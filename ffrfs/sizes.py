"""Sizes as people write them: 500M, 10g, 1000000.

No state: safe from any thread.
"""

from __future__ import annotations

import re

from ffrfs.errors import OptionError

_SIZE = re.compile(r"([0-9]{1,18})([KMGT]?)", re.IGNORECASE)
_LIMIT_BYTES = 1 << 63  # sizes in the kernel are signed numbers of 64 bits


def parse_size(text: str, *, example: str = "500M or 10G") -> int:
    """Return bytes; units are powers of 1024. Raises OptionError, which does not repeat `text`."""
    match = _SIZE.fullmatch(text)
    size_bytes = int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ") if match else 0
    if not 0 < size_bytes < _LIMIT_BYTES:
        raise OptionError(f"not a size; use for example {example}")
    return size_bytes
