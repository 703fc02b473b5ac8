"""A command that has ended well is started again: it says so, and does nothing."""

# ruff: noqa: F401, F811 - fixtures of another file

from __future__ import annotations

from pathlib import Path

import pytest

from ffrfs import pack_folder
from ffrfs.errors import CompleteError, PackError
from tests.cluster.test_two_plans import base, one, pack, two


@pytest.mark.promise("S67")
@pytest.mark.parametrize("append", [False, True])
def test_rerunning_a_finished_command_changes_nothing(
    one: Path, two: Path, base: Path, append: bool
) -> None:
    """It says that all is complete, and does nothing, unless the source has changed."""
    target = base if append else base.parent / "new"
    pack(one, target, 3, append=append)
    if append:
        pack(two, target, 2, append=True)
    before = {path.name: path.stat().st_ino for path in target.iterdir()}
    with pytest.raises(CompleteError, match=rf"^{target}: complete already: \d+ files, [\d,]+ by"):
        pack(one, target, 3, append=append)
    assert {path.name: path.stat().st_ino for path in target.iterdir()} == before
    (one / "a" / "0").write_bytes(b"3" * 900)
    with pytest.raises(PackError, match="already; exclude it" if append else "is not empty") as e:
        pack(one, target, 3, append=append)
    assert not isinstance(e.value, CompleteError)
    assert {path.name: path.stat().st_ino for path in target.iterdir()} == before


def test_rerunning_after_a_shard_was_removed_is_refused(one: Path, target: Path) -> None:
    pack(one, target, 3)
    (target / "part_00001.ffr").unlink()
    with pytest.raises(PackError, match="is not empty"):
        pack(one, target, 3)


def test_rerunning_with_packs_as_sources(one: Path, base: Path, tmp_path: Path) -> None:
    """Packs that were replaced count as other sources."""
    pack_folder(one, tmp_path / "one.ffr")
    pack(tmp_path / "one.ffr", base, 2, append=True)
    with pytest.raises(CompleteError):
        pack(tmp_path / "one.ffr", base, 2, append=True)
    (one / "a" / "0").write_bytes(b"3" * 900)
    pack_folder(one, tmp_path / "one.ffr", force=True)
    with pytest.raises(PackError, match="already; exclude it"):
        pack(tmp_path / "one.ffr", base, 2, append=True)
