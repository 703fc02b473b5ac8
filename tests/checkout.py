"""The path of the checkout. Tests read nothing outside of it."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
