"""Two containers of one user, each of which makes a mount at the same place."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from tests.cluster.test_recipes import (
    EXPECTED,
    RECIPES,
    TIMEOUT_S,
    Done,
    Node,
    digest_of,
    in_container,
    node,
    place,
)
from tests.mount.command import wait_until

__all__ = ["in_container", "node", "place"]  # fixtures


def test_apptainer_mounts_of_two_containers_at_one_place(
    node: Node, in_container: Callable[..., Done]
) -> None:
    """The first one ends while the second one has its mount."""
    place = node.place
    with_mount = (RECIPES / "apptainer" / "with-mount.sh", place / "web/set", place / "mnt")

    def job(number: int) -> str:
        waiting = f"until [ -e {place}/end-{number} ]; do sleep 0.1; done"
        return f"touch {place}/begun-{number}; {waiting}; {digest_of(place / 'mnt')}"

    def has_begun(number: int, job: Future[Done]) -> bool:
        return (place / f"begun-{number}").exists() or job.done()

    def daemons() -> set[str]:
        return set(node.run("pgrep", "-f", "while-open").out.split())

    with ThreadPoolExecutor(2) as pool:
        jobs = []
        try:
            first: set[str] = set()
            for number in (1, 2):
                first = daemons()
                jobs.append(pool.submit(in_container, *with_mount, "sh", "-c", job(number)))
                wait_until(partial(has_begun, number, jobs[-1]), "the job begins")
            assert first
            (place / "end-1").touch()
            assert jobs[0].result(TIMEOUT_S) == (0, EXPECTED)
            wait_until(lambda: not first & daemons(), "the first daemon has ended")
        finally:
            for number in (1, 2):
                (place / f"end-{number}").touch()
        assert jobs[1].result(TIMEOUT_S) == (0, EXPECTED)
