"""Files of a cache that are damaged, hostile, or another user's: never wrong bytes."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ffrfs.cache.directory import CacheDirectory
from ffrfs.cache.eviction import evict, survey
from ffrfs.cache.place import CachePlace
from ffrfs.cache.state_file import BLOCK_SIZE, HEADER_SIZE, Label, StateFile
from ffrfs.errors import CacheError
from tests.cache.blocks import URL, WAIT_S, check, fill, in_child, present, settle

MIB = 1 << 20
SIZE = 3 * BLOCK_SIZE + 100


ordinary = pytest.mark.skipif(os.geteuid() != 0, reason="another user is made by root alone")
NOBODY = 65534


def as_nobody(work: Callable[[], None], *groups: int) -> None:
    def whole() -> None:
        os.setgroups(groups)
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        os.umask(0o077)
        work()

    in_child(whole)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A directory that other users may enter. pytest closes its own when another run starts."""
    with tempfile.TemporaryDirectory(prefix="ffrfs-test-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A cache with one object, whose blocks 0 and 3 are present."""
    place = tmp_path / "cache"
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", SIZE)
    fill(kept, 0)
    fill(kept, 3)
    kept.close()
    cache.close()
    return place


def state_path(place: Path) -> Path:
    return next(place.glob("??/*.state"))


def reopened(place: Path) -> tuple[set[int], list[str]]:
    """Return the blocks that are present, all of them right, and the lines that were logged."""
    lines: list[str] = []
    cache = CacheDirectory(str(place), 64 * MIB, lines.append)
    try:
        kept = cache.open(URL, "v1", SIZE)
        there = check(kept)
        fill(kept, 1)
        assert 1 in check(kept)
        kept.close()
    finally:
        cache.close()
    return there, lines


def refusal(place: Path) -> str:
    with pytest.raises(CacheError) as caught:
        reopened(place)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def overwrite(path: Path, data: bytes, offset: int) -> None:
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)


def truncate(path: Path, size: int) -> None:
    os.truncate(path, size)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a bit of the header": lambda path: overwrite(path, b"\xff", 70),
    "its checksum": lambda path: overwrite(path, b"1234", HEADER_SIZE - 4),
    "another version": lambda path: overwrite(path, b"\x09", 8),
    "zeros, as after a crash": lambda path: overwrite(path, bytes(HEADER_SIZE), 0),
    "cut": lambda path: truncate(path, HEADER_SIZE + 2),
    "cut in the header": lambda path: truncate(path, 100),
    "empty": lambda path: truncate(path, 0),
    "longer": lambda path: truncate(path, 1 << 20),
    "no data": lambda path: path.with_suffix(".data").unlink(),
    "data cut": lambda path: truncate(path.with_suffix(".data"), BLOCK_SIZE),
    "data longer": lambda path: truncate(path.with_suffix(".data"), 9 * BLOCK_SIZE),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_files_are_dropped_and_replaced(
    place: Path, damage: Callable[[Path], None]
) -> None:
    path = state_path(place)
    damage(path)
    there, lines = reopened(place)
    assert there == set()
    assert len(lines) == 1
    assert lines[0].startswith(f"{path}: ")
    assert lines[0].endswith(f"; the cached blocks of {URL} were dropped")
    assert reopened(place) == ({1}, [])


def test_two_that_find_the_damage_at_once_drop_it_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncate(state_path(place).with_suffix(".data"), BLOCK_SIZE)
    both = threading.Barrier(2)
    ready = [True, True]
    whole = StateFile.read_header

    def read_header(state: StateFile, name: str) -> tuple[Label, bytes]:
        if ready and ready.pop():
            both.wait(WAIT_S)
        return whole(state, name)

    monkeypatch.setattr(StateFile, "read_header", read_header)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(reopened, [place, place]))
    assert len([line for _, lines in found for line in lines]) == 1


def test_a_killed_removal_is_cleaned_up_without_a_warning(place: Path) -> None:
    path = state_path(place)
    with open(path, "r+b", buffering=0) as file:
        state = StateFile(file.fileno(), SIZE)
        for block in (0, 3):
            state.set_absent(block)
    path.with_suffix(".data").unlink()
    assert reopened(place) == (set(), [])


def test_a_state_file_not_made_by_ffrfs_is_left_alone(place: Path) -> None:
    path = state_path(place)
    path.write_bytes(b"the only copy of a thesis")
    assert refusal(place) == (
        f"{path}: not a state file of a cache, and not made by ffrfs: remove it yourself"
    )
    assert path.read_bytes() == b"the only copy of a thesis"
    assert path.with_suffix(".data").exists()


def test_data_without_a_state_file_is_left_alone(place: Path) -> None:
    path = state_path(place)
    path.unlink()
    data = path.with_suffix(".data")
    assert refusal(place) == f"{data}: has no state file; remove it"
    assert data.stat().st_size == SIZE
    assert not path.exists()


def test_an_object_that_could_not_be_opened_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = CacheDirectory(str(tmp_path), 64 * MIB)
    with monkeypatch.context() as failing:
        whole = CachePlace.open_file

        def open_file(place: CachePlace, relative: str, flags: int = 0) -> int:
            if relative.endswith("state") and (tmp_path / relative).exists():
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return whole(place, relative, flags)

        failing.setattr(CachePlace, "open_file", open_file)
        with pytest.raises(OSError, match="open files"):
            cache.open(URL, "v1", SIZE)
    cache.open(URL, "v1", SIZE).close()
    cache.close()


@pytest.mark.parametrize("ending", ["state", "data"])
def test_links_are_not_followed(place: Path, tmp_path: Path, ending: str) -> None:
    path = state_path(place).with_suffix(f".{ending}")
    victim = tmp_path / "victim"
    shutil.copy(path, victim)
    before = victim.read_bytes()
    path.unlink()
    path.symlink_to(victim)
    assert "symbolic links" in refusal(place)
    path.unlink()
    os.link(victim, path)
    assert "has a second hard link" in refusal(place)
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in refusal(place)
    assert victim.read_bytes() == before


def test_a_state_file_of_another_object_is_dropped(place: Path) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open("s3://other", "v1", SIZE)
    fill(kept, 0)  # an empty object would be removed
    kept.close()
    path = state_path(place)
    others = next(each for each in place.glob("??/*.state") if each != path)
    mine = path if f'"{URL}"'.encode() in path.read_bytes() else others
    other = others if mine == path else path
    shutil.copyfile(other, mine)
    cache.close()
    there, lines = reopened(place)
    assert there == set()
    assert "it belongs to another object" in lines[0]


@given(noise=st.binary(min_size=1, max_size=64), offset=st.integers(0, 5 * 4096))
@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_a_state_file_with_random_bytes(
    place: Path, tmp_path: Path, noise: bytes, offset: int
) -> None:
    """Any bytes may follow the header: the cache believes them, and readers verify the blocks."""
    copy = tmp_path / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place, copy)
    overwrite(state_path(copy), noise, offset)
    lines: list[str] = []
    cache = CacheDirectory(str(copy), 64 * MIB, lines.append)
    try:
        kept = cache.open(URL, "v1", SIZE)
        present(kept)
        for block in range(4):
            fill(kept, block)
        assert check(kept) == {0, 1, 2, 3}
        kept.close()
    except CacheError as error:
        assert "not made by ffrfs" in str(error)  # the noise is in its magic
    finally:
        cache.close()
    assert len(lines) <= 1


def test_a_state_file_of_a_huge_object_costs_no_memory(place: Path) -> None:
    """Eviction reads every object; a header may claim any size, but the file's length must fit."""
    path = state_path(place)
    with open(path, "r+b", buffering=0) as file:
        small = StateFile(file.fileno(), SIZE)
        label, boot = small.read_header(path.stem)
        StateFile(file.fileno(), 1 << 46).write_header(label, boot)
    CacheDirectory(str(place), 64 * MIB).close()
    assert reopened(place)[0] == set()


def test_a_state_file_that_claims_many_blocks_costs_no_memory(tmp_path: Path) -> None:
    cache = CacheDirectory(str(tmp_path / "cache"), 64 * MIB)
    kept = cache.open(URL, "v1", MIB * BLOCK_SIZE)
    kept._state.set_present(0, MIB)
    kept.close()
    tracemalloc.start()
    try:
        cache.open(URL, "v1", MIB * BLOCK_SIZE).close()
        found = survey(cache.store, 100)
        evict(cache.store, found, 1)
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()
    assert found.listed["block"].tolist() == list(range(100))
    cache.close()


def test_a_foreign_usage_file_is_refused(place: Path) -> None:
    usage = place / "usage"
    usage.write_text("mine, and of another length")
    assert "usage: not a file of ffrfs" in refusal(place)
    assert usage.read_text() == "mine, and of another length"
    usage.write_bytes(b"x" * 16)
    assert "usage: not a file of ffrfs" in refusal(place)
    usage.write_bytes(b"")
    assert reopened(place) == ({0, 3}, [])


def test_modes(place: Path, tmp_path: Path) -> None:
    def modes(place: Path) -> set[int]:
        return {stat.S_IMODE(each.stat().st_mode) for each in place.rglob("*") if each.is_file()}

    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert modes(place) == {0o600}
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2770)
    CacheDirectory(str(shared), 64 * MIB, shared=True).open(URL, "v1", SIZE).close()
    assert modes(shared) == {0o660}
    assert {stat.S_IMODE(each.stat().st_mode) for each in shared.glob("??")} == {0o2770}


@pytest.mark.parametrize("mode", [0o777, 0o2777])
def test_a_world_writable_directory_is_refused(place: Path, mode: int) -> None:
    place.chmod(mode)
    assert "writable for every user: chmod o-w it" in refusal(place)


@pytest.mark.promise("S71")
@pytest.mark.parametrize("what", ["", "??", "??/*.state", "??/*.data", "usage"])
@pytest.mark.parametrize("mode", [0o020, 0o2020])
def test_group_writable_files_and_directories_are_refused(
    place: Path, what: str, mode: int
) -> None:
    """This includes files that remain from the time when the directory was shared."""
    [path] = place.parent.glob(f"{place.name}/{what}")
    path.chmod(path.stat().st_mode | mode)
    refused = refusal(place)
    assert refused.startswith(f"{path}: group {path.stat().st_gid} may write to it, and so change")
    assert ": chmod g-w it, choose another with --cache-dir or FFRFS_CACHE_DIR, or" in refused
    assert refused.endswith("or trust them (--cache-shared or FFRFS_CACHE_SHARED=1)")


@pytest.mark.promise("S71")
@ordinary
def test_a_directory_of_another_user_is_refused_also_for_root(place: Path) -> None:
    for path in (next(place.glob("??")), place):
        shutil.chown(path, NOBODY)
        refused = refusal(place)
        assert f"{path}: its owner (uid {NOBODY}) may write to it" in refused
        assert "chmod" not in refused


@ordinary
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_only_the_owner_is_advised_to_change_the_mode(place: Path, mode: int) -> None:
    place.chmod(mode)
    os.chown(place, 0, NOBODY)

    def work() -> None:
        with pytest.raises(CacheError, match=r"may write to it|writable for every") as caught:
            CacheDirectory(str(place), 64 * MIB)
        assert "chmod" not in str(caught.value)

    as_nobody(work)


@pytest.mark.promise("S71")
@ordinary
def test_users_have_own_caches_in_a_world_writable_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)

    def work() -> None:
        cache = CacheDirectory(str(tmp_path / "nobody"), 64 * MIB)
        fill(cache.open(URL, "v1", SIZE), 0)

    as_nobody(work)
    CacheDirectory(str(tmp_path / "root"), 64 * MIB).close()
    assert "its owner (uid 65534) may write" in refusal(tmp_path / "nobody")


def test_a_path_that_cannot_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "file/below"):
        assert refusal(tmp_path / name) == (
            f"{tmp_path / name}: "
            f"{'File exists' if name == 'file' else 'Not a directory'}; "
            "choose another with --cache-dir or FFRFS_CACHE_DIR"
        )


@ordinary
def test_files_of_another_user(place: Path) -> None:

    def work() -> None:
        with pytest.raises(CacheError, match="Permission denied; choose another"):
            CacheDirectory(str(place), 64 * MIB)

    as_nobody(work)
    shutil.chown(state_path(place), NOBODY, NOBODY)
    assert "belongs to another user (uid 65534); share the directory" in refusal(place)


@ordinary
def test_a_group_shares_a_directory(tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir()
    shutil.chown(place, 0, 4711)
    place.chmod(0o2770)
    cache = CacheDirectory(str(place), 64 * MIB, shared=True)
    kept = cache.open(URL, "v1", SIZE)
    fill(kept, 0)

    def work() -> None:
        theirs = CacheDirectory(str(place), 64 * MIB, shared=True)
        same = theirs.open(URL, "v1", SIZE)
        assert check(same) == {0}
        fill(same, 2)
        new = theirs.open("s3://new", "v1", SIZE)
        fill(new, 1)

    settle(cache)
    as_nobody(work, 4711)
    assert check(kept) == {0, 2}
    new = cache.open("s3://new", "v1", SIZE)
    assert check(new) == {1}
    fill(new, 0)
    for each in (kept, new):
        each.close()
    cache.close()


@ordinary
def test_a_read_only_directory(tmp_path: Path) -> None:
    place = tmp_path / "cache"
    place.mkdir()
    shutil.chown(place, NOBODY)
    place.chmod(0o500)

    def work() -> None:
        with pytest.raises(CacheError, match="usage: Permission denied; choose another"):
            CacheDirectory(str(place), 64 * MIB)

    as_nobody(work)


def test_the_directory_is_removed_while_in_use(place: Path) -> None:
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", SIZE)
    shutil.rmtree(place)
    assert check(kept) == {0, 3}  # the open descriptors still have their bytes
    with pytest.raises(CacheError, match="were removed"):
        fill(kept, 1)
    assert kept.claim(1)
    with pytest.raises(CacheError, match="No such file or directory; choose another"):
        cache.open("s3://new", "v1", SIZE)
    kept.close()
    cache.close()
    assert not place.exists()


@pytest.mark.promise("S64")
@pytest.mark.parametrize("left", [0, BLOCK_SIZE // 2])
def test_a_data_file_that_is_truncated_in_use_loses_its_blocks(place: Path, left: int) -> None:
    """Otherwise there would be zeros before a block that is written behind its end."""
    cache = CacheDirectory(str(place), 64 * MIB)
    kept = cache.open(URL, "v1", SIZE)
    os.truncate(next(place.glob("??/*.data")), left)
    fill(kept, 2)
    assert check(kept) == {2}
    os.truncate(next(place.glob("??/*.data")), left)
    kept.forget(0)
    assert check(kept) == set()
    kept.close()
    cache.close()
