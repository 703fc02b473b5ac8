"""A cluster of Dask, started once for all tests of this room, in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.other_process import Run, other_process, run_together


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    run_together(items, "in_dask")


# Of the module: other tests look for processes that were left.
@pytest.fixture(scope="module")
def in_dask() -> Iterator[Run]:
    with other_process("tests.adapters.dask.dask_process", "distributed", "ffrfs[dask]") as run:
        yield run
