"""Commands that pack into one directory at the same time: one makes its set, none mixes two."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from ffrfs import pack_folder, verify
from ffrfs.cluster import commit, kept_plan, run
from ffrfs.cluster.planned_set import Plan
from ffrfs.errors import FormatError, PackError, UnfinishedError
from ffrfs.packing.places import locked_set
from tests.cluster import trees
from tests.cluster.trees import Beginning, assert_nothing_else, finish, kept, shards_of
from tests.folder.folder_model import make_folder, shown

ROUNDS = 20
BARRIER_S = 60

pytestmark = pytest.mark.promise("S73")


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "one", {"a": {f"{n}": b"1" * 900 for n in range(12)}})


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "two", {"b": {f"{n}": b"2" * 700 for n in range(8)}})


@pytest.fixture
def base(tmp_path: Path, target: Path) -> Path:
    """A set that has shards already."""
    pack_folder(make_folder(tmp_path / "base", {"x": b"x", "y": b"y"}), target, shards=2)
    return target


def pack(
    source: Path,
    target: Path,
    shards: int,
    *,
    append: bool = False,
    while_listing: Callable[[], object] = lambda: None,
) -> None:
    """Run a whole command."""
    with kept(source, target, shards, append=append, while_listing=while_listing) as plan:
        finish(plan)


def paths(source: Path) -> set[str]:
    return {str(path.relative_to(source)) for path in source.rglob("*")}


def assert_set_of(target: Path, *sources: Path) -> None:
    assert verify(target)["good"]
    assert set(shown(target)) == {path for source in sources for path in paths(source)}
    assert_nothing_else(target)


def test_another_set_was_completed_meanwhile(one: Path, two: Path, target: Path) -> None:
    """The other set has fewer shards: the rest of ours would mix two sets."""
    with pytest.raises(PackError, match=r"part_0000.\.ffr: exists already, and is not of this"):
        pack(one, target, 8, while_listing=lambda: pack(two, target, 5))
    assert_set_of(target, two)
    assert len(shards_of(target)) == 5


def test_another_set_is_being_made(one: Path, two: Path, target: Path) -> None:
    with contextlib.ExitStack() as stack:
        begin = Beginning(stack, two, target, 5)
        with pytest.raises(PackError, match="another command is packing into it, by the plan"):
            pack(one, target, 8, while_listing=begin)
        with pytest.raises(PackError, match="wait for its end, or write elsewhere"):
            pack(one, target, 8)
        finish(begin.plan)
    assert_set_of(target, two)


def test_equal_commands_share_one_plan(one: Path, target: Path) -> None:
    with contextlib.ExitStack() as stack:
        begin = Beginning(stack, one, target, 4)
        pack(one, target, 4, while_listing=begin)
        before = shards_of(target)
        finish(begin.plan)
    assert shards_of(target) == before
    assert_set_of(target, one)


def test_a_command_removes_only_its_own_plan(one: Path, two: Path, target: Path) -> None:
    """A command that ends removes only its own plan."""
    with contextlib.ExitStack() as stack:
        with kept(one, target, 4):
            (target / ".ffrfs-plan").unlink()
            plan = stack.enter_context(kept(two, target, 5))
        assert (target / ".ffrfs-plan").exists()
        finish(plan)
    assert_set_of(target, two)


def test_a_set_without_a_plan_is_refused_beside_a_plan(one: Path, two: Path, target: Path) -> None:
    target.mkdir()
    with contextlib.ExitStack() as stack:
        plan = stack.enter_context(kept(two, target, 5))
        stack.callback(finish, plan)
        with pytest.raises(PackError, match="is not empty"):
            pack_folder(one, target, shards=3)
    assert_set_of(target, two)


def test_a_plan_appears_while_a_set_without_a_plan_is_written(
    one: Path, two: Path, target: Path
) -> None:
    target.mkdir()
    with contextlib.ExitStack() as stack:
        begin = Beginning(stack, two, target, 5)
        with pytest.raises(PackError, match="is not empty"):
            pack_folder(one, target, shards=3, listing=begin)
        finish(begin.plan)
    assert_set_of(target, two)


def test_another_command_has_added_shards_meanwhile(one: Path, two: Path, base: Path) -> None:
    with pytest.raises(PackError, match="was added to meanwhile; nothing was added; run the"):
        pack(one, base, 3, append=True, while_listing=lambda: pack(two, base, 2, append=True))
    assert_set_of(base, base.parent / "base", two)
    pack(one, base, 3, append=True)
    assert_set_of(base, base.parent / "base", two, one)


def test_another_command_is_adding_shards(one: Path, two: Path, base: Path) -> None:
    with kept(two, base, 2, append=True) as plan:
        with pytest.raises(PackError, match="another command is packing into it"):
            pack(one, base, 3, append=True)
        finish(plan)
    pack(one, base, 3, append=True)
    assert_set_of(base, base.parent / "base", two, one)


def test_a_refused_command_does_not_lock_the_set(one: Path, two: Path, base: Path) -> None:
    """A command that finds another's plan does not take the lock, which that plan's end needs."""
    with contextlib.ExitStack() as others:

        def begin() -> None:
            made.append(others.enter_context(kept(two, base, 2, append=True)))
            locked.enter_context(locked_set(os.fspath(base)))

        made: list[Plan] = []
        locked = others.enter_context(contextlib.ExitStack())
        with pytest.raises(PackError, match="another command is packing into it, by the plan"):
            pack(one, base, 3, append=True, while_listing=begin)
        locked.close()
        finish(made[0])
    assert_set_of(base, base.parent / "base", two)


def test_another_command_begins_at_the_end_of_a_plan(
    one: Path, two: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other command has the lock of the set for a moment; the plan waits for the lock."""
    with (
        trees.planned(two, base, base.parent / "plan", append=True, shards=2) as plan,
        ThreadPoolExecutor(1) as pool,
    ):
        for number in range(len(plan)):
            run(plan, number)
        ends: list[Future[Any]] = []

        def packs_in(folder: str) -> list[str]:  # called under the lock
            if not ends:
                ends.append(pool.submit(commit, plan))
                wait(ends, timeout=0.3)  # a refusal would come at once
            return own_packs_in(folder)

        own_packs_in = kept_plan.packs_in
        monkeypatch.setattr(kept_plan, "packs_in", packs_in)
        with kept(one, base, 3, append=True):
            ends[0].result()
    assert paths(two) < set(shown(base))


def test_another_plan_ends_just_after_it_was_found(
    one: Path, two: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command makes its plan again, and both commands add their shards."""
    with contextlib.ExitStack() as others:
        made: list[Plan] = []

        def begin() -> None:
            made.append(others.enter_context(kept(two, base, 2, append=True)))

        def give(*arguments: Any) -> int | None:
            lock = own_give(*arguments)
            if made and lock is None:
                finish(made.pop())
                others.close()
            return lock

        own_give = kept_plan._give
        monkeypatch.setattr(kept_plan, "_give", give)
        pack(one, base, 3, append=True, while_listing=begin)
    assert_set_of(base, base.parent / "base", two, one)


def leave(source: Path, target: Path, *numbers: int) -> Path:
    """Leave a plan and some of its shards, as a killed command does; return the shards' place."""

    def end() -> None:
        with kept(source, target, 3, append=True) as plan:
            places.append(Path(plan.place))
            for number in numbers:
                run(plan, number)
            raise KeyboardInterrupt

    places: list[Path] = []
    with pytest.raises(KeyboardInterrupt):
        end()
    return places[0]


def test_shard_numbers_of_a_plan_were_taken_meanwhile(one: Path, two: Path, base: Path) -> None:
    """A command without a plan has taken them; the same command makes its plan again."""
    place = leave(one, base, 0, 2)
    pack_folder(two, base, append=True)
    assert place.is_dir()
    pack(one, base, 3, append=True)
    assert_set_of(base, base.parent / "base", two, one)


def test_a_plan_of_another_directory_is_left_alone(one: Path, two: Path, base: Path) -> None:
    """A user has copied the plan here: the shards that wait at the other place are not removed."""
    other = Path(shutil.copytree(base, base.parent / "other"))
    place = leave(one, other, 0, 2)
    pack_folder(two, other, append=True)
    shutil.copy(other / kept_plan.PLAN_NAME, base / kept_plan.PLAN_NAME)
    with pytest.raises(PackError, match=r"has the plan .* of other sources or options"):
        pack(one, base, 3, append=True)
    assert len(os.listdir(place)) == 2
    assert (base / kept_plan.PLAN_NAME).exists()


def test_a_damaged_plan_has_to_be_removed(one: Path, target: Path) -> None:
    target.mkdir()
    place = target / kept_plan.PLAN_NAME
    place.write_bytes(b"damaged")
    with pytest.raises(FormatError, match=f"^{place}: bad plan: it is damaged, .*; remove it, and"):
        pack(one, target, 3)
    place.unlink()
    pack(one, target, 3)
    assert_set_of(target, one)


def test_a_plan_that_cannot_be_renamed_is_named_and_leaves_no_file_open(
    one: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(old: str, _: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), old)

    monkeypatch.setattr(kept_plan, "move_new", fail)
    with pytest.raises(OSError, match=f"'{target}/.ffrfs-plan'$"), kept(one, target, 2):
        pass
    held = [os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    assert not [name for name in held if name.startswith(f"{target.parent}/")]


def test_shard_numbers_are_taken_just_before_the_plan_ends(
    one: Path, two: Path, base: Path
) -> None:
    with (
        pytest.raises(PackError, match="was added by another command meanwhile; nothing was added"),
        kept(one, base, 3, append=True) as plan,
    ):
        pack_folder(two, base, append=True)
        with pytest.raises(PackError, match="another process is adding to it; try again"):
            pack(one, base, 3, append=True)
        finish(plan)
    assert set(shown(base)) == {*paths(base.parent / "base"), *paths(two)}
    pack(one, base, 3, append=True)
    assert_set_of(base, base.parent / "base", two, one)


def test_the_error_names_the_directory_of_an_abandoned_plan(
    one: Path, two: Path, base: Path
) -> None:
    """Following the advice of the error loses no shard of the set."""
    place = leave(one, base, 1)
    with pytest.raises(PackError) as caught:
        pack(two, base, 2, append=True)
    assert str(caught.value).endswith(
        f"finish it by its own command, or remove it together with {place.name}"
    )
    pack(one, base, 3, append=True)
    pack(two, base, 2, append=True)
    assert_set_of(base, base.parent / "base", two, one)


@pytest.mark.parametrize("append", [False, True])
def test_commands_that_begin_at_the_same_time(
    tmp_path: Path, one: Path, two: Path, append: bool
) -> None:
    """One ends well, the other is refused; if they append, both end well, some at a second try."""
    base = make_folder(tmp_path / "base", {"x": b"x", "y": b"y"})
    for turn in range(ROUNDS):
        target = tmp_path / f"set{turn}"
        if append:
            pack_folder(base, target, shards=2)
        refused = refused_of(target, {one: 8, two: 5}, append=append)
        assert len(refused) == 1 or (append and not refused)
        winners = {one, two} - set(refused)
        assert_set_of(target, *winners, *([base] if append else []))
        if append:
            for source in refused:
                pack(source, target, 3, append=True)
            assert_set_of(target, one, two, base)


def refused_of(target: Path, sources: dict[Path, int], *, append: bool) -> list[Path]:
    """Run commands that write at the same moment; return the sources of the refused ones."""
    barrier = threading.Barrier(len(sources))
    refused: list[Path] = []

    def command(source: Path, shards: int) -> None:
        try:
            pack(
                source, target, shards, append=append, while_listing=lambda: barrier.wait(BARRIER_S)
            )
        except (PackError, UnfinishedError):
            refused.append(source)

    with ThreadPoolExecutor(len(sources)) as pool:
        list(pool.map(command, *zip(*sources.items(), strict=True)))
    return refused


def test_a_shard_that_was_replaced(one: Path, two: Path, target: Path) -> None:
    """A plan in a file of its own reserves nothing: a shard can be replaced, and the end fails."""
    with (
        trees.planned(one, target, target.parent / "1") as plan,
        trees.planned(two, target.parent / "other", target.parent / "2") as other,
    ):
        rows = [run(plan, number) for number in range(len(plan))]
        run(other, 1)
        os.replace(target.parent / "other" / "part_00001.ffr", target / "part_00001.ffr")
        with pytest.raises(PackError, match=r"part_00001\.ffr: was replaced by another command"):
            commit(plan, rows)
        with pytest.raises(UnfinishedError, match="1 of 3 shards could not be made"):
            finish(plan)
    assert not (target / ".ffrfs-manifest.jsonl").exists()


def test_verify_names_a_mixture(one: Path, two: Path, target: Path) -> None:
    pack_folder(one, target, shards=4)
    pack_folder(two, target.parent / "other", shards=3)
    for name in ("part_00000.ffr", "part_00001.ffr"):
        os.replace(target.parent / "other" / name, target / name)
    report = verify(target)
    assert not report["good"]
    assert (
        "shards of 2 sets are mixed here (part_00000.ffr and 1 more; part_00002.ffr and 1 more): "
        "keep each set in a directory of its own"
    ) in str(report)
