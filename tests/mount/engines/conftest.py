"""What an engine answers, over every way in which the kernel's requests come to it."""

from __future__ import annotations

import pytest

from tests.mount.command import WAYS
from tests.mount.makers import engine_of, ways_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test over all WAYS, those of its own, or those that its module's SERVED_BY has.

    What lies above the transports, or above the engines, is the same for each of them.
    """
    own = (mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "engine" in metafunc.fixturenames and not any("engine" in names for names in own):
        served_by = getattr(metafunc.module, "SERVED_BY", WAYS)
        metafunc.parametrize("engine", served_by, indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest, fuse: None) -> str:
    return engine_of(request)


@pytest.fixture
def ways(request: pytest.FixtureRequest, fuse: None) -> list[str]:
    """All that can be compared here."""
    return ways_of(request)
