"""What the tests of ffrfs.torch share."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest

# Once for all workers that a test process starts that way, each of which takes seconds to.
multiprocessing.set_forkserver_preload(["torch"])


@pytest.fixture
def workers_end() -> Iterator[None]:
    """Whoever starts workers ends them."""
    yield
    assert multiprocessing.active_children() == []
