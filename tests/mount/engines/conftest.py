"""What an engine answers, over every way in which the kernel's requests come to it."""

from __future__ import annotations

import pytest

from tests import uring_switch
from tests.mount.command import ENGINES, WAYS
from tests.mount.makers import engine_of


@pytest.fixture(params=WAYS)
def engine(request: pytest.FixtureRequest, fuse: None) -> str:
    return engine_of(request)


@pytest.fixture
def ways(request: pytest.FixtureRequest, fuse: None) -> list[str]:
    """All that can be compared here."""
    if uring_switch.why_not() is not None and not uring_switch.is_required():
        return ENGINES
    request.getfixturevalue("uring")
    return WAYS
