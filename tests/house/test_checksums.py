"""Python code takes its checksums from the core (docs/decisions/030-checksums.md)."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house import sources

CHECKSUMS = {("ffrfs._native", "crc32"), ("ffrfs._native", "crc32c")}
NAMES = {"crc32", "crc32c", "adler32", "crc_hqx"}


def checksums(path: Path) -> list[tuple[str, str]]:
    """Return (module, function) of each checksum function that a file names."""
    found = []
    for node in sources.nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.append((node.value.id, node.attr))
    return [pair for pair in found if pair[1] in NAMES]


def test_checksums_come_from_one_place() -> None:
    found = {
        (module, function): path
        for path in sources.files(".py", below="ffrfs")
        for module, function in checksums(path)
    }
    assert found.keys() == CHECKSUMS, found
