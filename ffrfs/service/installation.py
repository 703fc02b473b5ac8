"""Which files make ffrfs a service of its machine, where they belong, and putting them there.

| | below PREFIX, but for the helpers |
|---|---|
| units | `lib/systemd/system` |
| examples | `share/doc/ffrfs` |
| manual pages | `share/man/manN` |
| completions | where bash, zsh and fish look for those that came with a program |
| helpers of mount(8) | where mount(8) looks: `/sbin` |

Not here: what is in them: units (templates.py); manual pages and completions, which are made out
of the argument parser by `make manual`, and are in man/ and completions/.

Concurrency: one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ffrfs.errors import InstallError
from ffrfs.service.owned_file import OwnedFile, Standing
from ffrfs.service.templates import EXAMPLES, HELPER, UNITS, read_template

PREFIX_DEFAULT = "/usr/local"
_HELPERS = ("mount.ffrfs", "mount.fuse.ffrfs")  # of mount -t ffrfs, and -t fuse.ffrfs
_PAGES = ("ffrfs.1", "ffrfs-mount.8", "ffrfs.conf.5")
_COMPLETIONS = {
    "ffrfs.bash": "share/bash-completion/completions/ffrfs",
    "_ffrfs": "share/zsh/site-functions/_ffrfs",
    "ffrfs.fish": "share/fish/vendor_completions.d/ffrfs.fish",
}

Done = tuple[str, str]  # what was done, and to which path


def service_files(interpreter: str, prefix: str = PREFIX_DEFAULT) -> list[OwnedFile]:
    """All of them. `interpreter` is the absolute path of the Python that has ffrfs."""
    files = []

    def add(place: str, text: str, mode: int = 0o644) -> None:
        files.append(OwnedFile(os.path.join(prefix, place), text, mode))

    for name in UNITS:
        add(f"lib/systemd/system/{name}", read_template(name, interpreter))
    for name in EXAMPLES:
        add(f"share/doc/ffrfs/{name}", read_template(name, interpreter))
    for name in _HELPERS:
        add(os.path.join(_helper_folder(), name), read_template(HELPER, interpreter), 0o755)
    for name in _PAGES:
        add(f"share/man/man{name.rpartition('.')[2]}/{name}", _read_made("man", name))
    for name, place in _COMPLETIONS.items():
        add(place, _read_made("completions", name))
    return files


def install(
    files: Iterable[OwnedFile], root: str, *, force: bool = False, dry_run: bool = False
) -> Iterator[Done]:
    """Write them below the directory `root`, each whole or not at all; yield each.

    Raises InstallError, before anything is written, if that would destroy another program's
    file, or changes of ours; with `force` it does.
    """
    standings = {file: file.standing(root) for file in files}
    for file, standing in standings.items():
        if not force and standing in (Standing.FOREIGN, Standing.CHANGED):
            raise InstallError(f"{file.place(root)}: {_REASONS[standing]}; --force replaces it")
    for file, standing in standings.items():
        if standing is Standing.CURRENT:
            yield "unchanged", file.place(root)
            continue
        if not dry_run:
            file.write(root)
        yield "would write" if dry_run else "wrote", file.place(root)


def uninstall(
    files: Iterable[OwnedFile], root: str, *, force: bool = False, dry_run: bool = False
) -> Iterator[Done]:
    """Remove what install() has written there, of this version or another; yield each.

    Keeps what others have written or changed, and says so; with `force` what was changed goes.
    """
    for file in files:
        standing = file.standing(root)
        place = file.place(root)
        if standing is Standing.ABSENT:
            continue
        if standing is Standing.FOREIGN or (standing is Standing.CHANGED and not force):
            yield "kept", f"{place}: {_REASONS[standing]}"
            continue
        if not dry_run:
            file.remove(root)
        yield "would remove" if dry_run else "removed", place


_REASONS = {
    Standing.FOREIGN: "was not written by ffrfs install-units",
    Standing.CHANGED: "was changed since ffrfs install-units wrote it",
}


def _read_made(folder: str, name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), folder, name), encoding="utf-8") as file:
        return file.read()


def _helper_folder() -> str:
    """Where mount(8) looks; on most machines a link, which no file should be put beside."""
    return os.path.realpath("/sbin")
