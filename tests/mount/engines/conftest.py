"""Fixtures for tests of an engine's answers, over every way by which requests reach it."""

from __future__ import annotations

import pytest

from tests.mount.command import WAYS
from tests.mount.makers import engine_of, ways_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test over all WAYS, over its own ones, or over those in its module's SERVED_BY.

    Code above the transports, or above the engines, is the same for each of them.
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
    """All the ways that work on this machine, to be compared."""
    return ways_of(request)
