"""The package's front: the reference's names, and nothing loaded before it is used."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

import ffrfs as ffrecord
from ffrfs import errors
from ffrfs.errors import FfrfsError
from tests.checkout import CHECKOUT
from tests.interpreter import python


@pytest.mark.parametrize("name", ffrecord.__all__)
def test_every_public_name_is_available(name: str) -> None:
    value = getattr(ffrecord, name)
    assert getattr(ffrecord, name) is value
    assert name in dir(ffrecord)


def test_names_of_the_reference_are_public() -> None:
    reference = {"FileReader", "FileWriter", "PackedFolder", "checkFsAlign", "dump", "pack_folder"}
    assert reference <= set(ffrecord.__all__)
    assert ffrecord.errors.FfrfsError is FfrfsError


def test_every_exception_is_public() -> None:
    kinds = {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, Exception)
        and value.__module__ == errors.__name__
    }
    assert FfrfsError in kinds.values()
    assert {name: getattr(ffrecord, name, None) for name in kinds} == kinds
    assert kinds.keys() <= set(ffrecord.__all__)


def test_dir_shows_only_public_names() -> None:
    program = "import ffrfs; print(*dir(ffrfs)); import ffrfs.tfrecord; print(*dir(ffrfs))"
    before, after = run(program).splitlines()
    assert before.split() == sorted(ffrecord.__all__)
    assert after.split() == sorted([*ffrecord.__all__, "tfrecord"])


def test_editors_see_every_name() -> None:
    tree = ast.parse((CHECKOUT / "ffrfs" / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = [
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted([*seen, "__version__"]) == sorted(ffrecord.__all__) == ffrecord.__all__


@pytest.mark.long
@pytest.mark.parametrize(
    "first",
    [
        "ffrfs",
        "ffrfs.mount",
        "ffrfs.mount.client.hints",
        "ffrfs.mount.daemon.daemon",
        "ffrfs.convert",
        "ffrfs.convert.convert",
    ],
)
def test_functions_that_share_the_name_of_a_package(first: str) -> None:
    program = (
        f"import {first}; import ffrfs; from ffrfs import mount, convert, prefetch\n"
        "import ffrfs.mount, ffrfs.convert, ffrfs.mount.kernel.state, ffrfs.convert.kind\n"
        "for name, one in ('mount', mount), ('convert', convert):\n"
        "    print(getattr(ffrfs, name) is one, one.__module__.partition('.')[0])"
    )
    assert run(program).splitlines() == ["True ffrfs"] * 2


def run(program: str) -> str:
    done = python("-c", program, cwd=CHECKOUT, check=True)
    return done.stdout


def test_unknown_names_raise_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ffrecord.nonsense


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert ffrecord.__version__ == project["version"]


def test_direct_reads_are_not_aligned_by_ordinary_file_systems(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with (tmp_path / "x").open("rb") as file:
        assert ffrecord.checkFsAlign(file.fileno()) is False
    assert ffrecord.checkFsAlign(-1) is False
