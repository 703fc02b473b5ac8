"""Fixtures that the tests of adapters share."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator

import pytest

from tests.adapters.other_process import Run, other_process
from tests.adapters.program_run import TORCH_PROGRAMS
from tests.folder.cut_samples import Sample, small_samples

# The fork server imports these once, because each of its processes would take seconds to.
multiprocessing.set_forkserver_preload(["torch.utils.data", "pytest"])
# Tests in these files use the fork server. One process of pytest-xdist runs them, with one server.
IN_FORKS = {
    *("test_examples", "test_from_tf_data", "test_mount", "test_names", "test_record_stream"),
    *("test_training", "test_two_stores", "test_workers"),
}


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    return small_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture
def workers_end() -> Iterator[None]:
    """A test ends all workers that it starts."""
    yield
    assert multiprocessing.active_children() == []


# It has module scope, because other tests check that no process is left.
@pytest.fixture(scope="module")
def in_dask() -> Iterator[Run]:
    """A cluster of Dask, started once for all tests of a module, in a process of its own."""
    with other_process("tests.adapters.dask.dask_process", "distributed", "ffrfs[dask]") as run:
        yield run


@pytest.fixture(scope="module")
def in_ray() -> Iterator[Run]:
    with other_process("tests.adapters.ray.ray_process", "ray", "ffrfs[ray]") as run:
        yield run


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Python 3.12 and later warn of workers that are forks, which many of these tests have.
    warning = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
    for item in items:
        if "/adapters/torch/" in item.nodeid:
            item.add_marker(warning)
        if item.path.stem in IN_FORKS or "forkserver" in item.name or "test_streams" in item.name:
            item.add_marker(TORCH_PROGRAMS)
        for large in {"in_dask", "in_ray"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(large))  # in one process of pytest-xdist
