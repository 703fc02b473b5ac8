"""The engine of tests of what both engines share: the native one, unless a test names others.

Not here: the tests of what each engine does for itself (tests/mount/engines), which run by both,
or by those that their module names. A test elsewhere is marked `by_both` (makers.py) where
its path leads through an engine's own code.
"""

from __future__ import annotations

import pytest

from tests.mount.makers import engine_of


@pytest.fixture
def engine(request: pytest.FixtureRequest, fuse: None) -> str:
    return engine_of(request) if hasattr(request, "param") else "native"
