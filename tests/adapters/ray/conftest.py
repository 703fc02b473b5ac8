"""Ray, started once for all tests of this room, in a process of its own."""

from __future__ import annotations

import functools
import importlib.util
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from tests.adapters.ray.calls import call
from tests.folder.cut_samples import Sample, small_samples

# Calls a function of ray_process.py by its name, with what it takes.
Run = Callable[..., Any]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "in_ray" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("ray-data"))


@pytest.fixture(scope="session")
def ray_installed() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("there is no ray here (pip install 'ffrfs[ray]')")


# Of the module: other tests look for processes that were left.
@pytest.fixture(scope="module")
def in_ray(ray_installed: None) -> Iterator[Run]:
    spawn = multiprocessing.get_context("spawn")
    start = functools.partial(call, "start")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=start) as process:

        def run(name: str, *arguments, **options):
            return process.submit(call, name, *arguments, **options).result()

        yield run
        run("stop")


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    return small_samples(tmp_path_factory.mktemp("samples"))
