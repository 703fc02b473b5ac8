"""The fixtures of these tests: a directory to pack, and engines.

An engine starts when a test first needs it, and serves all, also a pytest that a test starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster import engines
from tests.cluster.engines import Engine
from tests.cluster.trees import make_tree


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of an engine run in one process of pytest-xdist, so that it is started once."""
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {})
        names = {*map(values.get, ("executor_text", "engine")), *getattr(item, "fixturenames", ())}
        for engine in ("dask", "ray"):
            if names & {engine, f"{engine}_engine"}:
                item.add_marker(pytest.mark.xdist_group(engine))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The place of a set that is not made yet."""
    return tmp_path / "set"


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture(scope="session")
def dask_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engines.outer("dask") or engines.dask(tmp_path_factory.mktemp("dask")) as engine:
        yield engine


@pytest.fixture(scope="session")
def ray_head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engines.outer("ray") or engines.ray(tmp_path_factory.mktemp("ray")) as engine:
        yield engine


@pytest.fixture
def ray_engine(ray_head: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The way to Ray is in the environment of one test: other tests have a Ray of their own."""
    for name, value in ray_head.environment.items():
        monkeypatch.setenv(name, value)
    return ray_head


@pytest.fixture
def executor_text(request: pytest.FixtureRequest) -> str:
    """The text of a running engine for --executor, by its name: "processes", "dask" or "ray"."""
    if request.param == "processes":
        return "processes:2"
    engine: Engine = request.getfixturevalue(f"{request.param}_engine")
    return engine.text
