"""--config: which settings a configuration file may have, and which ones win over it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffrfs.cli import main
from ffrfs.errors import MountError, OptionError
from ffrfs.mount.config.config import KEYS, Config, make_config, read_config, split_packs
from ffrfs.mount.config.request import MountRequest, make_request, reread
from ffrfs.mount.kernel.options import TreeOptions
from tests.ascii_locale import ASCII
from tests.mount.command import ffrfs, mount_command_fails
from tests.mount.config.asked import request_of
from tests.mount.makers import PackTree

ALL = """\
packs = ["a.ffr", "/data/b.ffr"]
mountpoint = "mnt/here"
options = ["ro,allow_other", "uid=7,threads=5"]
on_conflict = "last"
allow_missing = true
engine = "pyfuse3"
transport = "dev"
threads = 3
cache_mb = 64
max_memory = "512M"
prefetch_window = "9,1M"
prefetch_ttl = 1.5
no_extensions = true
log_file = "log"
metrics_file = "/var/metrics.prom"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "data.toml"


@pytest.mark.promise("S45")
def test_all_settings_at_once(config: Path) -> None:
    config.write_text(ALL)
    folder = os.path.realpath(config.parent)
    request = request_of("--config", str(config))
    assert request == MountRequest(
        packs=(f"{folder}/a.ffr", "/data/b.ffr"),
        mountpoint=f"{folder}/mnt/here",
        options=TreeOptions(uid=7, allow_other=True, on_conflict="last", allow_missing=True),
        engine="pyfuse3",
        transport="dev",
        threads=3,
        cache_bytes=64 << 20,
        max_memory_bytes=512 << 20,
        prefetch_records=9,
        prefetch_bytes=1 << 20,
        prefetch_ttl_s=1.5,
        extensions=False,
        log_file=str(config.parent / "log"),
        metrics_file="/var/metrics.prom",
        config_file=str(config),
        asked=request.asked,
    )


@pytest.mark.promise("S45")
def test_every_long_option_is_a_key() -> None:
    parser = main.make_parser(["mount"])
    (commands,) = (action for action in parser._actions if action.choices)
    assert isinstance(commands.choices, dict)
    names = {
        word.removeprefix("--").replace("-", "_")
        for action in commands.choices["mount"]._actions
        for word in action.option_strings
        if word.startswith("--")
    }
    # Options that say how the command runs, not what it mounts.
    assert names - KEYS == {
        "help",
        "help_all",
        "foreground",
        "config",
        "check",
        "warm",
        "while_open",
    }
    assert KEYS - names == {"packs", "mountpoint", "options"}


def test_a_shared_cache(config: Path) -> None:
    assert not request_of("/x.ffr", "/mnt").remote_settings().cache_shared
    for words in (["--cache-shared"], ["-o", "cache_shared"]):
        assert request_of(*words, "/x.ffr", "/mnt").remote_settings().cache_shared
    config.write_text('packs = "/x.ffr"\nmountpoint = "/mnt"\ncache_shared = true\n')
    assert request_of("--config", str(config)).remote_settings().cache_shared


def test_urls_that_differ_only_in_their_query_are_refused() -> None:
    for other in ("http://h/x.ffr?key=hush", "http://h/x.ffr"):
        with pytest.raises(OptionError, match="named twice") as caught:
            request_of("http://h/x.ffr?key=1", other, "/mnt")
        assert "hush" not in str(caught.value)
    request_of("http://h/x.ffr?key=1", "http://h/y.ffr?key=2", "/mnt")


@pytest.mark.parametrize("value", ["https://me:hush@s3.example", "https://s3.example/?key=hush"])
def test_password_in_a_bad_endpoint_is_not_shown_in_the_error(config: Path, value: str) -> None:
    config.write_text(f'endpoint_url = "{value}"\n')
    for words in (
        ["--endpoint-url", value],
        ["-o", f"endpoint_url={value}"],
        ["--config", str(config)],
    ):
        with pytest.raises(OptionError, match="is not an endpoint") as caught:
            request_of(*words, "/x.ffr", "/mnt")
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "packs = [['https://h/x.ffr?sig=hush']]",
        "packs = {here = 'https://h/x.ffr?sig=hush'}",
        "endpoint_url = ['https://me:hush@h']",
        "options = 'endpoint_ulr=https://me:hush@h'",
    ],
)
def test_password_in_a_mistake_is_not_shown_in_the_error(config: Path, text: str) -> None:
    config.write_text(text)
    with pytest.raises(OptionError, match=rf"^{config}: .*{text[:5]}|endpoint_ulr") as caught:
        read_config(str(config))
    assert "hush" not in str(caught.value)


@pytest.mark.promise("S45")
def test_the_command_line_wins(config: Path) -> None:
    config.write_text(ALL)
    request = request_of(
        *("--config", str(config), "--cache-mb", "8", "-o", "threads=2,uid=9,prefetch_ttl=2"),
        *("--on-conflict", "first", "--prefetch-window", "0", "/x.ffr", "--", "/y.ffr", "/mnt"),
    )
    assert (request.packs, request.mountpoint) == (("/x.ffr", "/y.ffr"), "/mnt")
    assert (request.cache_bytes, request.threads, request.options.uid) == (8 << 20, 2, 9)
    assert (request.prefetch_records, request.prefetch_bytes) == (0, 1 << 20)
    assert request.prefetch_ttl_s == 2.0
    assert request.options.on_conflict == "first"
    assert request.engine == "pyfuse3"  # only the file sets it


def test_single_argument_with_a_config_file_is_the_mount_point(config: Path) -> None:
    config.write_text(ALL)
    request = request_of("/mnt", "--config", str(config))
    assert request.packs[1] == "/data/b.ffr"
    assert request.mountpoint == "/mnt"


def test_options_between_the_arguments() -> None:
    request = request_of("--threads", "2", "/a.ffr", "-o", "xattr", "/mnt")
    assert (request.packs, request.mountpoint) == (("/a.ffr",), "/mnt")


@pytest.mark.promise("S45", "S49")
def test_rereading_the_file_keeps_command_line_options(config: Path) -> None:
    config.write_text(ALL)
    request = request_of("--config", str(config), "--threads", "4")
    config.write_text(ALL.replace("64", "32").replace("threads = 3", "threads = 6"))
    again = reread(request)
    assert (again.cache_bytes, again.threads) == (32 << 20, 4)
    assert request.cache_bytes == 64 << 20
    config.write_text("nonsense")
    with pytest.raises(OptionError, match="not TOML"):
        reread(request)


@pytest.mark.promise("S45")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cache_mb = 0", ["cache_mb = 0", "at least 1"]),
        ("cache_mb = '64'", ["cache_mb", "a whole number"]),
        ("cache_mb = true", ["cache_mb", "a whole number"]),
        ("threads = 17", ["threads = 17", "1 to 16"]),
        ("threads = 2.0", ["threads", "a whole number"]),
        ("engine = 'fast'", ["engine = 'fast'", "pyfuse3"]),
        ("transport = 'rdma'", ["transport = 'rdma'", "uring"]),
        ("transport = 'uring'\nengine = 'pyfuse3'", ["transport uring", "native engine"]),
        ("max_memory = '2X'", ["max_memory = '2X'", "512M"]),
        ("max_memory = 512", ["max_memory = 512", "is 512 bytes", "512M"]),
        ("options = 'max_memory=512'", ["max_memory=512", "is 512 bytes"]),
        ("max_memory = 0", ["max_memory = 0"]),
        ("prefetch_window = 'far'", ["prefetch_window = 'far'"]),
        ("prefetch_window = '1,2,3'", ["prefetch_window"]),
        ("prefetch_ttl = 0", ["prefetch_ttl = 0"]),
        ("prefetch_ttl = nan", ["prefetch_ttl = nan"]),
        ("prefetch_ttl = inf", ["prefetch_ttl = inf"]),
        ("no_extensions = 'yes'", ["no_extensions", "true or false"]),
        ("on_conflict = 'both'", ["on_conflict=both", "first"]),
        ("on_conflict = 'first,xattr'", ["on_conflict=first,xattr"]),
        ("log_file = ''", ["log_file = ''", "name of a file"]),
        ("cache_dir = '~/x'", ["cache_dir = '~/x'", f"the whole path ({Path.home()}/x)"]),
        ("cache_dir = '$HOME/x'", ["cache_dir = '$HOME/x'", f"({Path.home()}/x)"]),
        ("cache_dir = '${NOTHING}'", ["cache_dir = '${NOTHING}'", "write the whole path"]),
        ("options = 'cache_dir=~/x'", ["cache_dir=~/x", f"({Path.home()}/x)"]),
        (r'log_file = "a\u0000b"', ["log_file", "NUL"]),
        ("packs = 7", ["packs = 7", "a list of strings"]),
        ("packs = ['a', 7]", ["packs = 7", "a string"]),
        ("packs = 'a::b'", ["a::b"]),
        ("packs = ''", ["the name of a pack is empty"]),
        ("mountpoint = ['m']", ["mountpoint", "a string"]),
        ("options = 'bogus'", ["'bogus'"]),
        ("options = 'config=x'", ["config"]),
        ("config = 'x'", ["config: unknown key"]),
        ("cache-mb = 1", ["cache-mb: unknown key", "cache_mb"]),
        ("[mount]\nthreads = 1", ["mount: unknown key"]),
        ("threads", ["not TOML", "line 1"]),
        ("threads = 1\nthreads = 2", ["not TOML"]),
        ("packs = " + "[" * 100_000, ["not TOML"]),
        ("# \udcff", ["not TOML"]),
        ("#" * (1 << 20), ["1 MiB"]),
    ],
)
def test_error_names_the_file_and_the_mistake(config: Path, text: str, words: list[str]) -> None:
    config.write_text(text + "\n", errors="surrogateescape")
    with pytest.raises(OptionError) as caught:
        request_of("/p", "/m", "--config", str(config))
    message = str(caught.value)
    for word in [str(config), *words]:
        assert word in message
    assert "\n" not in message


def test_pack_name_that_the_locale_cannot_encode(config: Path, tmp_path: Path) -> None:
    config.write_text('packs = ["pü.ffr"]\n')
    done = ffrfs("mount", "--config", config, env=os.environ | ASCII, cwd=tmp_path)
    mount_command_fails(
        done, 1, f"{config}: ", r"'\xfc'", "the locale has no such chara", "LC_ALL=C.UTF-8"
    )


@given(st.text(alphabet='ab="[]{}\n\\,.:#\t1é', max_size=60))
def test_any_text_gives_a_config_or_an_option_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text(text)
    try:
        assert isinstance(read_config(str(path)), Config)
    except OptionError as error:
        assert str(error).startswith(f"{path}: ")


@pytest.mark.parametrize("missing", ["packs", "mountpoint"])
def test_missing_packs_or_mount_point_is_an_error(config: Path, missing: str) -> None:
    lines = {"packs": "packs = '/p'", "mountpoint": "mountpoint = '/m'"}
    del lines[missing]
    config.write_text("\n".join(lines.values()))
    done = ffrfs("mount", "--config", config)
    mount_command_fails(done, 1, str(config), f"no {missing}")


def test_missing_config_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "absent.toml"
    mount_command_fails(ffrfs("mount", "--config", path), 1, str(path), "No such file")


@pytest.mark.promise("S45")
def test_optional_config_file(config: Path) -> None:
    arguments = [f"--config=-{config}", "--threads", "2", "--", "/p.ffr", "/m"]
    missing = request_of(*arguments)
    assert (missing.packs, missing.mountpoint, missing.threads) == (("/p.ffr",), "/m", 2)
    config.write_text(ALL)
    there = request_of(*arguments)
    assert (there.packs, there.threads, there.cache_bytes) == (("/p.ffr",), 2, 64 << 20)
    assert reread(missing) == there  # the file was made meanwhile
    config.unlink()
    assert reread(there) == missing


def test_url_as_the_mount_point_is_refused_and_shown_as_written(config: Path) -> None:
    config.write_text("mountpoint = 's3://a/b'\n")
    with pytest.raises(MountError, match=r"^s3://a/b: is a URL"):
        request_of("/p", f"--config={config}")


def test_empty_mount_point_counts_as_missing(config: Path) -> None:
    """An empty mount point counts as none, because a unit cannot leave an argument out."""
    config.write_text(ALL)
    folder = os.path.realpath(config.parent)
    assert request_of(f"--config=-{config}", "--", "").mountpoint == f"{folder}/mnt/here"
    with_pack = request_of(f"--config={config}", "--", "/x.ffr", "")
    assert (with_pack.packs, with_pack.mountpoint) == (("/x.ffr",), f"{folder}/mnt/here")


@pytest.mark.parametrize("arguments", [["umount"], ["mount", "/p", ""]])
def test_missing_optional_file_gives_no_mount_point(config: Path, arguments: list[str]) -> None:
    done = ffrfs(*arguments, f"--config=-{config}")
    mount_command_fails(done, 1, f"{config}: no mountpoint")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cache-mb", "0"], ["--cache-mb 0:", "at least 1"]),
        (["--cache-mb", "9" * 13], ["--cache-mb 9999999999999:", "at most 8,796,093,022,207"]),
        (["--cache-mb", "-5"], ["--cache-mb -5:"]),
        (["--cache-mb", "much"], ["--cache-mb much:"]),
        (["--threads", "0"], ["--threads 0:", "1 to 16"]),
        (["--max-memory", "lots"], ["--max-memory lots:", "2G"]),
        (["--metrics-file", ""], ["--metrics-file"]),
        (["-o", "threads"], ["'threads' needs a value"]),
        (["-o", "no_extensions=1"], ["'no_extensions=1' takes no value"]),
        (["-o", "prefetch_window=1:x"], ["'prefetch_window=1:x'", "512,64M"]),
        (["-o", "remount"], ["remount"]),
    ],
)
def test_bad_option_values_give_one_error_line(arguments: list[str], words: list[str]) -> None:
    mount_command_fails(ffrfs("mount", *arguments, "/p", "/m"), 1, *words)


@pytest.mark.promise("S45")
def test_mounting_with_only_a_config_file(fuse: None, pack_tree: PackTree, config: Path) -> None:
    """A relative path begins in the folder of the file, whatever the working directory is."""
    pack = pack_tree({"a": b"alpha"})
    pack.rename(config.with_name("here.ffr"))
    config.write_text("packs = 'here.ffr'\nmountpoint = 'm'\nthreads = 2\nlog_file = 'm.log'")
    try:
        done = ffrfs("mount", "--config", config.name, cwd=config.parent)
        assert (done.status, done.err) == (0, "")
        assert ffrfs("stats", config.with_name("m")).status == 0
    finally:
        done = ffrfs("umount", "--config", config.name, cwd=config.parent)
    assert (done.status, done.err) == (0, "")
    assert "mounted at" in config.with_name("m.log").read_text()


def test_memory_limit_error_names_the_option_or_the_setting(
    fuse: None, pack_tree: PackTree, config: Path
) -> None:
    """Whether the limit is too small is known only when the packs are open."""
    pack = pack_tree({"a": b"content"})
    config.write_text(
        f"packs = {str(pack)!r}\nmountpoint = {str(config.parent / 'mnt')!r}\nmax_memory = '16M'\n"
    )
    text = " 16M cannot hold this mount"
    for command in (["mount"], ["mount", "--check"]):
        done = ffrfs(*command, "--config", config)
        mount_command_fails(done, 1, f"ffrfs: {config}: max_memory ={text}")
        done = ffrfs(*command, "--config", config, "--max-memory", "16M")
        mount_command_fails(done, 1, f"ffrfs: --max-memory{text}")


# --- PACK1:PACK2 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "packs"),
    [
        ("a", ["a"]),
        ("/a:/b c:d", ["/a", "/b c", "d"]),
        (r"a\:b", ["a:b"]),
        (r"a\:b:c\\:d", ["a:b", "c\\", "d"]),
        ("a\\", ["a\\"]),
        ("a:b\\", ["a", "b\\"]),
    ],
)
def test_splitting_a_list_of_packs(argument: str, packs: list[str]) -> None:
    assert split_packs(argument) == packs


@pytest.mark.parametrize("argument", ["", ":", "a:", ":a", "a::b"])
def test_empty_pack_name_is_refused(argument: str) -> None:
    with pytest.raises(OptionError, match=r"without a name|is empty"):
        split_packs(argument)


@pytest.mark.promise("S44")
def test_existing_name_with_a_colon_is_one_pack(tmp_path: Path) -> None:
    (tmp_path / "a:b").touch()
    assert split_packs("a:b", str(tmp_path)) == ["a:b"]
    assert make_config(packs=["a:b"], settings={}, folder=str(tmp_path)).spec is None


@given(st.lists(st.text(alphabet="ab:\\ ,", min_size=1, max_size=6), min_size=2, max_size=4))
def test_splitting_undoes_the_escapes(names: list[str]) -> None:
    escaped = [name.replace("\\", "\\\\").replace(":", "\\:") for name in names]
    assert split_packs(":".join(escaped)) == names


@pytest.mark.parametrize(
    ("spec", "source"),
    [
        ("/a:/b/", "/a:/b/"),  # as fstab has it
        ("a\\:b:c", "{here}/a\\:b:{here}/c"),
        ("/" + "a" * 4000 + ":/" + "b" * 4000, "/" + "a" * 4000),  # longer than the kernel takes
    ],
)
def test_mount_source_of_several_packs(spec: str, source: str) -> None:
    config = make_config(packs=[spec], mountpoint="/m", settings={})
    assert make_request(config).source == source.format(here=os.getcwd())


def test_setting_names_inside_an_option_value_are_no_settings() -> None:
    options: dict[str, Any] = {"uid": 1, "fsname": "config=x,threads=3"}
    config = make_config(
        packs=["/p"], mountpoint="/m", options=["uid=1,fsname=config=x\\,threads=3"], settings={}
    )
    assert make_request(config).options == TreeOptions(**options)
    assert make_request(config).config_file is None
