"""Where the checkout is. Nothing outside of it is read."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
