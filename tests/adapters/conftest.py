"""Fixtures of the tests of adapters: samples of packs, which are small."""

from __future__ import annotations

import multiprocessing

import pytest

from tests.folder.cut_samples import Sample, small_samples

# Once for all processes that a test process starts that way, each of which takes seconds to.
multiprocessing.set_forkserver_preload(["torch.utils.data", "pytest"])


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sample]:
    return small_samples(tmp_path_factory.mktemp("samples"))
