"""Programs that fork in the middle of a read, or while they give hints."""

from __future__ import annotations

import os
import signal

import pytest

from tests.mount import forking, probes
from tests.mount.child import child
from tests.mount.command import Mount, wait_until
from tests.mount.hinted_files import (
    COUNT,
    DIGESTS,
    NAMES,
    SOON_S,
    figures,
    hinted,
    settled,
    shuffled,
    texts,
)

PATHS = [f"d/{name}" for name in NAMES]
DIGESTS_OF_PATHS = {f"d/{name}": digest for name, digest in DIGESTS.items()}
FORK_COUNT = 30

SERVED_BY = ["native"]  # code above the engines knows whose hints they are
pytestmark = pytest.mark.promise("S36")


@pytest.fixture
def tree(hinted_tree: Mount) -> Mount:
    return hinted_tree


def test_fork_between_reads(tree: Mount) -> None:
    with hinted(tree, texts(shuffled(1))), hinted(tree, texts(shuffled(2))):
        misread, statuses = tree.ask(forking.fork_while_reading, "d", DIGESTS, 4, FORK_COUNT)
    assert misread == []
    assert statuses == [0] * FORK_COUNT


def test_fork_between_hints(tree: Mount) -> None:
    assert tree.ask(forking.fork_while_hinting, "", PATHS, FORK_COUNT) == [0] * FORK_COUNT
    assert tree.ask(probes.misread, "d", DIGESTS, NAMES) == []


def is_dropped(tree: Mount) -> bool:
    found = figures(tree)
    return found["prefetch.dropped"] == COUNT and found["cache_bytes"] == 0


@pytest.mark.promise("S33")
@pytest.mark.parametrize("act", ["closes", "reads", "sleeps", "executes"])
def test_hints_stay_with_their_process_after_a_fork(tree: Mount, act: str) -> None:
    with child(forking.hint_and_fork, tree / "", PATHS, DIGESTS_OF_PATHS, act) as client:
        assert client.next() is True
        assert settled(tree)["prefetch.fetched"] == COUNT
        assert client.next() in (0, None)
        found = settled(tree)
        assert found["prefetch.hit"] == (20 if act == "reads" else 0)
        assert found["prefetch.dropped"] == 0
        assert found["cache_bytes"] > 0
        assert client.next() == "closed"
        wait_until(lambda: figures(tree)["cache_bytes"] == 0, "they are dropped", SOON_S)
    assert settled(tree)["prefetch.dropped"] == COUNT - found["prefetch.hit"]


@pytest.mark.promise("S33")
@pytest.mark.parametrize("act", ["sleeps", "executes"])
def test_hints_end_with_their_process_although_its_child_lives(tree: Mount, act: str) -> None:
    with child(forking.hint_and_fork, tree / "", PATHS, DIGESTS_OF_PATHS, act) as client:
        assert client.next() is True
        assert client.next() is None
        wait_until(lambda: figures(tree)["prefetch.fetched"] == COUNT, "all was read ahead")
        os.kill(client.pid, signal.SIGKILL)
        wait_until(lambda: is_dropped(tree), "they are dropped", SOON_S)


def test_forked_child_can_give_its_own_hints(tree: Mount) -> None:
    with child(forking.hint_and_fork, tree / "", PATHS, DIGESTS_OF_PATHS, "hints") as client:
        assert client.next() is True
        wait_until(lambda: figures(tree)["prefetch.hinted"] == COUNT, "all are known")
        assert client.next() == 0
        found = settled(tree)
        assert (found["prefetch.hinted"], found["prefetch.dropped"]) == (COUNT + 20, 20)
        assert found["cache_bytes"] > 0
