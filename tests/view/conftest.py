"""Fixtures of the viewer's tests: a server of a data set, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ffrfs.view.view import view
from tests.view.pages import Pages

Serve = Callable[..., Pages]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """serve(source, **options of view()): its pages, until the test ends."""
    with ExitStack() as served:

        def begin(source: Any, **options: Any) -> Pages:
            return Pages(served.enter_context(view(source, **options)).url)

        yield begin
