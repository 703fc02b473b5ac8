"""`make docs`: no link is dead, and every public name is in the Python API."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT
from tests.interpreter import python

ADAPTERS = [f"ffrfs.adapters.{name}" for name in ("dask", "ray", "torch")]
PACKAGES = ["ffrfs", "ffrfs.cluster", "ffrfs.schema", "ffrfs.tfrecord", *ADAPTERS]
# Packages have these names, too: the page has the functions under the modules that define them.
DEFINED = {
    "ffrfs.convert": "ffrfs.convert.convert.convert",
    "ffrfs.mount": "ffrfs.mount.client.mounted.mount",
    "ffrfs.view": "ffrfs.view.view.view",
}
MODULE = "ffrfs.errors"
# Methods that a private base class defines.
INHERITED = {
    f"{reader}.{name}"
    for reader in ("ffrfs.FileReader", "ffrfs.tfrecord.TFRecordReader")
    for name in ("__len__", "__getitem__", "read", "read_one", "validate", "close")
}


def public_names(package: str) -> list[str]:
    tree = ast.parse((CHECKOUT / package.replace(".", "/") / "__init__.py").read_text())
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return [f"{package}.{name}" for name in names]


def test_every_public_name_is_in_the_site(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings_handlers.python", reason="the site needs mkdocs: make docs")
    done = python("-m", "mkdocs", "build", "--site-dir", tmp_path, cwd=CHECKOUT, timeout=110)
    assert done.returncode == 0, done.stderr
    shown = set(re.findall(r' id="(ffrfs\.[\w.]+)"', (tmp_path / "api.html").read_text()))
    public = {name for package in PACKAGES for name in public_names(package)} - {MODULE}
    assert shown >= INHERITED
    assert {name for name in public if DEFINED.get(name, name) not in shown} == set()
