"""What the tests of ffrfs.torch share."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest


@pytest.fixture
def workers_end() -> Iterator[None]:
    """Whoever starts workers ends them."""
    yield
    assert multiprocessing.active_children() == []
