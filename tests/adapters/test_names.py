"""Users' names such as `ffrfs.compat` and the names in older pickles give the same objects."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.adapters.program_run import run_forked
from tests.interpreter import python

NAMES = {
    "compat": ("ffrfs.compat", "install"),
    "fsspec": ("ffrfs.fsspec", "PackFileSystem"),
    "upath": ("ffrfs.upath", "PackPath"),
    "webdataset": ("ffrfs.webdataset", "PackSamples"),
    "grain": ("ffrfs.grain", "PackSource"),
    "dask": ("ffrfs.dask.bag", "from_packs"),
    "ray": ("ffrfs.ray.datasource", "PackDatasource"),  # in ray/test_read_packs.py
    "torch": ("ffrfs.torch.subset", "Subset"),
}
IMPORTING_TORCH = ("torch", "webdataset")


def program_of(adapter: str) -> str:
    """Return a program that prints "True True" if both names give one object."""
    module, name = NAMES[adapter]
    pickled = f"c{module}\n{name}\n.".encode()
    return (
        f"import pickle; found = pickle.loads({pickled!r})\n"
        f"import ffrfs.{adapter}, ffrfs.adapters.{adapter} as own, {module}\n"
        f"print(ffrfs.{adapter} is own, {module}.{name} is found is own.{name})"
    )


@pytest.mark.parametrize("adapter", [name for name in NAMES if name != "ray"])
def test_both_names_give_one_object(adapter: str) -> None:
    if adapter != "compat" and find_spec(adapter) is None:
        pytest.skip(f"{adapter} is not here")
    program = program_of(adapter)
    if adapter in IMPORTING_TORCH:
        said = run_forked(exec, program)
    else:
        said = python("-W", "ignore", "-c", program, check=True).stdout
    assert said == "True True\n"
