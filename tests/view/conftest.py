"""Fixtures of the viewer's tests: a server of a data set, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ffrfs.view.view import view
from tests.ffrecord_file import write_folder
from tests.mount.conftest import engine, mount, new_mount, pack_tree, places
from tests.view.examples import packed
from tests.view.pages import Pages

__all__ = ["engine", "mount", "new_mount", "pack_tree", "places"]

Serve = Callable[..., Pages]
ViewOf = Callable[..., Any]


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """A pack of one file."""
    return packed(tmp_path / "p.ffr", {"a": b"secret"})


@pytest.fixture
def serve() -> Iterator[Serve]:
    """serve(source, **options of view()) returns its pages, which end with the test."""
    with ExitStack() as served:

        def begin(source: Any, **options: Any) -> Pages:
            return Pages(served.enter_context(view(source, **options)).url)

        yield begin


@pytest.fixture
def view_of(tmp_path: Path, serve: Serve) -> ViewOf:
    """view_of(name, data, **parameters) returns the view of this file, and the page as "html"."""

    def shown(name: str, data: bytes, **parameters: object) -> Any:
        pages = serve(write_folder(tmp_path / "x.ffr", {name: data}))
        answer = pages.get("/item", key=name, **parameters)
        assert answer.status == 200
        return pages.data("/item", key=name, **parameters)["view"] | {"html": answer.text}

    return shown


@pytest.fixture
def pages(serve: Serve, pack: Path) -> Pages:
    return serve(pack)
