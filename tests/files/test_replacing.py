"""What a written file may replace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ffrfs.errors import OptionError, PackError
from ffrfs.files.replacing import may_replace, new_file, refuse_foreign

pytestmark = pytest.mark.promise("S70")


def test_a_result_replaces_a_file_only_with_force(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with new_file(str(path)) as file:
        file.write(b"first")
    with pytest.raises(PackError) as caught, new_file(str(path)) as file:
        pytest.fail("it is refused before anything is written")
    assert str(caught.value) == (
        f"{path}: exists (a text file); write to another file, or replace it with --force"
    )
    with new_file(str(path), force=True) as file:
        file.write(b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("way", ["without a name", "beside the target"])
def test_a_file_created_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "beside the target":
        monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)
    path = tmp_path / "x"
    with pytest.raises(PackError, match=r"exists \(a text file\)"), new_file(str(path)) as file:
        file.write(b"ours")
        path.write_text("theirs")
    assert path.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("kind", ["an empty file", "a link to nothing"])
def test_an_empty_target_filled_meanwhile_is_kept(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "an empty file":
        path.touch()
    else:
        path.symlink_to("theirs")
    with pytest.raises(PackError, match=r"x: exists \(a text file\)"), new_file(str(path)):
        path.write_text("theirs")
    assert path.read_text() == "theirs"


def test_links_and_empty_files(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "full").write_bytes(b"1")
    for name in ("empty", "full", "none"):
        (tmp_path / f"to {name}").symlink_to(name)
    assert may_replace(str(tmp_path / "to empty"), force=False)
    assert may_replace(str(tmp_path / "to none"), force=False)
    assert not may_replace(str(tmp_path / "none"), force=False)
    with pytest.raises(PackError, match=r"^.*/to full: exists"):
        may_replace(str(tmp_path / "to full"), force=False)
    assert may_replace(str(tmp_path / "to full"), force=True)


def test_a_file_replaces_only_files_of_its_own_kind(tmp_path: Path) -> None:
    def is_ours(begin: bytes) -> bool:
        return begin.startswith(b"ours")

    path = tmp_path / "x"
    refuse_foreign(str(path), is_ours, "an index")
    for content in (b"", b"ours, of before"):
        path.write_bytes(content)
        refuse_foreign(str(path), is_ours, "an index")
    path.write_bytes(b"\x1f\x8b\x08")
    for error in (PackError, OptionError):
        with pytest.raises(error) as caught:
            refuse_foreign(str(path), is_ours, "an index", error)
        assert str(caught.value) == (
            f"{path}: exists (a gzip file), and is not an index that ffrfs has written; name "
            "another file, or remove it"
        )
