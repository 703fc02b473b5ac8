"""install() and `python -m ffrfs.compat` provide the original's name, and shadow nothing."""

from __future__ import annotations

import py_compile
from pathlib import Path

import pytest

from tests.interpreter import python

SHOW = "import ffrecord, sys; print(ffrecord.FileReader.__module__, *sys.argv, sys.path[0])\n"


def run(program: str, cwd: Path) -> str:
    done = python("-c", program, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_installing_loads_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, ffrfs.compat as compat\n"
        "assert compat.install('ffrecord') == compat.install()\n"
        "assert sys.path.count(compat.install()) == 1\n"
        "heavy = {'ffrecord', 'ffrfs._native', 'numpy', 'torch', 'trio'}\n"
        "print(*heavy & sys.modules.keys())\n"
        "import ffrecord\n"
        "from ffrecord import *\n"
        "FileReader, FileWriter, PackedFolder, checkFsAlign\n"
        "print(*{'torch', 'trio'} & sys.modules.keys())\n"
    )
    assert run(program, tmp_path) == "\n\n"


def test_importlib_finds_the_module(tmp_path: Path) -> None:
    program = (
        "import ffrfs.compat, importlib.util\n"
        "assert importlib.util.find_spec('ffrecord') is None\n"
        "ffrfs.compat.install('ffrecord')\n"
        "for name in ('ffrecord', 'ffrecord.utils', 'ffrecord.package'):\n"
        "    assert importlib.util.find_spec(name) is not None\n"
        "import ffrecord\n"
        "assert 'utils' in dir(ffrecord)\n"
        "assert ffrecord.utils.dump.__module__ == 'ffrfs.record.dump'\n"
        "ffrecord.nonsense\n"
    )
    done = python("-c", program, cwd=tmp_path)
    assert done.stderr.endswith("AttributeError: module 'ffrecord' has no attribute 'nonsense'\n")


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    done = python("-c", "import ffrfs.compat; ffrfs.compat.install('webdataset')", cwd=tmp_path)
    assert done.stderr.endswith(
        "OptionError: there is no compatibility module 'webdataset'; there is: ffrecord\n"
    )


@pytest.mark.parametrize("form", ["package", "module"])
def test_the_original_is_not_shadowed(tmp_path: Path, form: str) -> None:
    file = tmp_path / ("ffrecord/__init__.py" if form == "package" else "ffrecord.py")
    file.parent.mkdir(exist_ok=True)
    file.write_text("")
    for before in ("", "import ffrecord\n"):
        program = f"{before}import ffrfs.compat; ffrfs.compat.install('ffrecord')"
        done = python("-c", program, cwd=tmp_path)
        assert f"InstallError: ffrecord itself is installed ({file})" in done.stderr
    (tmp_path / "script.py").write_text(SHOW)
    done = python("-m", "ffrfs.compat", "script.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"ffrfs: ffrecord itself is installed ({file})")
    assert done.stderr.count("\n") == 1


def test_the_original_beside_a_script_is_not_shadowed(tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "ffrecord.py").write_text("")
    (folder / "script.py").write_text(SHOW)
    done = python("-m", "ffrfs.compat", folder / "script.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"is installed ({folder}/ffrecord.py)" in done.stderr
    (tmp_path / "script.py").write_text(SHOW)  # the original is not beside this script
    done = python("-m", "ffrfs.compat", tmp_path / "script.py", cwd=folder)
    assert done.stdout.split()[0] == "ffrfs.record.reader", done.stderr


def test_a_directory_named_ffrecord_is_not_the_original(tmp_path: Path) -> None:
    (tmp_path / "ffrecord").mkdir()  # it may hold data
    program = "import ffrfs.compat; ffrfs.compat.install('ffrecord')\n" + SHOW
    assert run(program, tmp_path).split()[0] == "ffrfs.record.reader"


def test_a_script_has_its_own_arguments_directory_and_status(tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "beside.py").write_text("value = 3\n")
    script = folder / "script.py"
    script.write_text(f"{SHOW}import beside\nassert __name__ == '__main__'\nsys.exit(beside.value)")
    done = python("-m", "ffrfs.compat", script, "--lr", "-m", "1", "-h", cwd=tmp_path)
    expected = ["ffrfs.record.reader", str(script), "--lr", "-m", "1", "-h", str(folder)]
    assert (done.stdout.split(), done.returncode, done.stderr) == (expected, 3, "")


def test_running_a_module(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text(SHOW)
    done = python("-m", "ffrfs.compat", "-m", "job.train", "x", cwd=tmp_path)
    file = str(tmp_path / "job" / "train.py")
    assert done.stdout.split()[:3] == ["ffrfs.record.reader", file, "x"], done.stderr


@pytest.mark.parametrize("how", ["script", "module", "directory", "compiled"])
def test_threads_and_atexit_functions_find_the_scripts_classes(tmp_path: Path, how: str) -> None:
    file = tmp_path / ("job/__main__.py" if how == "directory" else "job.py")
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        "import atexit, pickle, threading\n"
        "class Config:\n    size: int = 3\n"
        "def save():\n"
        "    threading.main_thread().join()\n"
        "    print(pickle.loads(pickle.dumps(Config())).size)\n"
        "atexit.register(lambda: print(pickle.loads(pickle.dumps(Config())).size))\n"
        "threading.Thread(target=save).start()\n"
        "print(Config.__annotations__)\n"  # types: it imports no annotations from __future__
    )
    arguments: dict[str, list[str | Path]] = {
        "script": [file],
        "module": ["-m", "job"],
        "directory": [file.parent],
        "compiled": [tmp_path / "job.pyc"],
    }
    py_compile.compile(str(file), str(tmp_path / "job.pyc"))
    done = python("-m", "ffrfs.compat", *arguments[how], cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("{'size': <class 'int'>}\n3\n3\n", "")


def test_child_processes_find_the_module_too(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {SHOW!r}], check=True)\n"
        "import os; print(os.environ['PYTHONPATH'].count('original-names'))\n"
    )
    first = python("-m", "ffrfs.compat", "script.py", cwd=tmp_path)
    assert first.stdout.split()[0] == "ffrfs.record.reader", first.stderr
    assert first.stdout.split()[-1] == "1"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [([], "required: SCRIPT"), (["none.py"], "none.py: there is no such script")],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], text: str) -> None:
    done = python("-m", "ffrfs.compat", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr
