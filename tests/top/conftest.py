"""Fixtures of the tests of top: mounts, as the mount tests make them."""

from __future__ import annotations

from tests.mount.conftest import (
    as_ordinary_user,
    mount,
    new_mount,
    pack,
    pack_tree,
    places,
    root_user,
    tree,
)
from tests.mount.one_engine import engine

__all__ = [
    "as_ordinary_user",
    "engine",
    "mount",
    "new_mount",
    "pack",
    "pack_tree",
    "places",
    "root_user",
    "tree",
]
