"""Reads a bucket without ffrfs."""

from __future__ import annotations

import obstore
from obstore.store import S3Store


def objects(store: S3Store, folder: str = "") -> dict[str, bytes]:
    """Return name below `folder` → content, in the order of the names."""
    start = f"{folder}/" if folder else ""
    names = sorted(meta["path"] for chunk in obstore.list(store, start) for meta in chunk)
    return {name.removeprefix(start): bytes(obstore.get(store, name).bytes()) for name in names}
