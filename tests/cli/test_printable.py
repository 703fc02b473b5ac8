"""Names in messages: one line, whatever is in them, and no terminal obeys them."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.printable import printable, quoted


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a\xff\xfeb", r"a\xff\xfeb"),  # not UTF-8
        ("ÿ \x80 \x1b \u202e \n".encode(), r"ÿ \u0080 \x1b \u202e \n"),
        ("\ud800".encode("utf-8", "surrogatepass"), r"\xed\xa0\x80"),
    ],
)
def test_bytes_and_control_characters_are_escaped(name: bytes, shown: str) -> None:
    assert printable(os.fsdecode(name)) == shown
    assert quoted(os.fsdecode(name)) == f"'{shown}'"


@given(st.binary())
def test_any_name_is_one_printable_line(name: bytes) -> None:
    text = os.fsdecode(name)
    assert printable(text).isprintable()
    assert (printable(text) == text) == text.isprintable()
