"""Numbers and sizes as arguments: within their limits, or an error that says these."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ffrfs.errors import OptionError
from ffrfs.sizes import parse_size

_DIGITS_MAX = 18


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a function for argparse's `type`."""
    limits = f"of at least {least}" if most is None else f"from {least} to {most:,}"

    def parse(text: str) -> int:
        is_number = text.isascii() and text.isdigit()
        if is_number and len(text) > _DIGITS_MAX:
            raise argparse.ArgumentTypeError(f"'{text}': has more than {_DIGITS_MAX} digits")
        if not is_number or int(text) < least or (most is not None and int(text) > most):
            raise argparse.ArgumentTypeError(f"'{text}': must be a number {limits}")
        return int(text)

    return parse


def size_bytes(text: str) -> int:
    """Return the size in bytes, for argparse's `type`."""
    try:
        return parse_size(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(f"{text}: {error}") from None
