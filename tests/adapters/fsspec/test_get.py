"""Runs fsspec's own tests of get() on packs of the trees that they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ffrfs
from tests.adapters.needed import needed

needed("fsspec")
abstract = needed("fsspec.tests.abstract")
PackFileSystem = needed("ffrfs.fsspec").PackFileSystem


class TestGet(abstract.AbstractFixtures, abstract.AbstractGetTests):
    # fsspec's test writes its tree itself; test_get_of_a_tree() takes its place.
    test_get_directory_recursive = None

    @pytest.fixture
    def fs_path(self) -> str:
        return ""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> Path:
        return tmp_path / "tree"

    @pytest.fixture
    def fs(self, tree: Path, request: pytest.FixtureRequest) -> Any:
        """The pack of the tree that one of the fixtures below asks for."""
        make = next(SCENARIOS[name] for name in SCENARIOS if name in request.fixturenames)
        local = abstract.LocalFileSystem(auto_mkdir=True)
        getattr(self, make)(local, lambda *parts: "/".join(map(str, parts)), tree)
        ffrfs.pack_folder(tree, tree.with_suffix(".ffr"))
        return PackFileSystem(tree.with_suffix(".ffr"))


SCENARIOS = {
    "fs_bulk_operations_scenario_0": "_bulk_operations_scenario_0",
    "fs_glob_edge_cases_files": "_glob_edge_cases_files",
    "fs_dir_and_file_with_same_name_prefix": "_dir_and_file_with_same_name_prefix",
    "fs_10_files_with_hashed_names": "_10_files_with_hashed_names",
}
for scenario in SCENARIOS:

    @pytest.fixture(name=scenario)
    def source(self: TestGet, fs: Any) -> str:
        return "source"

    setattr(TestGet, scenario, source)


def test_get_of_a_tree(pack: str, source: Path, tmp_path: Path) -> None:
    fs = PackFileSystem(pack)
    for into in ("new/one.txt", "new/b/one.txt"):  # get() copies into `new` if it exists
        fs.get("a/b", str(tmp_path / "new"), recursive=True)
        assert (tmp_path / into).read_bytes() == (source / "a/b/one.txt").read_bytes()
    fs.get("a/", str(tmp_path / "all"), recursive=True)
    assert (tmp_path / "all/two.txt").read_bytes() == (source / "a/two.txt").read_bytes()
    fs.get("large", str(tmp_path / "large"))
    assert (tmp_path / "large").read_bytes() == (source / "large").read_bytes()
