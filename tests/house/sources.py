"""The source files of the project, with their imports and includes."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.checkout import CHECKOUT

_ROOMS = ("ffrfs", "native", "tests", "benchmarks", "examples", "docs", "systemd", ".ci", ".github")
_TEXT = {"", ".py", ".pyi", ".cc", ".h", ".txt", ".md", ".toml", ".service", ".mount", ".in"}
_INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


@functools.cache
def files(*suffixes: str, below: str = "") -> tuple[Path, ...]:
    """Return files of the checkout, relative to it, but none that was built or downloaded."""
    # In a worktree, `.git` is a file that names the repository.
    found = [path for path in CHECKOUT.iterdir() if path.is_file() and path.name != ".git"]
    for room in _ROOMS:
        found += (path for path in (CHECKOUT / room).rglob("*") if path.is_file())
    relative = (path.relative_to(CHECKOUT) for path in found)
    return tuple(
        sorted(
            path
            for path in relative
            if path.suffix in (suffixes or _TEXT)
            and path.is_relative_to(below)
            and not {"__pycache__", "ffrfs-worker", "ffrfs-guardian"} & set(path.parts)
        )
    )


@functools.cache
def text(path: Path) -> str:
    return (CHECKOUT / path).read_text(encoding="utf-8")


@functools.cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(text(path), str(path))


def module_name(path: Path) -> str:
    """ffrfs/mount/daemon.py → "ffrfs.mount.daemon"; ffrfs/mount/__init__.py → "ffrfs.mount"."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the file's syntax tree, as ast.walk() yields them."""
    return tuple(ast.walk(syntax(path)))


@functools.cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Return (line, module) of each import anywhere in the file, also inside functions.

    `from a import b` gives "a.b": b may be a module, and if it is not, the prefix a decides.
    """
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    package = path.parent.parts
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module or "").split("."))
            for alias in node.names:
                yield node.lineno, ".".join((*filter(None, module), alias.name))


def includes(path: Path) -> Iterator[tuple[bool, str]]:
    """Yield (is it ours, that is, in quotes; name) of each #include."""
    for match in _INCLUDE.finditer(text(path)):
        yield match[1] == '"', match[2]
