"""`ffrfs stats --errors`: which files could not be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ffrfs.mount.client.control_client import ANSWER_SIZE_MAX
from ffrfs.mount.engines.read_failures import FILES_MAX, ReadFailures
from tests.ffrecord_file import flip_byte, record_extents
from tests.mount import probes
from tests.mount.command import Mount, ffrfs, wait_until
from tests.mount.makers import MakeMount, PackTree, by_both

DAMAGED = ["a: colon", "b\nbreak", "c"]
PATHS = [name.replace("\n", "\\n") for name in DAMAGED]  # as they are shown


@pytest.fixture
def tree(mount: MakeMount, pack_tree: PackTree) -> Mount:
    pack = pack_tree({name: name.encode() * 100 for name in [*DAMAGED, "well"]})
    for offset, _ in record_extents(pack)[: len(DAMAGED)]:
        flip_byte(pack, offset)
    made: Mount = mount(pack)
    made.expect_log("cannot read ")
    return made


def listed(tree: Mount) -> dict[str, Any]:
    done = ffrfs("stats", "--errors", "--json", tree.path)
    assert (done.status, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def counts(tree: Mount) -> dict[str, int]:
    return {file["path"]: file["count"] for file in listed(tree)["files"]}


@by_both
@pytest.mark.promise("S58")
def test_files_that_could_not_be_read(tree: Mount) -> None:
    assert listed(tree) == {"files": [], "other_count": 0}
    assert ffrfs("stats", "--errors", tree.path).out == ""
    assert tree.ask(probes.readable, "") == ["well"]
    wait_until(lambda: len(listed(tree)["files"]) == len(DAMAGED), "all are listed")
    before = counts(tree)
    for _ in range(5):
        tree.ask(probes.errno_of, "c", "read")
    requests = tree.requests()
    wait_until(lambda: counts(tree)["c"] >= before["c"] + 5, "all are counted")
    after = counts(tree)
    assert {path: after[path] for path in PATHS[:2]} == {path: before[path] for path in PATHS[:2]}
    files = listed(tree)["files"]
    for file in files:
        number = PATHS.index(file["path"])
        assert file["error"].startswith(f"{tree.pack}: record {number} ")
        assert "checksum mismatch" in file["error"]
        assert 0 <= file["age_s"] < 120
    assert [file["age_s"] for file in files] == sorted(file["age_s"] for file in files)

    done = ffrfs("stats", "--errors", tree.path)
    assert (done.status, done.err) == (0, "")
    title, *lines = done.out.splitlines()
    assert title.split() == ["count", "ago", "path:", "error"]
    assert len(lines) == len(DAMAGED)
    assert [line for line in lines if "  a: colon: " in line]
    total = sum(after.values())
    stats = tree.statistics()
    assert (stats["unreadable_files"], stats["read_failures"]) == (len(DAMAGED), total)
    figures = ffrfs("stats", "--prometheus", tree.path).out
    assert f'ffrfs_unreadable_files{{mountpoint="{tree.path}"}} {len(DAMAGED)}\n' in figures
    assert f'ffrfs_read_failures_total{{mountpoint="{tree.path}"}} {total}\n' in figures
    assert tree.requests() == requests  # the mount has received no request


@pytest.mark.promise("S58", "S59")
def test_next_daemon_keeps_the_read_failures(tree: Mount) -> None:
    tree.expect_log("the daemon before this one")
    for name in DAMAGED:
        tree.ask(probes.errno_of, name, "read")
    wait_until(lambda: len(listed(tree)["files"]) == len(DAMAGED), "all are listed")

    def errors() -> dict[str, str]:
        return {file["path"]: file["error"] for file in listed(tree)["files"]}

    before = errors()
    for _ in range(3):
        tree.ask(probes.errno_of, DAMAGED[-1], "read")
    total = counts(tree)
    tree.replace_daemon()
    assert errors() == before
    assert ffrfs("restart", tree.path).status == 0
    assert errors() == before
    tree.ask(probes.errno_of, DAMAGED[0], "read")  # the first failure of the next worker
    wait_until(lambda: sum(counts(tree).values()) > sum(total.values()), "it is counted")
    assert all(count >= total[path] for path, count in counts(tree).items())
    assert listed(tree)["other_count"] == 0
    tree.checked(1, "3 files could not be read")


@pytest.mark.promise("S58")
def test_list_has_a_limit() -> None:
    failures = ReadFailures()
    for number in range(1, FILES_MAX + 8):
        failures.note(number, f"d/{number}", "bad")
    failures.note(3, "d/3", "worse")
    found: Any = failures.listed({"read_failures": [FILES_MAX + 8]})
    assert len(found["files"]) == failures.file_count == FILES_MAX
    assert found["other_count"] == 7
    first = found["files"][0]
    assert (first["path"], first["count"], first["error"]) == ("d/3", 2, "worse")
    assert ReadFailures(failures.kept()).kept() == failures.kept()


def test_failures_that_were_not_logged_are_counted() -> None:
    failures = ReadFailures()
    for ino in (7, 8, 9):
        failures.note(ino, f"{ino}", "bad")
    # The engine's table has no inode 9 any more: other inodes have taken its place.
    table = [8, 40, 7, 30, 0, 0]
    found: Any = failures.listed({"read_failures": [80], "failures_by_inode": table})
    assert {file["path"]: file["count"] for file in found["files"]} == {"7": 30, "8": 40, "9": 1}
    assert found["other_count"] == 9


def test_list_fits_into_an_answer() -> None:
    failures = ReadFailures()
    for number in range(FILES_MAX):
        failures.note(number, f"{number}/" + "ü" * 2000, "bad\n" * 100)
    found: Any = failures.listed({"read_failures": [FILES_MAX]})
    assert len(json.dumps({"result": found})) < ANSWER_SIZE_MAX
    assert 0 < len(found["files"]) < FILES_MAX
    assert len(found["files"]) + found["other_count"] == FILES_MAX
    assert 0 < ReadFailures(failures.kept()).file_count <= len(found["files"])


@pytest.mark.parametrize(
    ("line", "path", "error"),
    [
        (b"\x1f7 1\x1fcannot read a: /x.ffr: bad", "a", "/x.ffr: bad"),
        (b"\x1f7 7\x1fcannot read a: b: c: /x.ffr: bad", "a: b: c", "/x.ffr: bad"),
        (b"\x1f7 2\x1fcannot read \xff\x1b: bad", "\\xff\\x1b", "bad"),
        (b"\x1f7 99999\x1fcannot read cut of", "cut of", ""),
    ],
)
def test_failure_line_of_a_worker_is_noted(line: bytes, path: str, error: str) -> None:
    failures = ReadFailures()
    assert failures.noted(line) == line.rpartition(b"\x1f")[2]
    found: Any = failures.listed({})
    (file,) = found["files"]
    assert (file["path"], file["count"], file["error"]) == (path, 1, error)


@pytest.mark.parametrize(
    "line", [b"", b"cannot read a: b", b"\x1f\x1fcannot read a: b", b"\x1f1 1\x1fother: b"]
)
def test_other_lines_are_left_unchanged(line: bytes) -> None:
    failures = ReadFailures()
    assert failures.noted(line) == line
    assert failures.file_count == 0


def test_failures_kept_by_a_daemon_of_a_later_version() -> None:
    failures = ReadFailures()
    failures.note(7, "a", "bad")
    (kept,) = failures.kept()
    assert ReadFailures([kept | {"later": 1}]).kept() == [kept]
