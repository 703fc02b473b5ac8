"""The files that make ffrfs a service of its machine: their places, installing and removing them.

| | below PREFIX, except the helpers |
|---|---|
| units | `lib/systemd/system` |
| examples | `share/doc/ffrfs` |
| manual pages | `share/man/manN` |
| completions | where bash, zsh and fish look for those of installed programs |
| helpers of mount(8) | where mount(8) looks: `/sbin` |

Not here: their contents: units (templates.py); manual pages and completions, which `make manual`
makes from the argument parser, in man/ and completions/.

Concurrency: one thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ffrfs.errors import InstallError
from ffrfs.service.owned_file import OwnedFile, Standing
from ffrfs.service.templates import EXAMPLES, HELPER, UNITS, read_template

PREFIX_DEFAULT = "/usr/local"
_HELPERS = ("mount.ffrfs", "mount.fuse.ffrfs")  # for mount -t ffrfs, and -t fuse.ffrfs
_PAGES = ("ffrfs.1", "ffrfs-mount.8", "ffrfs.conf.5")
_COMPLETIONS = {
    "ffrfs.bash": "share/bash-completion/completions/ffrfs",
    "_ffrfs": "share/zsh/site-functions/_ffrfs",
    "ffrfs.fish": "share/fish/vendor_completions.d/ffrfs.fish",
}

Done = tuple[str, str]  # the action, and its path


def service_files(interpreter: str, prefix: str = PREFIX_DEFAULT) -> list[OwnedFile]:
    """Return all of them. `interpreter` is the absolute path of the Python that has ffrfs."""
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
    """Write the files below the directory `root`, each whole or not at all; yield each.

    Raises InstallError, before anything is written, if that would destroy another program's
    file, or changes of ours; with `force` it replaces them.
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
    """Remove the files of install(), of this version or another; yield each.

    Keeps and reports files that others have written or changed; `force` removes changed ones.
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
    """Return mount(8)'s directory for helpers; usually a symbolic link, which is resolved."""
    return os.path.realpath("/sbin")
