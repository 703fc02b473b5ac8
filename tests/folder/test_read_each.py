"""read_each() finds unreadable records by bisection, and returns all others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.errors import ChecksumError
from ffrfs.folder.read_each import Bad, read_each


@given(st.lists(st.booleans(), max_size=40))
def test_good_items_are_returned_beside_bad_ones(are_bad: list[bool]) -> None:
    reads = 0

    def read(keys: Sequence[int]) -> list[str]:
        nonlocal reads
        reads += 1
        for key in keys:
            if are_bad[key]:
                raise ChecksumError(f"{key}")
        return [*map(str, keys)]

    keys = range(len(are_bad))
    found = read_each(keys, read)
    assert [one.error.args[0] if isinstance(one, Bad) else one for one in found] == [
        *map(str, keys)
    ]
    assert [isinstance(one, Bad) for one in found] == are_bad
    assert reads <= max(1, 2 * sum(are_bad) * len(are_bad).bit_length() + 1)


def test_other_errors_are_raised() -> None:
    def read(keys: Sequence[int]) -> list[int]:
        raise KeyError(len(keys))

    for keys in ([], [1], [1, 2]):
        with pytest.raises(KeyError):
            read_each(keys, read)
    with pytest.raises(KeyError):
        read_each([], read, lambda _: True)
    assert len(read_each([1, 2, 3], read, lambda _: True)) == 3
