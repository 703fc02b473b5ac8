"""PackPath passes universal_pathlib's own tests, which are in its source distribution.

`make check-loaders` fetches that distribution, because wheels have no tests.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import ffrfs
from tests.adapters.needed import needed
from tests.checkout import CHECKOUT

upath = needed("upath")
PackPath = needed("ffrfs.upath").PackPath

SOURCES = [*(CHECKOUT / "build/upath").glob(f"universal_pathlib-{upath.__version__}/upath")]
if not SOURCES and os.environ.get("CI") != "true":
    pytest.skip("universal_pathlib's tests are not here: make check-loaders", True)
upath.__path__.extend(map(str, SOURCES))
cases = importlib.import_module("upath.tests.cases")


# These fixtures replace those of its conftest.py, which imports packages for other file systems.
@pytest.fixture
def local_testdir(tmp_path: Path) -> str:
    tree = tmp_path / "tree"
    (tree / "folder1").mkdir(parents=True)
    for name in ("folder1/file1.txt", "folder1/file2.txt"):
        (tree / name).write_text(Path(name).name)
    for name in ("file1.txt", "file2.txt"):
        (tree / name).write_text("hello world")
    return str(tree)


@pytest.fixture
def pathlib_base(local_testdir: str) -> Path:
    return Path(local_testdir)


@pytest.fixture
def clear_fsspec_memory_cache() -> Iterator[None]:
    memory = importlib.import_module("fsspec.implementations.memory").MemoryFileSystem
    yield
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


class TestPackPath(cases.JoinablePathTests, cases.ReadablePathTests, cases.NonWritablePathTests):
    @pytest.fixture(autouse=True)
    def path(self, local_testdir: str, tmp_path: Path) -> Iterator[None]:
        ffrfs.pack_folder(local_testdir, tmp_path / "x.ffr")
        self.path = upath.UPath("ffr://", fo=str(tmp_path / "x.ffr"))
        yield
        type(self.path.fs).clear_instance_cache()

    def test_is_correct_class(self) -> None:
        assert type(self.path) is PackPath
