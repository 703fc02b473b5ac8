"""The order of the rooms (docs/architecture.md): calls go downwards only."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import sources
from tests.interpreter import python

# From the top down: a room may call only rooms in the lines below its own. The commands and the
# viewer are above three parts. A reader of one part need not know the parts above it.
COMMANDS = """
cli
"""
VIEW = """
view
"""
ADAPTERS = """
adapters.compat
adapters.torch adapters.ray adapters.dask adapters.webdataset adapters.grain adapters.energon
adapters.beam
adapters.upath
adapters.fsspec
adapters.bad_samples
"""
TENSORFLOW = """
convert schema
tfrecord.dataset tfrecord.examples
tfrecord.parsing
"""
# This part makes packs and mounts them. It reads and writes TFRecord files, but knows no Examples.
PACKS = """
cluster
top
service mount.daemon mount.client
mount.stats
mount.engines
mount.config
mount.kernel
packing
packing.sources
folder
record tfrecord
remote
cache
files
"""
PYTHON_ROOMS = COMMANDS + VIEW + ADAPTERS + TENSORFLOW + PACKS
# All rooms may use these: the exceptions, names as text, sizes, and the core.
PYTHON_GROUND = {"errors", "printable", "sizes", "_native"}
# These are no rooms, but fronts: modules with the names that users import.
PYTHON_FRONT = {"ffrfs", "ffrfs.__main__", "ffrfs.mount", "ffrfs.tfrecord", "ffrfs.adapters"}
PYTHON_FRONT |= {"ffrfs.torch", "ffrfs.ray", "ffrfs.dask", "ffrfs.compat"}
PYTHON_FRONT |= {"ffrfs.fsspec", "ffrfs.upath", "ffrfs.webdataset", "ffrfs.grain"}
PYTHON_FRONT |= {"ffrfs.energon", "ffrfs.beam"}
PYTHON_FRONT |= {"ffrfs.tfrecord.messages"}  # old pickles name it

NATIVE_ROOMS = """
python worker guardian
fuse
volume
prefetch
open
scrub
fetch
union example pickle
entries
tree
record tfrecord
shard
remote
stats
io
"""
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400

# The files that may import a costly or dangerous module: module → one or several patterns.
OWNERS = {
    "trio": "ffrfs/mount/*/* ffrfs/view/*",
    "pyfuse3": "ffrfs/mount/engines/pyfuse3_engine.py",
    "torch": "ffrfs/adapters/torch/*",
    "ray": "ffrfs/adapters/ray/* ffrfs/cluster/*",
    "dask": "ffrfs/adapters/dask/*",
    "fsspec": "ffrfs/adapters/fsspec.py",
    "upath": "ffrfs/adapters/upath.py",
    "apache_beam": "ffrfs/adapters/beam/*",
    "megatron": "ffrfs/adapters/energon.py",
    "webdataset": "ffrfs/adapters/webdataset.py",
    "distributed": "ffrfs/cluster/adapters.py",
    "mpi4py": "ffrfs/cluster/executors.py",
    "google": "ffrfs/tfrecord/examples/* ffrfs/schema/*",
    "tqdm": "ffrfs/folder/progress.py ffrfs/record/dump.py",
    "rich": "ffrfs/top/*",
    "termios": "ffrfs/top/*",
    "starlette": "ffrfs/view/*",
    "jinja2": "ffrfs/view/*",
    "PIL": "ffrfs/view/*",
    "obstore": "ffrfs/remote/*",
    "boto3": "ffrfs/remote/*",
    "asyncio": "ffrfs/remote/*",
}
# errno belongs to the engines, which answer the kernel with it. These files read the kernel's
# answers to our own calls, to tell its reasons apart.
ERRNO_READERS = {
    "ffrfs/adapters/fsspec.py": "its answer to what writes (EROFS), as fsspec's users expect it",
    "ffrfs/cache/sparse.py": "a range that is all holes (ENXIO), a full disk (ENOSPC, EDQUOT)",
    "ffrfs/errors.py": "what to advise (EMFILE, ENFILE, EFBIG); false offsets (EINVAL)",
    "ffrfs/files/staged_file.py": "a name that is taken (EEXIST), where link(2) cannot say it",
    "ffrfs/mount/engines/pyfuse3_engine.py": "an engine",
    "ffrfs/mount/engines/refusal.py": "an engine whose workers have died",
    "ffrfs/mount/kernel/kernel_mount.py": "why mount(2) or umount(2) refused",
    "ffrfs/mount/kernel/system_call.py": "whether a filter of system calls has denied one",
    "ffrfs/mount/kernel/dead_mount.py": "a dead mount (ENOTCONN, ECONNABORTED)",
    "ffrfs/remote/object_fetcher.py": "a moment without descriptors (EMFILE, ENFILE)",
    "ffrfs/mount/kernel/mountpoint.py": "a dead mount (ENOTCONN), a folder that is in use (EBUSY)",
    "ffrfs/mount/daemon/tree_probe.py": "whether a mount answers at all, or has ended (ENOTCONN)",
}


def python_files() -> tuple[Path, ...]:
    return sources.files(".py", below="ffrfs")


def native_files() -> tuple[Path, ...]:
    return sources.files(".cc", ".h", below="native")


def heights(rooms: str) -> dict[str, int]:
    """Return room → height; higher rooms call lower ones."""
    lines = rooms.split("\n")
    return {room: -number for number, line in enumerate(lines) for room in line.split()}


PYTHON_HEIGHTS = heights(PYTHON_ROOMS)
NATIVE_HEIGHTS = heights(NATIVE_ROOMS)


def room_of(module: str) -> str:
    """Return a module's room: ffrfs.folder.pack → folder; ffrfs.mount.daemon.log → mount.daemon."""
    parts = module.split(".")[1:]
    for length in (2, 1):
        if ".".join(parts[:length]) in PYTHON_HEIGHTS:
            return ".".join(parts[:length])
    return parts[0] if parts else ""


def python_rooms() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in python_files():
        module = sources.module_name(path)
        if module not in PYTHON_FRONT and module.split(".")[1] not in PYTHON_GROUND:
            found.setdefault(room_of(module), []).append(path)
    return found


def native_rooms() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in native_files():
        found.setdefault(path.parts[1], []).append(path)
    return found


def test_the_rooms_are_those_that_exist() -> None:
    assert python_rooms().keys() == PYTHON_HEIGHTS.keys()
    assert native_rooms().keys() == NATIVE_HEIGHTS.keys()


def python_upcalls() -> Iterator[str]:
    for room, paths in python_rooms().items():
        for path in paths:
            for line, target in sources.imports(path):
                wanted = room_of(target)
                if not target.startswith("ffrfs.") or wanted == room or wanted in PYTHON_GROUND:
                    continue
                # A name of the front (`from ffrfs import x`) is above all rooms.
                if PYTHON_HEIGHTS.get(wanted, sys.maxsize) >= PYTHON_HEIGHTS[room]:
                    yield f"{path}:{line} imports {target}"


def ground_upcalls() -> Iterator[str]:
    """errors.py may import only printable.py of ours, and printable.py nothing of ours."""
    for path in python_files():
        if path.parts[1] in ("errors.py", "printable.py"):
            is_error = path.parts[1] == "errors.py"
            for line, target in sources.imports(path):
                if is_error and room_of(target) == "printable":
                    continue
                if target.startswith("ffrfs."):
                    yield f"{path}:{line} imports {target}"


def test_python_rooms_call_downwards_only() -> None:
    assert [*python_upcalls(), *ground_upcalls()] == []


def native_upcalls() -> Iterator[str]:
    for room, paths in native_rooms().items():
        for path in paths:
            for ours, name in sources.includes(path):
                if not ours:
                    continue
                wanted = name.split("/")[0]
                height = NATIVE_HEIGHTS.get(wanted, sys.maxsize)
                if wanted != room and height >= NATIVE_HEIGHTS[room]:
                    yield f'{path} includes "{name}"'
                elif not (sources.CHECKOUT / "native" / name).is_file():
                    yield f'{path} includes "{name}", which is not named from native/'


def test_native_rooms_call_downwards_only() -> None:
    assert list(native_upcalls()) == []


def file_cycles(needs: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of files in which each file needs all others, directly or not."""

    def reach(begin: str) -> set[str]:
        found: set[str] = set()
        todo = [begin]
        while todo:
            new = needs[todo.pop()] - found
            found |= new
            todo += new
        return found

    above = {name: reach(name) for name in needs}
    groups = {
        tuple(sorted(other for other in above[name] if name in above[other]))
        for name in needs
        if name in above[name]
    }
    return [list(group) for group in sorted(groups)]


def test_python_files_are_in_no_cycle() -> None:
    """Imports inside functions count. The fronts do not: `from ffrfs import _native` names one."""
    modules = {sources.module_name(path): path for path in python_files()}
    needs: dict[str, set[str]] = {}
    for module, path in modules.items():
        needs[module] = set()
        for _, target in sources.imports(path):
            wanted = target if target in modules else target.rpartition(".")[0]
            if wanted in modules and wanted not in PYTHON_FRONT:
                needs[module].add(wanted)
    assert file_cycles(needs) == []


def test_native_files_are_in_no_cycle() -> None:
    needs = {
        str(path.relative_to("native")): {name for ours, name in sources.includes(path) if ours}
        for path in native_files()
    }
    assert file_cycles(needs) == []


def line_count(path: Path) -> int:
    return sources.text(path).count("\n")


def test_files_are_small() -> None:
    found = {
        str(path): line_count(path)
        for path in [*python_files(), *native_files()]
        if line_count(path) > FILE_LINES_MAX
    }
    assert found == {}


def python_functions(path: Path) -> Iterator[tuple[str, int]]:
    for node in sources.nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def native_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield (head, line count), by layout: `) … {` ends a head, a brace in its column the body."""
    lines = sources.text(path).split("\n")
    for begin, line in enumerate(lines):
        body = re.match(r"(|  )[^ /#].*\)(?: (?:const|noexcept|override|-> .*))* \{$", line)
        if body is None or re.match(r" *(?:if|for|while|switch|} else|} catch)\b", line):
            continue
        ends = (n for n in range(begin + 1, len(lines)) if lines[n].startswith(f"{body[1]}}}"))
        yield line.strip(), next(ends, begin) - begin + 1


def test_functions_fit_a_screen() -> None:
    found = {
        f"{path}: {name}": length
        for path, functions in [
            *((path, python_functions(path)) for path in python_files()),
            *((path, native_functions(path)) for path in native_files()),
        ]
        for name, length in functions
        if length > FUNCTION_LINES_MAX
    }
    assert found == {}


@pytest.mark.parametrize(
    ("headers", "room"),
    [(r"pybind11/|Python\.h|numpy/", "python"), (r"fuse|linux/io_uring", "fuse")],
)
def test_library_headers_are_included_only_in_their_room(headers: str, room: str) -> None:
    found = [
        f"{path} includes <{name}>"
        for path in native_files()
        if path.parts[1] != room
        for ours, name in sources.includes(path)
        if not ours and re.match(headers, name)
    ]
    assert found == []


@pytest.mark.parametrize("owned", OWNERS)
def test_only_owners_import_a_module(owned: str) -> None:
    found = [
        f"{path}:{line}"
        for path in python_files()
        if not any(map(path.match, OWNERS[owned].split()))
        for line, target in sources.imports(path)
        if target.split(".")[0] == owned
    ]
    assert found == []


def test_errno_is_imported_only_beside_system_calls() -> None:
    found = {
        str(path)
        for path in python_files()
        for _, target in sources.imports(path)
        if target.split(".")[0] == "errno"
    }
    assert found <= ERRNO_READERS.keys()


def prints(path: Path) -> Iterator[int]:
    for node in sources.nodes(path):
        if isinstance(node, ast.Name) and node.id == "print":
            yield node.lineno
        # Only sys.stderr as such is allowed: a log may go there.
        if isinstance(node, ast.Attribute) and re.match(
            r"sys\.(stdout|stderr\.(write|buffer))", ast.unparse(node)
        ):
            yield node.lineno


def test_only_commands_print() -> None:
    found = [
        f"{path}:{line}"
        for path in python_files()
        if path.parts[1] != "cli"
        for line in prints(path)
    ]
    assert found == []


def code_runners(path: Path) -> Iterator[int]:
    """Yield the lines that could run code from a file: pickle's readers, eval, exec."""
    readers = {"load", "loads", "Unpickler", "_load", "_loads", "_Unpickler"}
    modules = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
    for line, target in sources.imports(path):
        module, _, name = target.partition(".")
        if module in modules and name in readers:
            yield line
    for node in sources.nodes(path):
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


# `mount` and `convert` are functions of ffrfs, too: their packages are loaded, but empty.
HEAVY = [
    *("trio", "pyfuse3", "torch", "ray", "dask", "distributed", "mpi4py", "pyarrow", "numpy"),
    *("rich", "tqdm", "google", "fsspec", "obstore", "asyncio", "cv2", "PIL", "argparse"),
    *("ffrfs.remote.settings", "ffrfs.remote.session", "ffrfs.remote.origin"),
    *("ffrfs.remote.store", "ffrfs.cache.*", "ffrfs.mount.*", "ffrfs.convert.*"),
]


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import ffrfs", HEAVY),
        ("from ffrfs import FileReader, PackedFolder", HEAVY),
        ("from ffrfs import pack_folder", [name for name in HEAVY if name != "numpy"]),
        ("import ffrfs.cli.start", ["typing", "argparse", "ffrfs.errors"]),
        ("import ffrfs.cli.main as main; main.make_parser()", ["importlib.metadata"]),
        ("import ffrfs.mount.daemon.daemon", ["trio", "pyfuse3", "torch", "numpy"]),
        ("import ffrfs.mount.engines.native_engine", ["trio", "pyfuse3", "ffrfs._native"]),
        ("import ffrfs.mount.engines.pyfuse3_engine", ["torch", "numpy"]),
        ("import ffrfs.mount.client.watched", ["rich", "termios", "trio", "ffrfs.top.*"]),
    ],
)
def test_imports_load_no_heavy_modules(statement: str, heavy: list[str]) -> None:
    program = (
        f"import sys, fnmatch; {statement}; "
        f"print(*(m for m in sys.modules if any(fnmatch.fnmatch(m, h) for h in {heavy!r})))"
    )
    result = python("-c", program, cwd=sources.CHECKOUT, check=True)
    assert result.stdout.split() == []
