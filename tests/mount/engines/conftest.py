"""What an engine answers, over every way in which the kernel's requests come to it."""

from __future__ import annotations

import pytest

from tests.mount.command import WAYS
from tests.mount.makers import engine_of, ways_of


@pytest.fixture(params=WAYS)
def engine(request: pytest.FixtureRequest, fuse: None) -> str:
    return engine_of(request)


@pytest.fixture
def ways(request: pytest.FixtureRequest, fuse: None) -> list[str]:
    """All that can be compared here."""
    return ways_of(request)
