"""Packs that are overwritten, cut and replaced under their mounts, while several programs
read them in seven ways: each byte read is the byte that was packed, or there is an error.

This takes seconds, or minutes with FFRFS_SOAK. FFRFS_SOAK_SEED repeats the same acts.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.conftest import MakeMount, check_nothing_left
from tests.hostile.doubter import differences, doubt
from tests.hostile.random_tree import KINDS, make_trial
from tests.hostile.vandal import Vandal, Victim
from tests.mount.child import Child, ask, child
from tests.mount.command import ENGINES, ffrfs
from tests.soak.scale import IS_LONG, TEST_TIMEOUT_S

READERS = 6 if IS_LONG else 2
RAGE_S = 60.0 if IS_LONG else 0.6
ANSWER_TIMEOUT_S = 60.0
LONGEST_S = 20.0  # each reader verifies a record of 4 MiB again, on two busy cores
CACHE_MB = "16"  # so that the mount keeps little
# Both engines share the code under test, so the other engine has two kinds only: a tree that is
# there from the beginning, and one whose folders are made from records.
TRIALS = [*(("native", kind) for kind in KINDS), ("pyfuse3", "shards"), ("pyfuse3", "tfrecord")]
ALL_TRIALS = list(itertools.product(ENGINES, KINDS))


def results_of(readers: list[Child]) -> list[dict[str, Any]]:
    for reader in readers:
        reader.signal_end()
    return [reader.answer(ANSWER_TIMEOUT_S) for reader in readers]


@pytest.mark.timeout(TEST_TIMEOUT_S)
@pytest.mark.promise("S3", "S10", "S12", "S13")
@pytest.mark.parametrize(("engine", "kind"), ALL_TRIALS if IS_LONG else TRIALS, indirect=["engine"])
def test_no_wrong_byte_while_the_pack_changes(
    mount_as: MakeMount, engine: str, kind: str, tmp_path: Path, seed: int
) -> None:
    trial = make_trial(kind, tmp_path / "trial", seed)
    mounted = trial.files[0].parent if kind == "shards" else trial.files[0]
    victims = [Victim(file, others) for file, others in zip(trial.files, trial.others, strict=True)]
    tree = mount_as(engine, mounted, "--cache-mb", CACHE_MB)
    tree.expect_log("cannot ")
    if kind == "tfrecord":  # an unread record may be another sound one (S27)
        assert ask(differences, str(tree.path), str(trial.model), timeout_s=ANSWER_TIMEOUT_S) == []
    vandal = Vandal(victims, seed)
    with ExitStack() as stack:
        readers = [
            stack.enter_context(child(doubt, str(tree.path), str(trial.model), seed + number))
            for number in range(READERS)
        ]
        for reader in readers:
            assert reader.next() == "ready"
            reader.ask_next()
        vandal.rage(RAGE_S)
        results = results_of(readers)
    print(f"acts: {dict(vandal.acts)}")
    for result in results:
        print(result)
    assert [fault for result in results for fault in result["faults"]] == []
    assert max(result["longest_s"] for result in results) < LONGEST_S
    assert tree.is_served
    assert tree.worker is None or tree.worker.is_alive()
    vandal.wipe_all()
    assert ask(differences, str(tree.path), str(trial.model), timeout_s=ANSWER_TIMEOUT_S) != []
    vandal.make_all_whole()
    assert ask(differences, str(tree.path), str(trial.model), timeout_s=ANSWER_TIMEOUT_S) == []
    assert ffrfs("umount", tree.path).status == 0
    check_nothing_left(tree)
