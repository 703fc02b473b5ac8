"""How much is measured, and where."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Plan:
    """Counts and sizes of one run; the defaults are those the targets are stated for."""

    folder: Path  # temporary, on a real disk; parts make and remove their own below it
    rounds: int = 9
    large_size: int = 110_000  # bytes: an ImageNet-like picture
    small_size: int = 4_500
    record_count: int = 4_000  # reading
    batch_count: int = 100
    batch_size: int = 64  # records in a batch
    packed_count: int = 20_000  # packing
    mounted_large_count: int = 4_000  # mounting
    mounted_small_count: int = 10_000
    opened_count: int = 1_000_000  # opening

    @classmethod
    def quick(cls, folder: Path) -> Plan:
        """Small enough to see in seconds that everything runs; its figures mean nothing."""
        return cls(
            folder,
            rounds=3,
            record_count=200,
            batch_count=3,
            packed_count=60,
            mounted_large_count=50,
            mounted_small_count=50,
            opened_count=5_000,
        )
