"""The command as a process: signals, pipes, terminals, users, imports."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ffrfs
from ffrfs.cli.main import COMMANDS, main
from tests.checkout import CHECKOUT
from tests.cli.command_run import Run, running
from tests.ffrecord_file import write_folder, write_records
from tests.interpreter import python
from tests.terminal import run_on_terminal

TIMEOUT_S = 60
NOBODY = 65534


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return write_records(tmp_path / "x.ffr", [bytes(8 << 20), *(b"small" for _ in range(20_000))])


def test_ctrl_c_gives_one_line_and_status_130(pack: Path) -> None:
    # The command writes to a pipe that nobody empties, and waits there.
    with running("cat", pack, "000000000") as process:
        assert select.select([process.stdout], [], [], TIMEOUT_S)[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b"ffrfs: interrupted\n"


@pytest.mark.parametrize(
    ("way", "module"),
    [
        *(("command", f"ffrfs.cli.{name}") for name in ("main", "parser", "ls")),
        ("python -m ffrfs", "ffrfs.cli.main"),
    ],
)
def test_ctrl_c_during_imports_gives_the_same(way: str, module: str) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    entry, _, function = project["scripts"]["ffrfs"].partition(":")
    command = f"from {entry} import {function}; sys.exit({function}())"
    program = (
        "import runpy, signal, sys\n"
        "class Interrupter:\n"
        "    @staticmethod\n"
        "    def find_spec(name, *_):\n"
        f"        if name == {module!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupter)\n"
        "sys.argv[0] = 'ffrfs'\n"
        + (command if way == "command" else "runpy.run_module('ffrfs', run_name='__main__')")
    )
    done = python("-c", program, "ls", "absent")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ffrfs: interrupted\n")


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"], ["cat"]])
def test_a_closed_pipe_gives_status_141_and_no_message(pack: Path, arguments: list[str]) -> None:
    paths = ["000000000"] if arguments == ["cat"] else []
    with running(*arguments, pack, *paths) as process:
        assert process.stdout is not None
        assert len(process.stdout.read(10)) == 10
        process.stdout.close()
        assert process.wait(TIMEOUT_S) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize("denied", ["getrlimit", "setrlimit"])
def test_verify_works_where_rlimits_are_denied(pack: Path, denied: str) -> None:
    program = (
        "import resource, sys\n"
        "from ffrfs.cli.main import main\n"
        "def denied(*_): raise PermissionError(1, 'Operation not permitted')\n"
        f"resource.{denied} = denied\n"
        "sys.exit(main())"
    )
    done = python("-c", program, "verify", pack)
    assert (done.returncode, done.stderr) == (0, "")
    done = python("-c", program, "verify", "absent")
    said = "ffrfs: absent: cannot open: No such file or directory\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    "line",
    ["ls {}", "info {}", "info --json {}", "cat {} 000000001", "verify {}", "help", "top -n1"],
)
def test_a_full_disk_behind_stdout_is_an_error(pack: Path, line: str) -> None:
    words = line.format(pack).split()
    with open("/dev/full", "wb") as full, running(*words, stdout=full) as process:
        _, err = process.communicate(timeout=TIMEOUT_S)
    said = b"ffrfs: standard output: No space left on device\n"
    assert (process.returncode, err) == (1, said)


@pytest.mark.parametrize("line", ["help", "ls --help", "pack --help-all"])
def test_help_fails_on_a_full_disk_with_unbuffered_stdout(line: str) -> None:
    words = ["-u", "-m", "ffrfs", *line.split()]  # as in many containers
    with open("/dev/full", "wb") as full:
        assert python(*words, capture_output=False, stdout=full).returncode == 1


@pytest.mark.promise("S59")
def test_a_check_that_cannot_write_its_result_is_critical(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full, running("check", tmp_path, stdout=full) as process:
        assert process.wait(TIMEOUT_S) == 2


def test_closed_stdout_and_stderr_are_no_error(pack: Path) -> None:
    command = [sys.executable, "-m", "ffrfs", "ls", str(pack)]
    script = f"{shlex.join(command)} >&-; echo $?; {shlex.join(command)}.none 2>&-; echo $?"
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=TIMEOUT_S, check=True)
    assert (done.stdout, done.stderr) == (b"0\n1\n", b"")


@pytest.mark.parametrize(
    ("line", "status", "is_full"),
    [
        *(("ls {}", 0, True), ("ls {}.none", 1, True), ("ls", 2, True), ("mount --bogus", 1, True)),
        *(("ls {}.none", 1, False), ("x", 2, False)),
    ],
)
def test_stderr_that_accepts_nothing_does_not_change_the_status(
    pack: Path, line: str, status: int, is_full: bool
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full, open(writer, "wb") as broken:
        stderr = full if is_full else broken
        words = line.format(pack).split()
        with running(*words, stdout=subprocess.DEVNULL, stderr=stderr) as process:
            assert process.wait(TIMEOUT_S) == status


@pytest.mark.parametrize("arguments", [["ls", "file://{}"], ["mount", "--check", "{}"], ["top"]])
def test_closed_stdin_is_no_error(pack: Path, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "mnt").mkdir()
    words = [word.format(pack) for word in arguments]
    words += {"mount": [str(tmp_path / "mnt")], "top": ["-n", "1"]}.get(words[0], [])
    script = f"{shlex.join([sys.executable, '-m', 'ffrfs', *words])} <&-"
    done = subprocess.run(["sh", "-c", script], capture_output=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_names_send_no_escape_sequences_to_the_terminal(tmp_path: Path) -> None:
    names = ("\x1b]0;title\x07", "new\nline", "\udcff")
    file = write_folder(tmp_path / "x.ffr", dict.fromkeys(names, b""))
    output = run_on_terminal("-m", "ffrfs", "ls", file)
    assert output.splitlines() == [rb"\x1b]0;title\x07", rb"new\nline", rb"\xff"]
    # A zero byte follows each name; a terminal does not show it.
    output = run_on_terminal("-m", "ffrfs", "ls", "-0", file)
    assert output == rb"\x1b]0;title\x07" + b"\0" + rb"new\nline" + b"\0" + rb"\xff" + b"\0"


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls", "x.ffr", "a", "{name}"],
        ["ls", "x.ffr", "--on-conflict", "{name}"],
        ["convert", "x.ffr", "{name}"],
        ["{name}"],
    ],
    ids=" ".join,
)
def test_arguments_send_no_escape_sequences_to_the_terminal(
    ffrfs: Run, arguments: list[str]
) -> None:
    name = "a\x1b]0;title\x07\n\udcff"
    done = ffrfs(*(argument.format(name=name) for argument in arguments))
    assert done.status == 2
    assert r"a\x1b]0;title\x07\n\xff" in done.err or r"'a\x1b]0;title\x07\n\udcff'" in done.err
    assert not any(char in done.err for char in "\x1b\x07")
    assert done.err.splitlines()[-1].startswith("ffrfs")


def test_a_progress_bar_sends_no_escape_sequences_of_names(tmp_path: Path) -> None:
    file = write_folder(tmp_path / "x.ffr", {"a": b"1"})
    output = run_on_terminal("-m", "ffrfs", "extract", file, tmp_path / "a\x1b]0;title\x07")
    assert b"a?]0;title?: " in output
    assert b"\x07" not in output


@pytest.mark.parametrize(
    "call", ["main(['ls', pack])", "main(['info', pack])", "main(['pack', '--help'])", "prefetch"]
)
def test_commands_do_not_load_trio_pyfuse3_or_torch(pack: Path, call: str) -> None:
    program = (
        "import sys, contextlib\n"
        "from ffrfs import prefetch\n"
        "from ffrfs.cli.main import main\n"
        f"pack = {str(pack)!r}\n"
        "with contextlib.suppress(SystemExit):\n"
        f"    {call}\n"
        "print(sorted({'trio', 'pyfuse3', 'torch'} & sys.modules.keys()), file=sys.stderr)\n"
    )
    done = python("-c", program, check=True, text=False)
    assert done.stderr == b"[]\n"


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_loads_no_command(option: str) -> None:
    done = python("-X", "importtime", "-m", "ffrfs", option, check=True)
    assert done.stdout == f"ffrfs {ffrfs.__version__}\n"
    loaded = set(re.findall(r"ffrfs\.cli\.(\w+)", done.stderr))
    assert "parser" in loaded
    assert not loaded & set(COMMANDS)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own folders."""
    path = Path(tempfile.mkdtemp(prefix="ffrfs-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def as_nobody(arguments: list[str]) -> tuple[int, str]:
    """Run the command in a fork of this process that has given up its rights.

    It forks, because this Python may be where that user cannot read it. All modules that the
    command needs must be imported before.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 99
        with contextlib.suppress(BaseException):
            os.close(reader)
            os.dup2(writer, 2)
            sys.stderr = os.fdopen(writer, "w")
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            status = main(arguments)
            sys.stderr.flush()
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as output:
        err = output.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), err


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("command", ["ls", "cat", "extract", "info", "verify"])
def test_no_permission(open_folder: Path, capfd: pytest.CaptureFixture[str], command: str) -> None:
    pack = write_records(open_folder / "x.ffr", [b"secret"])
    more = {"cat": ["000000000"], "extract": [str(open_folder / "out")]}.get(command, [])
    assert main([command, str(pack), *more]) == 0  # this also imports everything
    shutil.rmtree(open_folder / "out", ignore_errors=True)
    pack.chmod(0)
    status, err = as_nobody([command, str(pack), *more])
    assert (status, err) == (1, f"ffrfs: {pack}: cannot open: Permission denied\n")
    assert "secret" not in capfd.readouterr().out.replace("secret", "", 1)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_no_permission_to_pack(open_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, out = open_folder / "source", open_folder / "out"
    source.mkdir()
    out.mkdir()
    (source / "f").write_bytes(b"secret")
    source.chmod(0o755)
    (source / "f").chmod(0o644)
    assert main(["pack", "-q", str(source), str(out / "x.ffr")]) == 0  # this imports everything
    (out / "x.ffr").unlink()

    arguments = ["pack", "-q", str(source), str(out / "x.ffr")]
    out.chmod(0o555)
    status, err = as_nobody(arguments)
    assert (status, err) == (1, f"ffrfs: {out}/x.ffr: cannot create: Permission denied\n")
    out.chmod(0o777)
    (source / "f").chmod(0)
    status, err = as_nobody(arguments)
    assert (status, err) == (1, f"ffrfs: {source}/f: cannot open: Permission denied\n")
    source.chmod(0)
    status, err = as_nobody(arguments)
    assert (status, err) == (1, f"ffrfs: {source}: Permission denied\n")
    source.chmod(0o755)
    assert os.listdir(out) == []
