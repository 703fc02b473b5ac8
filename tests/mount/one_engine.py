"""The engine for tests of code that both engines share: the native one, unless a test names
others.

Not here: the tests of each engine's own code (tests/mount/engines), which run with both, or with
the engines that their module names. A test elsewhere is marked `by_both` (makers.py) if it
reaches an engine's own code.
"""

from __future__ import annotations

import pytest

from tests.mount.makers import engine_of


@pytest.fixture
def engine(request: pytest.FixtureRequest, fuse: None) -> str:
    return engine_of(request) if hasattr(request, "param") else "native"
