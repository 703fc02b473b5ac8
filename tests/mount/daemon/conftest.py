"""The engine for the tests of the daemon, whose code is the same for both engines."""

from __future__ import annotations

from tests.mount.one_engine import engine

__all__ = ["engine"]
