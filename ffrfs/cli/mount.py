"""`ffrfs mount`: arguments to one request; its outcome to lines and an exit status."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ffrfs.cli import output
from ffrfs.errors import OptionError
from ffrfs.mount.config import OPTION_KEYS, Config, make_config
from ffrfs.mount.options import ON_CONFLICT
from ffrfs.mount.report import Report, Status
from ffrfs.mount.request import MountRequest, make_request
from ffrfs.mount.settings import (
    CACHE_MB_DEFAULT,
    ENGINES,
    PREFETCH_BYTES_DEFAULT,
    PREFETCH_RECORDS_DEFAULT,
    PREFETCH_TTL_S_DEFAULT,
    SETTINGS,
    THREADS_MAX,
    Fields,
    parse_setting,
)

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_EPILOG = """\
mount options (-o, comma separated; a backslash escapes a comma):
  allow_other, allow_root    let all users in, or root besides yourself
  uid=N, gid=N, umask=OCTAL  owner and permissions of the tree
  fsname=NAME                first column of /proc/mounts (default: the first PACK)
  xattr                      show user.ffrfs.record and user.ffrfs.crc32
  nonempty                   cover a mount point that is not empty
  noexec, suid, dev          as mount(8); nosuid and nodev are the default
  cache_mb=N, no_extensions, prefetch_window=512:64M, config=FILE, ...
                             the options above as words, for fstab; they win over these
  sloppy                     pass over words that are unknown
Others of mount(8) (ro, nofail, _netdev, user, noatime, x-...) are accepted without effect.

configuration file (--config, TOML): the options above with _ for -, packs = [...],
mountpoint = "...", options = "..."; the command line wins over it.

exit status: 0 the tree can be read; 1 wrong usage, pack or mount point; 2 system error;
32 the mount failed.
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "mount",
        help="mount a packed file or TFRecord files as a read-only directory tree",
        description="Mount PACK at MOUNTPOINT, read-only, every byte checked; several as one tree. "
        "Returns once the tree can be read; a daemon serves it until it is unmounted.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    packs = parser.add_argument(
        "packs",
        metavar="PACK",
        nargs="+",
        help="an FFRecord file, a TFRecord file, or a folder of its shards; or any number of "
        "packed folders, and folders of them (*.ffr), to be shown as one tree; "
        "PACK1:PACK2 is two",
    )
    mountpoint = parser.add_argument(
        "mountpoint",
        metavar="MOUNTPOINT",
        help="a directory; if missing, it is made, and removed when unmounted",
    )
    parser.add_argument("-f", "--foreground", action="store_true", help="serve from this process")
    parser.add_argument(
        "-o",
        dest="options",
        metavar="OPTIONS",
        action="append",
        default=[],
        help="mount options, with commas between them; see below",
    )
    parser.add_argument(
        "--on-conflict",
        choices=ON_CONFLICT,
        help="of a path that stands in several packs show the first PACK's or the last's; "
        "folders merge (default: error)",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="show the rest if packs cannot be opened, or shards of a set are not there",
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        help="what answers the kernel: native (C++), pyfuse3 (Python), or auto, which takes "
        f"native where it was built (default: {ENGINES[0]})",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        help=f"threads of the native engine, 1 to {THREADS_MAX} (default: the cores)",
    )
    parser.add_argument(
        "--cache-mb",
        metavar="N",
        help=f"memory for all buffers together (default: {CACHE_MB_DEFAULT})",
    )
    parser.add_argument(
        "--max-memory",
        metavar="SIZE",
        help="memory of all its processes together, as in 512M or 2G (default: no limit)",
    )
    parser.add_argument(
        "--prefetch-window",
        metavar="RECORDS[,SIZE]",
        help="how far to read ahead of a reader, in records and bytes (64M, 1G); 0: not at all "
        f"(default: {PREFETCH_RECORDS_DEFAULT},{PREFETCH_BYTES_DEFAULT >> 20}M)",
    )
    parser.add_argument(
        "--prefetch-ttl",
        metavar="SECONDS",
        help="drop what was read ahead and is not asked for by then "
        f"(default: {PREFETCH_TTL_S_DEFAULT:g})",
    )
    parser.add_argument(
        "--no-extensions",
        action="store_true",
        help="TFRecord: name features as they are, without .jpg, .npy and the like",
    )
    parser.add_argument(
        "--log-file",
        metavar="FILE",
        help="where the daemon logs (default: a small file in its runtime directory, "
        "or stderr with -f)",
    )
    parser.add_argument(
        "--metrics-file",
        metavar="FILE",
        help="write metrics there every 15 seconds, for the textfile collector of Prometheus's "
        "node_exporter",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        action=_Config,
        may_be_left_out=(packs, mountpoint),
        help="read what is not on the command line from FILE, see below; PACK and MOUNTPOINT "
        "may be left out if it has them, and one argument alone is MOUNTPOINT",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="do not mount, nor leave anything: say whether it would come up",
    )
    parser.add_argument(
        "--while-open",
        metavar="FD",
        type=int,
        help="unmount when the other end of this inherited pipe is closed, for example "
        "because the program that holds it has ended",
    )
    parser.set_defaults(func=run)


class _Config(argparse.Action):
    """Stores the file, and lets arguments be left out that it may have."""

    def __init__(self, *, may_be_left_out: Sequence[argparse.Action], **rest: object) -> None:
        super().__init__(**cast("dict[str, Any]", rest))
        self._may_be_left_out = may_be_left_out

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: object,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, value)
        for action in self._may_be_left_out:
            action.required = False


def run(args: argparse.Namespace) -> int:
    if args.while_open is not None:
        _check_pipe(args.while_open)
    request = make_request(asked(args), while_open=args.while_open)
    if args.check:
        report = _check(request)
    elif args.foreground:
        report = _serve_here(request)
    else:
        from ffrfs.mount import background

        report = background.start(request)
    for line in report.lines:
        output.error(line)
    return report.status


def asked(args: argparse.Namespace) -> Config:
    """What the command line says, by itself."""
    packs, mountpoint = args.packs or [], args.mountpoint
    if mountpoint is None and packs:  # with --config alone
        *packs, mountpoint = packs
    settings = Fields()
    words = list(args.options)
    for name, value in vars(args).items():
        if value in (None, False):
            continue
        if name in SETTINGS:
            settings |= _setting(name, value)
        elif name in OPTION_KEYS:
            words.append(name if value is True else f"{name}={value}")
    return make_config(packs=packs, mountpoint=mountpoint, options=words, settings=settings)


def _setting(name: str, value: str | bool) -> Fields:
    text = "" if value is True else str(value)
    try:
        return parse_setting(name, text)
    except OptionError as error:
        raise OptionError(f"--{name.replace('_', '-')} {text}: {error}") from None


def _check_pipe(fd: int) -> None:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        raise OptionError(f"--while-open {fd}: there is no such open descriptor") from None
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        raise OptionError(f"--while-open {fd}: neither a pipe nor a socket")


def _serve_here(request: MountRequest) -> Report:
    from ffrfs.mount import daemon

    try:
        daemon.serve(request, lambda _: None, foreground=True)
    except Exception as error:
        return Report.failure(error, request)
    return Report(Status.MOUNTED, ())


def _check(request: MountRequest) -> Report:
    from ffrfs.mount import check

    try:
        notices = check.check(request)
    except Exception as error:
        return Report.failure(error, request)
    output.line(f"{request.title}: can be mounted at {request.mountpoint}")
    return Report(Status.MOUNTED, tuple(notices))
