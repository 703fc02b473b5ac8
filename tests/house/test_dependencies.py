"""pyproject.toml declares every import of the package, and packs and mounts need no extra."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.house import sources
from tests.interpreter import python
from tests.tfrecord_file import write_tfrecord

OURS = {"ffrfs", "ffrecord"}  # the latter in ffrfs/adapters/compat/original-names
MISNAMED = {
    "megatron": ["megatron-energon"],
    "apache_beam": ["apache-beam"],
    "upath": ["universal-pathlib"],
}


def declared(with_extras: bool = True) -> set[str]:
    """Return what ffrfs requires, and its users' extras, but not those for tests and examples."""
    project = tomllib.loads(sources.text(Path("pyproject.toml")))["project"]
    lists = [project["dependencies"]]
    lists += [
        names
        for extra, names in project["optional-dependencies"].items()
        if with_extras and extra not in ("test", "demo", "docs") and not extra.startswith("check-")
    ]
    words = [re.split(r"[^\w.-]", name)[0] for names in lists for name in names]
    return set(map(normalized, words))


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def imported() -> list[tuple[Path, str]]:
    """Return (file, name) of each third-party package that ffrfs imports."""
    return [
        (path, top)
        for path in sources.files(".py", ".pyi", below="ffrfs")
        for _, module in sources.imports(path)
        if (top := module.partition(".")[0]) not in {*OURS, *sys.stdlib_module_names}
    ]


@functools.cache
def distributions() -> Mapping[str, Sequence[str]]:
    """Return distributions by import name. is_of() assumes that absent ones have the same name."""
    return packages_distributions() | MISNAMED


def is_of(top: str, known: set[str]) -> bool:
    return not known.isdisjoint(map(normalized, distributions().get(top, [top])))


def test_every_import_is_declared() -> None:
    known = declared() | {"typing-extensions"}  # for type checkers alone, which bring it
    assert {f"{path} imports {top}" for path, top in imported() if not is_of(top, known)} == set()


def bare(*words: str | Path, status: int = 0) -> str:
    """Run the command as after a bare installation, with only the required packages."""
    return run_bare("from ffrfs.cli.main import main; sys.exit(main())", *words, status=status)


def run_bare(program: str, *words: str | Path, status: int = 0) -> str:
    known = declared(with_extras=False)
    absent = {top for _, top in imported() if not is_of(top, known)}
    assert absent >= {"google", "rich", "tqdm", "obstore", "torch", "starlette"}
    hidden = f"import sys; sys.modules.update(dict.fromkeys({sorted(absent)}))\n"
    done = python("-c", hidden + program, *words, cwd=sources.CHECKOUT)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "a.tfrecord", [b"first", b"second"])


def test_packs_and_mounts_need_no_extra(tmp_path: Path, records: Path) -> None:
    source, pack, mountpoint = (tmp_path / name for name in ("source", "x.ffr", "mnt"))
    for folder in (source, mountpoint):
        folder.mkdir()
    (source / "file").write_bytes(b"content")
    bare("pack", source, pack)
    assert bare("ls", pack) == "file\n"
    assert bare("cat", pack, "file") == "content"
    bare("extract", pack, tmp_path / "out")
    # Each kind of file once, and each engine once.
    for path, engine, expected in (
        (pack, "native", b"content"),
        (records, "pyfuse3", b"firstsecond"),
    ):
        bare("verify", path)
        bare("info", path)
        bare("mount", "--engine", engine, path, mountpoint)
        try:
            command = ["sh", "-c", "find $1 -type f | sort | xargs cat", "sh", mountpoint]
            read = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
        finally:
            bare("umount", mountpoint)
        assert read == expected


def test_examples_say_which_extra_they_need(records: Path) -> None:
    assert bare("head", records, status=1) == (
        "ffrfs: Examples need the package protobuf; to install it: pip install 'ffrfs[examples]'\n"
    )


@pytest.mark.parametrize(
    ("program", "need", "extra"),
    [
        ("import ffrfs.torch", "ffrfs.torch needs PyTorch", "torch"),
        ("import ffrfs; ffrfs.view('x')", "pages need starlette, anyio, ", "view"),
    ],
)
def test_modules_say_which_extra_they_need(program: str, need: str, extra: str) -> None:
    *_, said = run_bare(program, status=1).splitlines()
    assert said.startswith(f"ffrfs.errors.MissingPackageError: {need}")
    assert said.endswith(f"; to install it: pip install 'ffrfs[{extra}]'")


@pytest.mark.parametrize(("source", "target"), [("x.jsonl", "x.parquet"), ("x.csv", "x.tfrecord")])
def test_tables_say_which_extra_they_need(source: str, target: str) -> None:
    said = bare("convert", source, target, status=1)
    assert said.endswith("; to install it: pip install 'ffrfs[parquet]'\n")


def test_the_slow_disk_of_the_demo_needs_no_extra() -> None:
    assert run_bare("import benchmarks.slow_demo") == ""
