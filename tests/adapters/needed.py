"""Libraries for tests of adapters: without its library, a test is skipped, and fails in CI."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def needed(module: str) -> Any:
    """Return `module`. Works during collection, too, where tests/conftest.py sees no skip."""
    if os.environ.get("CI") == "true":
        return importlib.import_module(module)
    return pytest.importorskip(module, reason=f"{module} is not here: make check-loaders")
