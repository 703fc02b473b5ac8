"""`ffrfs install-units`: what it writes, what it leaves alone, what it removes."""

from __future__ import annotations

import functools
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ffrfs.cli.main import main
from ffrfs.service import templates
from tests.checkout import CHECKOUT
from tests.cli.command_run import Done, Run
from tests.interpreter import python
from tests.service import sealed

UNIT = "usr/local/lib/systemd/system/ffrfs@.service"
HELPER = os.path.realpath("/sbin").lstrip("/") + "/mount.ffrfs"
PAGE = "usr/local/share/man/man8/ffrfs-mount.8"
EXPECTED = {
    UNIT,
    "usr/local/lib/systemd/system/ffrfs.target",
    "usr/local/share/doc/ffrfs/example.toml",
    "usr/local/share/doc/ffrfs/mnt-data.mount",
    "usr/local/share/doc/ffrfs/mnt-data.automount",
    HELPER,
    HELPER.replace("mount.ffrfs", "mount.fuse.ffrfs"),
    "usr/local/share/man/man1/ffrfs.1",
    PAGE,
    "usr/local/share/man/man5/ffrfs.conf.5",
    "usr/local/share/bash-completion/completions/ffrfs",
    "usr/local/share/zsh/site-functions/_ffrfs",
    "usr/local/share/fish/vendor_completions.d/ffrfs.fish",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def command(root: Path, ffrfs: Run) -> Run:
    """Runs install-units --destdir ROOT with further arguments."""
    return functools.partial(ffrfs, "install-units", "--destdir", root)


def files(root: Path) -> dict[str, Path]:
    return {str(path.relative_to(root)): path for path in root.rglob("*") if not path.is_dir()}


def told(done: Done, root: Path) -> dict[str, set[str]]:
    """Return the actions that the command printed, each with its files."""
    found: dict[str, set[str]] = {}
    for line in done.lines:
        act, _, path = line.rpartition(" ")
        found.setdefault(act, set()).add(os.path.relpath(path, root))
    return found


def failed(done: Done, *words: str) -> bool:
    return done.status == 1 and done.err.count("\n") == 1 and all(w in done.err for w in words)


@pytest.fixture
def tight_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.promise("S46")
@pytest.mark.usefixtures("tight_umask")
def test_written_files_are_reported(command: Run, root: Path) -> None:
    done = command()
    assert (done.status, done.err) == (0, "")
    assert told(done, root) == {"wrote": EXPECTED}
    found = files(root)
    assert found.keys() == EXPECTED
    for name, path in found.items():
        assert b"@PYTHON@" not in path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if "/mount." in name else 0o644)
    for folder in (path for path in root.rglob("*") if path.is_dir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    for name in (UNIT, HELPER):
        assert f"{sys.executable}' -P" in found[name].read_text().replace('"', "'")


def test_prefix(command: Run, root: Path) -> None:
    assert command("--prefix", "/usr").status == 0
    assert files(root).keys() == {name.replace("usr/local/", "usr/") for name in EXPECTED}


@pytest.mark.promise("S46")
def test_dry_run_does_nothing(command: Run, root: Path) -> None:
    done = command("--dry-run")
    assert told(done, root) == {"would write": EXPECTED}
    assert not root.exists()
    command()
    assert told(command("--dry-run", "--uninstall"), root) == {"would remove": EXPECTED}
    assert files(root).keys() == EXPECTED


def test_second_time_changes_nothing(command: Run, root: Path) -> None:
    command()
    before = {name: path.stat() for name, path in files(root).items()}
    done = command()
    assert (done.status, told(done, root)) == (0, {"unchanged": EXPECTED})
    after = {name: path.stat() for name, path in files(root).items()}
    assert {n: (s.st_ino, s.st_mtime_ns) for n, s in after.items()} == {
        n: (s.st_ino, s.st_mtime_ns) for n, s in before.items()
    }


@pytest.mark.promise("S46")
def test_uninstall_leaves_nothing(command: Run, root: Path) -> None:
    command()
    done = command("--uninstall")
    assert (done.status, told(done, root)) == (0, {"removed": EXPECTED})
    assert list(root.iterdir()) == []
    done = command("--uninstall")
    assert (done.status, done.lines) == (0, [])


def test_uninstall_keeps_folders_with_foreign_files(command: Run, root: Path) -> None:
    theirs = root / "usr/local/share/doc/ffrfs/notes"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("")
    command()
    assert command("--uninstall").status == 0
    assert files(root).keys() == {str(theirs.relative_to(root))}


@pytest.mark.promise("S46")
@pytest.mark.parametrize("name", [UNIT, HELPER, PAGE])
def test_foreign_file_is_refused_before_anything_is_written(
    command: Run, root: Path, name: str
) -> None:
    theirs = root / name
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs\n")
    for arguments in ((), ("--dry-run",)):
        assert failed(command(*arguments), str(theirs), "not written by ffrfs", "--force")
        assert files(root).keys() == {name}
        assert theirs.read_text() == "theirs\n"
    done = command("--uninstall", "--force")
    assert done.status == 1
    assert done.lines == [f"kept {theirs}: was not written by ffrfs install-units"]
    assert theirs.read_text() == "theirs\n"
    assert told(command("--force"), root) == {"wrote": EXPECTED}
    assert told(command("--uninstall"), root) == {"removed": EXPECTED}


@pytest.mark.promise("S46")
@pytest.mark.parametrize("name", [UNIT, HELPER, PAGE])
def test_changed_file_is_kept(command: Run, root: Path, name: str) -> None:
    command()
    path = root / name
    text = path.read_text()
    changed = text.replace("ffrfs", "FFRFS", 1)
    path.write_text(changed)
    assert failed(command(), str(path), "was changed since", "--force")
    done = command("--uninstall")
    assert done.status == 1
    assert f"kept {path}: was changed since ffrfs install-units wrote it" in done.lines
    assert {name: path.read_text()} == {name: changed}
    assert files(root).keys() == {name}
    assert told(command("--force"), root) == {"wrote": EXPECTED}
    assert path.read_text() == text


def test_another_versions_file_is_replaced_and_removed(command: Run, root: Path) -> None:
    command()
    for name in (UNIT, PAGE):
        sealed.write(root / name, (root / name).read_text().replace("ffrfs", "older", 1))
    assert told(command(), root) == {"wrote": {UNIT, PAGE}, "unchanged": EXPECTED - {UNIT, PAGE}}
    sealed.write(root / UNIT, "[Unit]\n")
    assert told(command("--uninstall"), root) == {"removed": EXPECTED}


def test_wrong_mode_is_corrected(command: Run, root: Path) -> None:
    command()
    (root / HELPER).chmod(0o600)
    assert told(command(), root)["wrote"] == {HELPER}
    assert stat.S_IMODE((root / HELPER).stat().st_mode) == 0o755


@pytest.mark.parametrize("kind", ["link", "folder", "large"])
def test_links_folders_and_large_files_are_foreign(
    command: Run, root: Path, tmp_path: Path, kind: str
) -> None:
    path, elsewhere = root / UNIT, tmp_path / "elsewhere"
    path.parent.mkdir(parents=True)
    if kind == "link":
        elsewhere.write_text("theirs")
        path.symlink_to(elsewhere)
    elif kind == "folder":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(1 << 30)
    assert failed(command(), str(path), "not written by ffrfs install-units")
    if kind == "folder":
        assert failed(command("--force"), str(path), "is a directory")
    else:
        assert command("--force").status == 0
        assert path.is_file()
        assert not path.is_symlink()
    assert not elsewhere.exists() or elsewhere.read_text() == "theirs"


def test_a_file_in_place_of_a_directory_is_an_error(
    command: Run, tmp_path: Path, root: Path
) -> None:
    (root / "usr").mkdir(parents=True)
    (root / "usr/local").write_text("a file")
    assert failed(command(), str(root / "usr/local"))


def python_that(folder: Path, body: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_interpreter_without_ffrfs_is_refused(
    command: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", python_that(tmp_path, "exit 1"))
    assert failed(command(), str(tmp_path / "python"), "ffrfs is not installed")
    assert not root.exists()


def test_interpreter_that_hangs_is_an_error(
    command: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "_TIMEOUT_S", 0.1)
    monkeypatch.setattr(sys, "executable", python_that(tmp_path, "exec sleep 60"))
    assert failed(command(), str(tmp_path / "python"), "has not imported ffrfs within 0.1 s")
    assert not root.exists()


@pytest.mark.parametrize("name", ["it's", 'a"b', "a$b", "a%b", "a`b", "a\\b", "a\nb"])
def test_interpreter_that_cannot_be_quoted_is_refused(
    command: Run, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr(sys, "executable", python_that(folder, f'exec "{sys.executable}" "$@"'))
    assert failed(command(), "units and shell scripts cannot hold")
    assert not root.exists()


def test_a_wheel_has_the_templates_inside(tmp_path: Path) -> None:
    """A wheel has the templates in the package, and another `systemd` may be beside it."""
    site = tmp_path / "site"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "ffrfs", site / "ffrfs", ignore=ignored)
    shutil.copytree(CHECKOUT / "systemd", site / "ffrfs" / "systemd")
    (site / "systemd").mkdir()
    done = run_copy(site, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("would write ") == len(EXPECTED)
    shutil.rmtree(site / "ffrfs" / "systemd")
    done = run_copy(site, tmp_path)
    assert done.returncode == 1
    assert "the units are missing" in done.stderr


def run_copy(site: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    arguments = ("install-units", "--dry-run", "--destdir", str(tmp_path / "root"))
    environment = os.environ | {"PYTHONPATH": str(site)}
    # -S: otherwise the finder of an editable install would come before the copy.
    return python("-S", "-m", "ffrfs", *arguments, env=environment, cwd=tmp_path)


def test_two_slashes_mean_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below any other root, the command would remove all directories that become empty."""
    roots = []
    monkeypatch.setattr(
        "ffrfs.cli.install_units.uninstall", lambda _, root, **__: roots.append(root) or []
    )
    assert main(["install-units", "--uninstall", "--destdir", "//"]) == 0
    assert roots == ["/"]
