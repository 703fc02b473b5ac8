"""`ffrfs mount --check` reports what a mount would report, and leaves no trace."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from ffrfs.mount.kernel.mount_table import mount_at
from tests.mount.command import ENGINES, Done, ffrfs, mount_command_fails
from tests.mount.machine import Machine
from tests.mount.makers import ORDINARY_USER_ID, MakeMount, PackTree, by_both


@pytest.fixture
def pack(pack_tree: PackTree) -> Path:
    return pack_tree({"a": b"alpha"})


def everything(folder: Path) -> list[tuple[str, int, int]]:
    """Return the paths, sizes and times of everything below a folder."""
    paths = [folder, *folder.rglob("*")]
    return [(str(p), p.lstat().st_size, p.lstat().st_mtime_ns) for p in sorted(paths)]


def check(*arguments: str | os.PathLike[str]) -> Done:
    return ffrfs("mount", "--check", *arguments)


@by_both
@pytest.mark.promise("S45")
@pytest.mark.parametrize("exists", [True, False])
def test_check_leaves_no_files(
    engine: str, pack: Path, places: Path, tmp_path: Path, exists: bool
) -> None:
    place = places / "data"
    if exists:
        place.mkdir()
    before = everything(places), everything(tmp_path)
    files = ["--log-file", tmp_path / "log", "--metrics-file", tmp_path / "metrics"]
    done = check("--engine", engine, *files, pack, place)
    assert (done.status, done.err) == (0, "")
    assert done.out == f"{pack}: can be mounted at {place}\n"
    assert (everything(places), everything(tmp_path)) == before
    assert mount_at(str(place)) is None


@pytest.mark.promise("S45")
@pytest.mark.parametrize(
    ("engine", "what"),
    [
        *(("native", what) for what in ("named", "named, there", "default", "default, there")),
        ("pyfuse3", "default"),
    ],
)
def test_check_leaves_no_cache(
    engine: str, pack: Path, places: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(places / "caches"))
    cache = places / "caches/ffrfs"
    if "there" in what:
        cache.mkdir(0o700, parents=True)
    before = everything(places)
    words = ["--cache-dir", str(cache)] if "named" in what else []
    done = check("--engine", engine, *words, f"file://{pack}", places / "data")
    assert (done.status, done.err) == (0, "")
    assert everything(places) == before


@pytest.mark.promise("S45")
@pytest.mark.parametrize(
    ("engine", "what"),
    [
        *(("native", what) for what in ("file", "below a file", "dangling", "open to all")),
        ("pyfuse3", "file"),
    ],
)
def test_check_refuses_an_unusable_cache_like_mounting(
    new_mount: MakeMount, pack: Path, places: Path, engine: str, what: str
) -> None:
    cache = places / "cache"
    match what:
        case "file" | "below a file":
            cache.touch()
            cache = cache / "x/y" if what != "file" else cache
        case "dangling":
            cache.symlink_to("nothing")
        case "open to all":
            cache.mkdir()
            cache.chmod(0o777)
    mount = new_mount(f"file://{pack}")
    checked, mounted = (mount.mount(*how, "--cache-dir", str(cache)) for how in (["--check"], []))
    mount_command_fails(checked, 1, str(cache))
    assert checked == mounted


def test_no_sidecar_is_written(fuse: None, places: Path, golden: Path, tmp_path: Path) -> None:
    """A mount of this many records would write a sidecar."""
    pack = tmp_path / "large.ffr"
    count = 100_001
    pack.write_bytes(bytes(4) + count.to_bytes(8, "little") + bytes(12 * count))
    done = check(pack, places / "data")
    assert done.status == 1
    assert os.listdir(tmp_path) == ["large.ffr"]


@pytest.mark.promise("S45")
@pytest.mark.parametrize(
    ("engine", "what"),
    [
        *((engine, what) for engine in ENGINES for what in ("pack", "bad pack")),
        *(("native", what) for what in ("option", "not empty", "file", "parent", "log")),
        *(("native", what) for what in ("there", "config", "memory")),
    ],
)
def test_check_gives_the_same_error_as_mounting(
    fuse: None, new_mount: MakeMount, pack: Path, places: Path, what: str
) -> None:
    place, bad = places / "data", pack.with_name("bad.ffr")
    bad.write_bytes(b"no pack at all")
    place.mkdir()
    packs, arguments, named = [pack], [], ""
    match what:
        case "pack":
            packs = [pack, pack.with_name("missing.ffr")]
        case "bad pack":
            packs = [bad]
        case "option":
            arguments = ["-o", "bogus=1"]
        case "not empty":
            (place / "file").touch()
        case "file":
            place.rmdir()
            place.touch()
        case "parent":
            place = places / "missing" / "data"
        case "log":
            named = str(places / "missing" / "log")
            arguments = ["--log-file", named]
        case "there":
            assert new_mount(pack, mountpoint=place).mount().status == 0
        case "config":
            arguments = ["--config", str(bad)]
        case "memory":
            arguments = ["--max-memory", "1M"]
    mount = new_mount(*packs, mountpoint=place)
    checked, mounted = mount.mount("--check", *arguments), mount.mount(*arguments)
    mount_command_fails(checked, 32 if what == "there" else 1, named)
    if what == "memory":  # the message contains the memory of the process itself
        without_figures = [re.sub("[0-9]+", "", done.err) for done in (checked, mounted)]
        assert without_figures[0] == without_figures[1]
    else:
        assert checked == mounted


@pytest.mark.promise("S45")
@pytest.mark.parametrize(
    ("engine", "form"), [("native", "{}"), ("native", "file://{}"), ("pyfuse3", "file://{}")]
)
def test_memory_limit_that_passes_the_check_is_enough_to_mount(
    engine: str, new_mount: MakeMount, pack: Path, form: str
) -> None:
    mount, limit_mb = new_mount(form.format(pack)), 64
    alone: dict[str, Any] = {"prefix": []}  # starts processes that have not imported ffrfs yet
    while (done := mount.mount("--check", f"--max-memory={limit_mb}M", **alone)).status != 0:
        advised = re.search(r"give it (\d+)M or more", done.err)
        assert advised
        assert int(advised[1]) > limit_mb
        limit_mb = int(advised[1])
    assert mount.mount(f"--max-memory={limit_mb}M", **alone).status == 0


def test_metrics_file_that_cannot_be_written_is_only_a_notice(
    engine: str, pack: Path, places: Path
) -> None:
    file = places / "missing" / "metrics"
    done = check("--engine", engine, "--metrics-file", file, pack, places / "data")
    assert done.status == 0
    assert done.err.startswith(f"ffrfs: metrics cannot be written to {file}: ")


def test_check_passes_over_a_dead_mount_and_leaves_it(new_mount: MakeMount, pack: Path) -> None:
    mount = new_mount(pack)
    assert mount.mount().status == 0
    mount.kill()
    mount.wait_for_daemon()
    dead = mount_at(str(mount.path))
    done = mount.mount("--check")
    assert (done.status, done.err) == (0, "")
    assert mount_at(str(mount.path)) == dead is not None


@pytest.mark.promise("S45")
def test_check_refuses_an_ordinary_user_as_mounting_does(
    machine: Machine, pack_tree: PackTree, places: Path
) -> None:
    machine.open_to_all()
    pack = places / "user.ffr"
    pack.write_bytes(pack_tree({"a": b"alpha"}).read_bytes())
    place, theirs = places / "roots", places / "theirs"
    place.mkdir()
    theirs.mkdir()
    os.chown(theirs, ORDINARY_USER_ID, ORDINARY_USER_ID)

    def both(*arguments: str | Path) -> tuple[Done, Done]:
        checked = machine.ffrfs("mount", "--check", *arguments, user_id=ORDINARY_USER_ID)
        return checked, machine.ffrfs("mount", *arguments, user_id=ORDINARY_USER_ID)

    words = (f"file://{pack}", theirs, "--cache-dir")
    for cache in (place, place / "new"):
        checked, mounted = both(*words, cache)
        assert (checked.status, mounted.status) == (1, 1), (checked, mounted)
        assert f": {cache}" in checked.err
        assert checked == mounted
    checked, mounted = both(pack, theirs)
    assert (checked.status, checked.err) == (mounted.status, mounted.err) == (0, "")
    assert machine.ffrfs("umount", theirs, user_id=ORDINARY_USER_ID).status == 0
    sticky = places / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    for words, status in (([pack, place], 32), ([pack, sticky], 32), ([pack, places / "new"], 1)):
        checked, mounted = both(*words)
        assert (checked.status, mounted.status) == (status, status), (checked, mounted)
        assert checked.err.splitlines()[0].partition(" ")[0] == "ffrfs:"
    machine.admin("mount --bind /dev/null /etc/fuse.conf")
    checked, mounted = both(pack, theirs, "-o", "allow_other")
    assert checked.status == 32
    assert checked == mounted
