"""-o: which options are understood, which are ignored, and which are refused by name."""

from __future__ import annotations

import os

import pytest

from ffrfs.errors import OptionError
from ffrfs.mount.kernel.options import TreeOptions, escape, parse_words, split_options
from tests.mount.command import mount_command_fails
from tests.mount.makers import MakeMount, PackTree


def parse_options(texts: list[str]) -> TreeOptions:
    return parse_words(split_options(texts))


def test_defaults() -> None:
    options = parse_options([])
    assert options == TreeOptions()
    assert (options.uid, options.gid, options.umask) == (os.getuid(), os.getgid(), 0)
    assert not (options.allow_other or options.suid or options.dev or options.xattr)


@pytest.mark.promise("S20")
def test_options_that_mount8_passes_on_are_accepted() -> None:
    word = "rw,ro,nofail,_netdev,user,noexec,nosuid,nodev,noatime,x-systemd.automount,x-a=b,user=me"
    assert parse_options([word]) == TreeOptions(exec=False)
    assert parse_options([word, "rw"]) == TreeOptions(exec=False, rw=True)
    assert parse_options(["nosymfollow"]) == TreeOptions(symfollow=False)
    assert parse_options(["nosymfollow,symfollow"]) == TreeOptions()


def test_option_values() -> None:
    options = parse_options(["uid=0,gid=4294967294,umask=0027", r"fsname=a\,b\\c d,xattr"])
    assert (options.uid, options.gid, options.umask) == (0, 2**32 - 2, 0o27)
    assert options.fsname == r"a,b\c d"
    assert options.xattr


def test_later_options_win() -> None:
    assert parse_options(["noexec,suid,uid=1", "exec,nosuid,uid=2"]) == TreeOptions(uid=2)


def test_empty_options_are_ignored() -> None:
    assert parse_options(["", ",", "rw,,ro,"]) == TreeOptions()


@pytest.mark.parametrize("value", ["plain", "a,b", "a\\b", "\\,\\", "a b=c", "ü,\\,,"])
def test_parsing_undoes_escaping(value: str) -> None:
    assert parse_options([f"ro,fsname={escape(value)},xattr"]).fsname == value


@pytest.mark.promise("S20")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("bogus", "bogus"),
        ("ro,max_read=4096", "max_read=4096"),
        ("ro=1", "ro=1"),
        ("xattr=yes", "xattr=yes"),
        ("RO", "RO"),
        ("uid=", "uid="),
        ("uid=me", "uid=me"),
        ("uid=-1", "uid=-1"),
        ("uid=4294967295", "uid=4294967295"),
        ("gid= 1", "gid= 1"),
        ("gid=\u0661", "gid=\u0661"),  # a digit, but no ASCII digit
        ("umask=8", "umask=8"),
        ("umask=1000", "umask=1000"),
        ("fsname=", "fsname="),
        ("ro,\\", "backslash"),
        ("allow_other,allow_root", "allow_root"),
        ("x", "x"),
    ],
)
def test_bad_options_are_named_in_the_error(text: str, named: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options([text])
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rw_is_a_warning(new_mount: MakeMount, pack_tree: PackTree) -> None:
    mount = new_mount(pack_tree({"a": b""}))
    done = mount.mount("-o", "rw")
    assert done.status == 0
    assert done.err == "ffrfs: mount option 'rw' has no effect: packs are mounted read-only\n"
    assert mount.is_mounted


@pytest.mark.parametrize("fd", ["99", "0"])
def test_owner_that_is_no_open_pipe_is_refused(
    new_mount: MakeMount, pack_tree: PackTree, fd: str
) -> None:
    mount = new_mount(pack_tree({"a": b""}))
    mount_command_fails(mount.mount("--while-open", fd), 1, "--while-open")
    assert not mount.is_mounted


@pytest.mark.parametrize("arguments", [[], ["--bogus"], ["more"]])
def test_wrong_usage_gives_status_1_like_mount8(
    new_mount: MakeMount, pack_tree: PackTree, arguments: list[str]
) -> None:
    mount = new_mount(pack_tree({"a": b""}))
    done = mount.mount(*arguments, "one too many") if not arguments else mount.mount(*arguments)
    assert done.status == 1
    assert "Traceback" not in done.err
    assert not mount.is_mounted
