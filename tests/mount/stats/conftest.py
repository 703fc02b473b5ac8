"""The engine of the tests of the statistics, which are the same code for both."""

from __future__ import annotations

from tests.mount.one_engine import engine

__all__ = ["engine"]
