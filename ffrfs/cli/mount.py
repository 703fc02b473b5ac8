"""`ffrfs mount`: arguments to one request; its outcome to lines and an exit status."""

from __future__ import annotations

import argparse
import os
import re
import stat
from typing import TYPE_CHECKING

from ffrfs.cli import output
from ffrfs.errors import OptionError
from ffrfs.mount.mountpoint import canonical
from ffrfs.mount.options import ON_CONFLICT, parse_options
from ffrfs.mount.report import Report, Status
from ffrfs.mount.request import (
    CACHE_MB_DEFAULT,
    ENGINES,
    PREFETCH_BYTES_DEFAULT,
    PREFETCH_RECORDS_DEFAULT,
    PREFETCH_TTL_S_DEFAULT,
    THREADS_MAX,
    MountRequest,
    default_threads,
)

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_SIZE = re.compile(r"([0-9]{1,18})([KMGT]?)")
_SIZE_LIMIT_BYTES = 1 << 63
_TTL_LIMIT_S = 1_000_000_000

_EPILOG = """\
mount options (-o, comma separated; a backslash escapes a comma):
  allow_other, allow_root    let all users in, or root besides yourself
  uid=N, gid=N, umask=OCTAL  owner and permissions of the tree
  fsname=NAME                first column of /proc/mounts (default: the first PACK)
  xattr                      show user.ffrfs.record and user.ffrfs.crc32
  nonempty                   cover a mount point that is not empty
  on_conflict=WHICH          as --on-conflict; allow_missing as --allow-missing
  noexec, suid, dev          as mount(8); nosuid and nodev are the default
Others of mount(8) (ro, nofail, _netdev, user, noatime, x-...) are accepted without effect.

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
    parser.add_argument(
        "packs",
        metavar="PACK",
        nargs="+",
        help="an FFRecord file, a TFRecord file, or a folder of its shards; or any number of "
        "packed folders, and folders of them (*.ffr), to be shown as one tree",
    )
    parser.add_argument(
        "mountpoint",
        metavar="MOUNTPOINT",
        help="a directory; if missing, it is made, and removed when unmounted",
    )
    parser.add_argument("-f", "--foreground", action="store_true", help="serve from this process")
    parser.add_argument(
        "-o", dest="options", metavar="OPTIONS", action="append", default=[], help="see below"
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
        default=ENGINES[0],
        help="what answers the kernel: native (C++), pyfuse3 (Python), or auto, which takes "
        "native where it was built (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=int,
        default=default_threads(),
        help=f"threads of the native engine, 1 to {THREADS_MAX} (default: the cores, %(default)s)",
    )
    parser.add_argument(
        "--cache-mb",
        metavar="N",
        type=int,
        default=CACHE_MB_DEFAULT,
        help="memory for all buffers together (default: %(default)s)",
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
        type=float,
        default=PREFETCH_TTL_S_DEFAULT,
        help="drop what was read ahead and is not asked for by then (default: %(default)g)",
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
        "--while-open",
        metavar="FD",
        type=int,
        help="unmount when the other end of this inherited pipe is closed, for example "
        "because the program that holds it has ended",
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    request = _request(args)
    if args.foreground:
        report = _serve_here(request)
    else:
        from ffrfs.mount import background

        report = background.start(request)
    for line in report.lines:
        output.error(line)
    return report.status


def _request(args: argparse.Namespace) -> MountRequest:
    if args.cache_mb < 1:
        raise OptionError(f"--cache-mb {args.cache_mb}: must be at least 1")
    if not 1 <= args.threads <= THREADS_MAX:
        raise OptionError(f"--threads {args.threads}: must be 1 to {THREADS_MAX}")
    if not 0 < args.prefetch_ttl <= _TTL_LIMIT_S:  # nor is NaN
        raise OptionError(f"--prefetch-ttl {args.prefetch_ttl:g}: must be over 0, and at most 1e9")
    window_records, window_bytes = _window(args.prefetch_window)
    if args.while_open is not None:
        _check_pipe(args.while_open)
    return MountRequest(
        packs=tuple(os.path.realpath(pack) for pack in args.packs),
        mountpoint=canonical(args.mountpoint),
        options=parse_options([*args.options, *_words(args)]),
        engine=args.engine,
        threads=args.threads,
        cache_bytes=args.cache_mb << 20,
        prefetch_records=window_records,
        prefetch_bytes=window_bytes,
        prefetch_ttl_s=args.prefetch_ttl,
        extensions=not args.no_extensions,
        log_file=os.path.abspath(args.log_file) if args.log_file else None,
        while_open=args.while_open,
    )


def _words(args: argparse.Namespace) -> list[str]:
    """What stands for `-o`."""
    words = [] if args.on_conflict is None else [f"on_conflict={args.on_conflict}"]
    return words + (["allow_missing"] if args.allow_missing else [])


def _window(text: str | None) -> tuple[int, int]:
    """RECORDS[,SIZE] as numbers of records and bytes."""
    if text is None:
        return PREFETCH_RECORDS_DEFAULT, PREFETCH_BYTES_DEFAULT
    records, comma, size = text.partition(",")
    if not re.fullmatch(r"[0-9]{1,18}", records):
        raise OptionError(f"--prefetch-window {text}: needs a number of records, as in 512,64M")
    if not comma:
        return int(records), PREFETCH_BYTES_DEFAULT
    match = _SIZE.fullmatch(size)
    size_bytes = int(match[1]) << 10 * " KMGT".index(match[2] or " ") if match else 0
    if not 0 < size_bytes < _SIZE_LIMIT_BYTES:
        raise OptionError(f"--prefetch-window {text}: needs a size in bytes, as in 512,64M")
    return int(records), size_bytes


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
