"""The order of the rooms (docs/architecture.md): calls go downwards only."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sources

# Higher number: higher room. Rooms of the same number do not know each other.
PYTHON_ROOMS = {
    "cli": 4,
    "torch": 4,
    "mount": 3,
    "service": 3,
    "fsspec": 2,
    "convert": 2,
    "folder": 1,
    "record": 0,
    "tfrecord": 0,
}
# For every room: the exceptions, and the core.
PYTHON_GROUND = {"errors", "_native"}
# Not rooms: the package's own front, which names what a user imports.
PYTHON_FRONT = {"ffrfs", "ffrfs.__main__"}

NATIVE_ROOMS = {
    "python": 6,
    "fuse": 5,
    "volume": 4,
    "tree": 3,
    "record": 2,
    "tfrecord": 2,
    "shard": 1,
    "io": 0,
}

# Who may import what is dear or dangerous: module → files.
OWNERS = {
    "trio": "ffrfs/mount/*",
    "pyfuse3": "ffrfs/mount/pyfuse3_engine.py",
    "torch": "ffrfs/torch/*",
    "fsspec": "ffrfs/fsspec/*",
}
# errno belongs to the engines, which answer the kernel with it. These read the kernel's
# answers to our own calls, and tell its reasons apart.
ERRNO_READERS = {
    "ffrfs/mount/pyfuse3_engine.py": "an engine",
    "ffrfs/mount/kernel_mount.py": "why mount(2) or umount(2) refused",
    "ffrfs/mount/dead_mount.py": "a dead mount (ENOTCONN, ECONNABORTED)",
    "ffrfs/mount/mountpoint.py": "a dead mount (ENOTCONN), a folder that is in use (EBUSY)",
    "ffrfs/mount/tree_probe.py": "whether a mount answers at all, or has ended (ENOTCONN)",
}


def python_files() -> tuple[Path, ...]:
    return sources.files(".py", below="ffrfs")


def native_files() -> tuple[Path, ...]:
    return sources.files(".cc", ".h", below="native")


def room_of(module: str) -> str:
    """"ffrfs.mount.daemon" → "mount"."""
    return module.split(".")[1] if module.count(".") else ""


def test_every_python_module_stands_in_a_room() -> None:
    known = PYTHON_ROOMS.keys() | PYTHON_GROUND
    strays = [
        module
        for module in map(sources.module_name, python_files())
        if module not in PYTHON_FRONT and room_of(module) not in known
    ]
    assert strays == []


def python_upcalls() -> Iterator[str]:
    for path in python_files():
        module = sources.module_name(path)
        room = room_of(module)
        for line, target in sources.imports(path):
            wanted = room_of(target)
            if not target.startswith("ffrfs.") or module in PYTHON_FRONT or wanted == room:
                continue
            if wanted in PYTHON_GROUND:
                continue
            # The ground knows nobody; a name of the front (`from ffrfs import x`) is above all.
            height = PYTHON_ROOMS.get(room, -1)
            if PYTHON_ROOMS.get(wanted, sys.maxsize) >= height:
                yield f"{path}:{line} imports {target}"


def test_python_rooms_call_downwards_only() -> None:
    assert list(python_upcalls()) == []


def native_upcalls() -> Iterator[str]:
    for path in native_files():
        room = path.parts[1]
        for ours, name in sources.includes(path):
            if not ours:
                continue
            wanted = name.split("/")[0]
            if wanted != room and NATIVE_ROOMS.get(wanted, sys.maxsize) >= NATIVE_ROOMS[room]:
                yield f'{path} includes "{name}"'
            elif not (sources.CHECKOUT / "native" / name).is_file():
                yield f'{path} includes "{name}", which is not named from native/'


def test_native_rooms_call_downwards_only() -> None:
    assert {path.parts[1] for path in native_files()} <= NATIVE_ROOMS.keys()
    assert list(native_upcalls()) == []


@pytest.mark.parametrize(
    ("headers", "room"), [(r"pybind11/|Python\.h|numpy/", "python"), (r"fuse", "fuse")]
)
def test_the_core_knows_nothing_of(headers: str, room: str) -> None:
    found = [
        f"{path} includes <{name}>"
        for path in native_files()
        if path.parts[1] != room
        for ours, name in sources.includes(path)
        if not ours and re.match(headers, name)
    ]
    assert found == []


@pytest.mark.parametrize("owned", OWNERS)
def test_owned_import(owned: str) -> None:
    found = [
        f"{path}:{line}"
        for path in python_files()
        if not path.match(OWNERS[owned])
        for line, target in sources.imports(path)
        if target.split(".")[0] == owned
    ]
    assert found == []


def test_errno_is_read_where_the_kernel_is_spoken_to() -> None:
    found = {
        str(path)
        for path in python_files()
        for _, target in sources.imports(path)
        if target.split(".")[0] == "errno"
    }
    assert found <= ERRNO_READERS.keys()


def prints(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "print":
            yield node.lineno
        # sys.stderr alone may be where a log goes.
        if isinstance(node, ast.Attribute) and re.match(
            r"sys\.(stdout|stderr\.(write|buffer))", ast.unparse(node)
        ):
            yield node.lineno


def test_only_cli_prints() -> None:
    found = [
        f"{path}:{line}"
        for path in python_files()
        if not path.is_relative_to("ffrfs/cli")
        for line in prints(sources.syntax(path))
    ]
    assert found == []


def code_runners(path: Path) -> Iterator[int]:
    """Lines that could run what a file says: pickle's readers, eval, exec."""
    readers = {"load", "loads", "Unpickler", "_load", "_loads", "_Unpickler"}
    modules = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
    for line, target in sources.imports(path):
        module, _, name = target.partition(".")
        if module in modules and name in readers:
            yield line
    for node in ast.walk(sources.syntax(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("eval", "exec"):
            yield node.lineno
        if (
            isinstance(node, ast.Attribute)
            and node.attr in readers
            and ast.unparse(node.value) in modules
        ):
            yield node.lineno


def test_nothing_unpickles() -> None:
    found = [f"{path}:{line}" for path in python_files() for line in code_runners(path)]
    assert found == []


@pytest.mark.parametrize(
    "statement", ["import ffrfs", "from ffrfs import FileReader, PackedFolder, pack_folder"]
)
def test_import_is_light(statement: str) -> None:
    heavy = ["trio", "pyfuse3", "torch", "fsspec", "cv2", "PIL", "argparse", "ffrfs.mount"]
    program = f"import sys; {statement}; print(*sorted(set({heavy!r}) & sys.modules.keys()))"
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=sources.CHECKOUT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.split() == []
