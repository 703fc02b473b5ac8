"""Sets of shards whose metadata lies, with right checksums: each command refuses with lines
that name the pack, or serves each path once, with bytes that a shard has there.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.hostile.conftest import MakeMount
from tests.hostile.pack_readers import Asked, ask_mount
from tests.hostile.shard_sets import (
    CASES,
    Case,
    Contents,
    Ran,
    contents_of,
    random_case,
    run_commands,
    write_set,
)
from tests.mount.child import Child, ask, child
from tests.mount.command import ENGINES
from tests.soak.scale import IS_LONG, TEST_TIMEOUT_S

RANDOM_CASES = 300 if IS_LONG else 10
TIMEOUT_S = 60.0  # for one command, on a busy machine
OUTPUT_MAX = 20_000  # bytes, however many shards are claimed
ALWAYS_SERVED = ["sound", "written one after the other", "in another order", "three sets of one"]
# Sets that are served, with the warning of their mount.
MOUNTED = {
    "the first twice, of two": None,
    "cut off": "damaged index: its section set",
    "a file that is a folder": None,
}

pytestmark = pytest.mark.timeout(TEST_TIMEOUT_S)


class Questions:
    """All commands for one set, and the contents that their answers are compared with."""

    def __init__(self, name: str, case: Case, folder: Path, more: Path) -> None:
        self.name = name
        self._contents = contents_of(case)
        self._folder = write_set(folder, case)
        self._packs = sorted(folder.iterdir())
        set_path = str(folder)
        self._tree = [["ls", "-R", set_path]]
        self._tree += [["cat", set_path, path] for path in self._contents]
        self._first = [
            *(["info", set_path], ["info", "--json", set_path], ["verify", set_path]),
            *(["ls", "-R", "--allow-missing", set_path], ["info", str(self._packs[1])]),
        ]
        self._append = [["pack", "-q", "--append", str(more), set_path]]

    @property
    def commands(self) -> list[list[str]]:
        return [*self._first, *self._tree, *self._append, *self._tree]

    def check(self, process: Child) -> None:
        self._answers(process, self._first)
        is_served = self._check_tree(self._answers(process, self._tree), self._contents)
        assert is_served or self.name not in ALWAYS_SERVED
        (appended,) = self._answers(process, self._append)
        after = self._answers(process, self._tree)
        # Appending works only on a set that is served, which is then still served.
        if appended.status == 0:
            assert is_served
            assert self._check_tree(after, self._contents | {"new": {b"new"}})
        else:
            assert sorted(self._folder.iterdir()) == self._packs

    def _answers(self, process: Child, commands: list[list[str]]) -> list[Ran]:
        return [self._checked(command, Ran(*process.next(TIMEOUT_S))) for command in commands]

    def _checked(self, command: list[str], ran: Ran) -> Ran:
        for line in ran.err.splitlines():
            assert line.startswith("ffrfs: "), (command, ran)
            assert str(self._folder) in line, (command, ran)
            assert len(line) < 1000, (command, ran)
        assert ran.status == 0 or ran.err or command[0] == "verify", (command, ran)
        assert len(ran.out) < OUTPUT_MAX, command
        return ran

    def _check_tree(self, answers: list[Ran], contents: Contents) -> bool:
        listed, *cats = answers
        if listed.status != 0:
            return False
        paths = [path.rstrip("/") for path in listed.out.decode().splitlines()]
        assert len(set(paths)) == len(paths)
        assert set(paths) <= contents.keys()
        for path in contents.keys() - set(paths):
            # Its parent is a folder in its own pack, and something else in another pack.
            assert len(contents[path.rpartition("/")[0]]) > 1, path
        for path, cat in zip(self._contents, cats, strict=True):
            is_right = cat.out in contents[path] or path.endswith("link")
            assert cat.status != 0 or is_right, (path, cat)
        return True


@pytest.fixture
def more(tmp_path: Path) -> Path:
    folder = tmp_path / "more"
    folder.mkdir()
    (folder / "new").write_bytes(b"new")
    return folder


@pytest.mark.promise("S37", "S38")
def test_commands_on_sets_with_false_metadata(tmp_path: Path, more: Path, seed: int) -> None:
    order = random.Random(seed)
    cases = CASES | {f"random {number}": random_case(order) for number in range(RANDOM_CASES)}
    asked = [
        Questions(name, case, tmp_path / f"set{number}", more)
        for number, (name, case) in enumerate(cases.items())
    ]
    with child(run_commands, [command for each in asked for command in each.commands]) as process:
        for questions in asked:
            print(questions.name)
            questions.check(process)


@pytest.mark.promise("S24", "S37")
@pytest.mark.parametrize("name", MOUNTED)
def test_mounts_of_a_set_with_false_metadata(
    mount_as: MakeMount, tmp_path: Path, name: str
) -> None:
    case, warning = CASES[name], MOUNTED[name]
    folder = write_set(tmp_path / "set", case)
    records = {content for contents in contents_of(case).values() for content in contents}
    answers = []
    for engine in ENGINES:
        mount = mount_as(engine, folder, "--on-conflict", "first")
        if warning is not None:
            mount.expect_log(warning)
        asked = Asked(*ask(ask_mount, str(mount.path), records, timeout_s=TIMEOUT_S))
        assert asked.faults == []
        answers.append(asked.answers)
    assert answers[0] == answers[1]
