"""What the tests of adapters share."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest

from tests.folder.cut_samples import Sample, small_samples

# Once for all processes that a test process starts that way, each of which takes seconds to.
multiprocessing.set_forkserver_preload(["torch.utils.data", "pytest"])


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    return small_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture
def workers_end() -> Iterator[None]:
    """Whoever starts workers ends them."""
    yield
    assert multiprocessing.active_children() == []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Python 3.12 and later warn of workers that are forks, which many of these tests have."""
    warning = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
    for item in items:
        if "/adapters/torch/" in item.nodeid:
            item.add_marker(warning)
