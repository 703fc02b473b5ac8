"""`ffrfs stats --errors`: which files could not be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.client.control_client import ANSWER_SIZE_MAX
from ffrfs.mount.config.request import MountRequest
from ffrfs.mount.engines.read_failures import FILES_MAX, ReadFailures
from ffrfs.mount.kernel.options import MountOptions
from tests.ffrecord_file import flip_byte, record_extents
from tests.mount import probes
from tests.mount.command import Mount, ffrfs, wait_until
from tests.mount.makers import MakeMount, PackTree

DAMAGED = ["a: colon", "b\nbreak", "c"]
REQUEST = MountRequest(packs=("/x.ffr", "/set"), mountpoint="/m", options=MountOptions())


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


@pytest.mark.promise("S58")
def test_files_that_could_not_be_read(tree: Mount) -> None:
    assert listed(tree) == {"files": [], "other_count": 0}
    assert ffrfs("stats", "--errors", tree.path).out == ""
    assert tree.ask(probes.readable, "") == ["well"]
    wait_until(lambda: len(listed(tree)["files"]) == len(DAMAGED), "all are listed")
    requests = tree.requests()
    files = listed(tree)["files"]
    paths = [name.replace("\n", "\\n") for name in DAMAGED]
    assert sorted(file["path"] for file in files) == paths
    for file in files:
        number = paths.index(file["path"])
        assert file["error"].startswith(f"{tree.pack}: record {number} ")
        assert "checksum mismatch" in file["error"]
        assert file["count"] == 1
        assert 0 <= file["age_s"] < 120
    assert [file["age_s"] for file in files] == sorted(file["age_s"] for file in files)

    done = ffrfs("stats", "--errors", tree.path)
    assert (done.status, done.err) == (0, "")
    title, *lines = done.out.splitlines()
    assert title.split() == ["count", "ago", "path:", "error"]
    assert len(lines) == len(DAMAGED)
    assert [line for line in lines if "  a: colon: " in line]
    stats = tree.statistics()
    assert (stats["unreadable_files"], stats["read_failures"]) == (len(DAMAGED), len(DAMAGED))
    figures = ffrfs("stats", "--prometheus", tree.path).out
    assert f'ffrfs_unreadable_files{{mountpoint="{tree.path}"}} {len(DAMAGED)}\n' in figures
    assert tree.requests() == requests  # nobody has asked the mount


def test_no_form_for_prometheus(tmp_path: Path) -> None:
    done = ffrfs("stats", "--errors", "--prometheus", tmp_path)
    assert (done.status, done.out) == (2, "")
    assert "--errors" in done.err


@pytest.mark.promise("S58")
def test_list_has_a_limit() -> None:
    failures = ReadFailures()
    for number in range(FILES_MAX + 7):
        failures.note(f"d/{number}", "bad")
    failures.note("d/3", "worse")
    found: Any = failures.listed()
    assert len(found["files"]) == failures.file_count == FILES_MAX
    assert found["other_count"] == 7
    assert failures.count == FILES_MAX + 8
    first = found["files"][0]
    assert (first["path"], first["count"], first["error"]) == ("d/3", 2, "worse")


def test_list_fits_into_an_answer() -> None:
    failures = ReadFailures()
    for number in range(FILES_MAX):
        failures.note(f"{number}/" + "ü" * 2000, "bad\n" * 100)
    found: Any = failures.listed()
    assert len(json.dumps({"result": found})) < ANSWER_SIZE_MAX
    assert 0 < len(found["files"]) < FILES_MAX
    assert len(found["files"]) + found["other_count"] == FILES_MAX


@pytest.mark.parametrize(
    ("line", "path", "error"),
    [
        ("cannot read a: /x.ffr: record 1: bad", "a", "/x.ffr: record 1: bad"),
        ("cannot read a: b: c: /set/y.ffr: bad", "a: b: c", "/set/y.ffr: bad"),
        ("cannot read a: out of memory", "a", "out of memory"),
        ("cannot read /: /x.ffr: the index is damaged", "/", "/x.ffr: the index is damaged"),
        ("cannot read nothing", "nothing", ""),
    ],
)
def test_line_of_a_worker(line: str, path: str, error: str) -> None:
    failures = ReadFailures()
    failures.note_line(line, REQUEST)
    found: Any = failures.listed()
    (file,) = found["files"]
    assert (file["path"], file["error"]) == (path, error)


def test_other_lines_are_not_counted() -> None:
    failures = ReadFailures()
    for line in ("", "request failed: cannot read a: b", "the worker cannot read a: b"):
        failures.note_line(line, REQUEST)
    assert failures.count == 0
