"""What the package imports is declared in pyproject.toml, not had by way of something else."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.house import sources

OURS = {"ffrfs", "ffrecord"}  # the latter in ffrfs/adapters/compat/original-names
# By what is imported. What is not installed here is taken to be called as it is imported.
DISTRIBUTIONS = packages_distributions()


def declared() -> set[str]:
    """The distributions that a user of ffrfs has, or may have; not those of tests and examples."""
    project = tomllib.loads(sources.text(Path("pyproject.toml")))["project"]
    lists = [project["dependencies"]]
    lists += [
        names
        for extra, names in project["optional-dependencies"].items()
        if extra not in ("test", "demo", "docs") and not extra.startswith("check-")
    ]
    words = [re.split(r"[^\w.-]", name)[0] for names in lists for name in names]
    return set(map(normalized, words))


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_import_is_declared() -> None:
    known = declared() | {"typing-extensions"}  # for type checkers alone, which bring it
    strangers = {
        f"{path} imports {top}"
        for path in sources.files(".py", ".pyi", below="ffrfs")
        for _, module in sources.imports(path)
        if (top := module.partition(".")[0]) not in {*OURS, *sys.stdlib_module_names}
        and known.isdisjoint(map(normalized, DISTRIBUTIONS.get(top, [top])))
    }
    assert strangers == set()
