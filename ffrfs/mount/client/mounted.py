"""A mount for the time of a `with` block, served by a process of its own.

Never by this process: a program that reads its own mount waits for itself, and one
that forks (data loader workers) would copy the server. The daemon watches a pipe that
this process holds, so that it unmounts even if this process is killed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ffrfs.errors import MountError, OptionError
from ffrfs.mount.client.unmount import unmount
from ffrfs.mount.kernel.mount_table import mount_at
from ffrfs.mount.kernel.mountpoint import canonical
from ffrfs.mount.kernel.options import escape

OptionValue = bool | int | str
PathType = str | os.PathLike[str]

log = logging.getLogger(__name__)


@contextlib.contextmanager
def mounted(  # noqa: PLR0913 - a pack, and how
    pack: PathType | Sequence[PathType],
    mountpoint: PathType | None = None,
    *,
    engine: str | None = None,
    cache_mb: int | None = None,
    log_file: PathType | None = None,
    extensions: bool = True,
    **options: OptionValue,
) -> Iterator[Path]:
    """Mount `pack`, or several as one tree, yield the mount point, and unmount at the end.

    Without `mountpoint` a new directory in the temporary folder is used, and removed
    afterwards. `engine` ("native" or "pyfuse3") and `cache_mb` are those of `ffrfs mount`,
    `extensions=False` is its --no-extensions, `options` those of `-o`: allow_other=True,
    uid=1000, umask="022", on_conflict="first".
    Files still open at the end of the block can be read on. Raises MountError with the
    reason if it cannot be mounted.
    """
    if mountpoint is None:
        # The daemon makes it: then it also removes it if this process is killed.
        mountpoint = os.path.join(tempfile.gettempdir(), f"ffrfs-{secrets.token_hex(8)}")
    place = canonical(os.fspath(mountpoint))
    arguments = [] if extensions else ["--no-extensions"]
    if options:
        arguments += ["-o", ",".join(_word(name, value) for name, value in options.items())]
    log_path = None if log_file is None else os.fspath(log_file)
    flags = {"engine": engine, "cache-mb": cache_mb, "log-file": log_path}
    for name, value in flags.items():
        if value is not None:
            arguments += [f"--{name}", str(value)]
    given = [pack] if isinstance(pack, str | os.PathLike) else pack
    packs = [os.fspath(path) for path in given]
    theirs, ours = os.pipe()
    try:
        try:
            _run_mount([*arguments, "--", *packs, place], owner=theirs)
        finally:
            os.close(theirs)
        try:
            yield Path(place)
        finally:
            if mount_at(place) is not None:  # else somebody has unmounted it already
                done = unmount(place)
                if done.notice is not None:
                    log.warning("%s", done.notice)
    finally:
        os.close(ours)


def _run_mount(arguments: list[str], owner: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ffrfs", "mount", "--while-open", str(owner), *arguments],
        pass_fds=[owner],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ffrfs mount exited with {done.returncode}"]
        raise MountError(lines[-1].removeprefix("ffrfs: "))


def _word(name: str, value: OptionValue) -> str:
    if value is True:
        return name
    if value is False:
        raise OptionError(f"mount option {name!r}: leave it out instead of giving False")
    return f"{name}={escape(str(value))}"
