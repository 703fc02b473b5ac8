"""Readers of a mount that go on until the test ends them, and notice errors and wrong bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tests.mount import probes
from tests.mount.child import Child, child
from tests.mount.command import Mount, wait_until

READER_COUNT = 4


@contextmanager
def readers_at_work(tree: Mount, folder: str, contents: Mapping[str, bytes]) -> Iterator[None]:
    """Run readers that ask the worker for every byte; an error or a wrong byte fails the test."""
    with ExitStack() as stack:
        readers: list[Child] = []
        for seed in range(READER_COUNT):
            reader = child(probes.read_directly_until_it_fails, tree / folder, contents, seed)
            readers.append(stack.enter_context(reader))
        for reader in readers:
            assert reader.next() == "going"
            reader.ask_next()
        wait_for_reads(tree)
        yield
        wait_for_reads(tree)
        assert not any(reader.has_answered() for reader in readers)


def wait_for_reads(tree: Mount) -> None:
    before = tree.requests_now()["read"]
    wait_until(lambda: tree.requests_now()["read"] > before + 20, "they read")
