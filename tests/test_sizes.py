"""Sizes as people write them."""

from __future__ import annotations

import pytest

from ffrfs.errors import OptionError
from ffrfs.sizes import parse_size


@pytest.mark.parametrize("text", ["500G", "500g"])
def test_units_are_powers_of_1024(text: str) -> None:
    assert parse_size(text) == 500 << 30


def test_a_number_of_bytes() -> None:
    assert parse_size("1000000") == 1_000_000


REFUSED = ["", "G", "-1", "0", "1.5G", "1X", "1GB", " 1", "1 G", "9" * 10 + "T", "1" * 30, "\u0661"]


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"^not a size; use for example 64M$"):
        parse_size(text, example="64M")
