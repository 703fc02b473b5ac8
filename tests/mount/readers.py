"""Readers of a mount that go on until the test ends them, and notice errors and wrong bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.mount import probes
from tests.mount.child import Child, child
from tests.mount.command import Mount, wait_until

READER_COUNT = 4


@contextmanager
def reading(
    tree: Mount,
    folder: str,
    contents: Mapping[str, bytes],
    probe: Callable[..., Iterator[Any]] = probes.read_directly_until_it_fails,
) -> Iterator[list[Child]]:
    """Run readers that ask the worker for every byte; yield them when all are reading."""
    with ExitStack() as stack:
        readers = [
            stack.enter_context(child(probe, tree / folder, contents, seed))
            for seed in range(READER_COUNT)
        ]
        for reader in readers:
            assert reader.next() == "going"
            reader.ask_next()
        wait_for_reads(tree)
        yield readers


@contextmanager
def readers_at_work(tree: Mount, folder: str, contents: Mapping[str, bytes]) -> Iterator[None]:
    """Run readers as reading() does; an error or a wrong byte fails the test."""
    with reading(tree, folder, contents) as readers:
        yield
        wait_for_reads(tree)
        assert not any(reader.has_answered() for reader in readers)


def wait_for_reads(tree: Mount) -> None:
    before = tree.requests_now()["read"]
    wait_until(lambda: tree.requests_now()["read"] > before + 20, "they read")
