"""`ffrfs mount`: arguments to one request; its outcome to lines and an exit status."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
from typing import Any

from ffrfs.cli import output
from ffrfs.cli.cleaning_up import cleaning_up
from ffrfs.cli.number import whole_number
from ffrfs.cli.opened_tree import add_union_options
from ffrfs.cli.parser import ConfigOption
from ffrfs.errors import FfrfsError, OptionError
from ffrfs.mount.config.config import OPTION_KEYS, Config, make_config
from ffrfs.mount.config.report import Report
from ffrfs.mount.config.request import MountRequest, make_request
from ffrfs.mount.config.settings import GROUPS, SETTINGS, Fields, parse_setting
from ffrfs.mount.kernel.options import may_be_secret

HELP = "mount packs or TFRecord files as a read-only directory tree"
DESCRIPTION = """\
Mount PACK read-only at MOUNTPOINT, several packs as one tree. Every byte is verified. The command
returns when the tree can be read; a daemon serves the tree until it is unmounted.
"""
EPILOG = """\
mount options (-o, comma separated; a backslash escapes a comma):
  allow_other, allow_root    give access to all users, or to root and yourself
  uid=N, gid=N, umask=OCTAL  owner and permissions of the tree
  fsname=NAME                first column of /proc/mounts (default: first PACK)
  xattr                      show user.ffrfs.record and user.ffrfs.crc32
  nonempty                   mount over a directory that is not empty
  noexec, suid, dev          as in mount(8); nosuid and nodev are the default
  nosymfollow                as in mount(8); users other than root need a
                             fusermount3 that knows it
  cache_mb=N, no_extensions, prefetch_window=512:64M, config=FILE, ...
                             the long options as words, for fstab; a long
                             option on the command line overrides its word
  sloppy                     ignore unknown words

Other options of mount(8) (ro, nofail, _netdev, user, noatime, x-...) are accepted and have no
effect; rw has none either, and gives a warning.

configuration file (--config, TOML): the long options with _ for -, packs = [...],
mountpoint = "...", options = "..."; the command line overrides the file.

exit status: 0 the tree can be read; 1 wrong usage, pack or mount point; 2 system error;
32 the mount failed.

Examples:
    ffrfs mount imagenet.ffr /mnt/imagenet
    ffrfs mount -o allow_other a.ffr b.ffr /mnt/both
    ffrfs mount --cache-mb 1024 --check imagenet21k/ /mnt/imagenet21k
    ffrfs mount --config imagenet.toml
"""

COMMON = {
    *("-o", "--check", "--foreground", "--warm", "--config"),
    *("--cache-mb", "--cache-dir", "--cache-size"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    packs = parser.add_argument(
        "packs",
        metavar="PACK",
        nargs="+",
        help="a pack or a directory of packs (*.ffr), any number of them; or one plain FFRecord "
        "file, one TFRecord file, one directory of TFRecord files, one TFDS directory DIR, or its "
        "split DIR/SPLIT; PACK1:PACK2 names two packs",
    )
    mountpoint = parser.add_argument(
        "mountpoint",
        metavar="MOUNTPOINT",
        help="a directory; if missing, it is created, and removed when unmounted",
    )
    parser.add_argument(
        "-o",
        dest="options",
        metavar="OPTIONS",
        action="append",
        default=[],
        help="mount options, separated by commas; see below",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="check that the mount would succeed, without mounting",
    )
    parser.add_argument("-f", "--foreground", action="store_true", help="serve from this process")
    parser.add_argument(
        "--warm",
        action="store_true",
        help="bring all files into memory before the command returns, as `ffrfs warm` does",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        action=ConfigOption,
        may_be_left_out=(packs, mountpoint),
        help=SETTINGS["config"].help,
    )
    add_union_options(parser.add_argument_group("several packs"))
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for name in names:
            setting, how = SETTINGS[name], dict[str, Any](action="store_true")
            if not setting.is_flag:
                how = {"metavar": setting.metavar, "choices": setting.choices}
            group.add_argument(f"--{name.replace('_', '-')}", help=setting.help, **how)
    group.add_argument(  # the last group: rarely needed
        "--while-open",
        metavar="FD",
        type=whole_number(0),
        help="unmount when the other end of the inherited pipe FD is closed, for example "
        "because the program that holds it has ended",
    )


def run(args: argparse.Namespace) -> int:
    if args.while_open is not None:
        _check_pipe(args.while_open)
    _warn_of_old_file()
    request = make_request(asked(args), while_open=args.while_open)
    if request.options.rw:
        output.error("mount option 'rw' has no effect: packs are mounted read-only")
    if args.warm and (args.check or args.foreground):
        raise OptionError("--warm: not with --check or --foreground; run `ffrfs warm` afterwards")
    if args.warm and request.is_remote and request.remote_settings().cache_mode == "stream":
        raise OptionError("--warm: --cache-mode stream keeps nothing of packs at URLs")
    if args.check or args.foreground:
        report = _done_here(request, only_check=args.check)
    else:
        from ffrfs.mount.daemon import background

        report = background.start(request)
    lines = report.lines
    if report.failure is not None:
        from ffrfs.cli.foreign_file import failure_line

        lines = [failure_line(report.failure, "mount")]
    for line in lines:
        output.error(line)
    status = report.status(request)
    if args.warm and status == 0:
        _warm(request.mountpoint)
    return status


def _warm(mountpoint: str) -> None:
    """Warm the new mount, or leave none."""
    from ffrfs.cli.warm import warm
    from ffrfs.mount.client.unmount import unmount

    try:
        with cleaning_up():
            warm(mountpoint, [], is_shown=output.show_progress())
    except BaseException:  # also Ctrl-C, or another signal
        with contextlib.suppress(FfrfsError, OSError):  # somebody else has unmounted it
            unmount(mountpoint)
        raise


def _warn_of_old_file() -> None:
    """Warn if our unit has got variables from a NAME.conf, the file of earlier versions."""
    path = os.environ.get("FFRFS_OLD_CONF", "")
    if os.path.exists(path):
        output.error(
            f"{path}: a later version ignores this file; write its PACKS, MOUNTPOINT and OPTIONS "
            f"into {path.removesuffix('.conf')}.toml (ffrfs.conf(5))"
        )


def asked(args: argparse.Namespace) -> Config:
    """Return the Config of the command line alone."""
    packs, mountpoint = args.packs or [], args.mountpoint
    if mountpoint is None and packs:  # only with --config
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
        shown = "" if may_be_secret(text) else f" {text}"
        raise OptionError(f"--{name.replace('_', '-')}{shown}: {error}") from None


def _check_pipe(fd: int) -> None:
    try:
        mode = os.fstat(fd).st_mode
    except (OSError, OverflowError):
        raise OptionError(f"--while-open {fd}: not an open file descriptor") from None
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        raise OptionError(f"--while-open {fd}: neither a pipe nor a socket")


def _done_here(request: MountRequest, *, only_check: bool) -> Report:
    """Serve in the foreground until the mount ends, or check that it would succeed."""
    try:
        if not only_check:
            from ffrfs.mount.daemon import daemon
            from ffrfs.mount.daemon.kept_mount import kept_mount

            kept = kept_mount()
            if kept is not None and not kept.is_for(request):
                kept.give_up()
                kept = None
            request = request if kept is None else kept.request
            daemon.serve(request, lambda _: None, foreground=True, kept=kept)
            return Report()
        from ffrfs.mount.daemon import check

        notices = check.check(request)
    except Exception as error:
        return Report(failure=error)
    output.line(f"{request.title}: can be mounted at {request.mountpoint}")
    return Report(tuple(notices))
