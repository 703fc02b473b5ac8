"""How much is measured, and where."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path

from benchmarks.contenders import Field


@dataclass(frozen=True)
class Plan:
    """Counts and sizes of one run; the targets are stated for the defaults."""

    folder: Path  # temporary, on a real disk; parts make and remove their own below it
    field: Field
    rounds: int = 9  # reading, opening, tfrecord, and the short measurements of indexes
    long_rounds: int = 3  # packing, mounting, streaming, prefetching, and the rest of indexes
    large_size: int = 110_000  # bytes: an ImageNet-like picture
    small_size: int = 4_500
    huge_size: int = 4 << 30  # streaming
    record_count: int = 4_000  # reading
    batch_count: int = 100  # reading, tfrecord
    batch_size: int = 64  # records in a batch
    large_count: int = 20_000  # packing, mounting
    small_count: int = 100_000
    large_sample: int = 4_000  # of these, read at random in a timed pass
    small_sample: int = 10_000
    opened_count: int = 1_000_000  # opening
    example_count: int = 9_000  # tfrecord: Examples with a picture of large_size each
    epoch_small: int = 50_000  # epoch: files of small_size
    epoch_large: int = 6_000  # and of large_size
    slow_count: int = 20_000  # prefetching: files of large_size
    slow_sample: int = 6_000  # of these, read in a pass; a peer takes some ten seconds
    indexed_count: int = 1_000_000  # indexes: files of indexed_size, on the disk and in packs
    indexed_size: int = 1_000
    vast_count: int = 10_000_000  # files of 8 bytes that are in a pack only
    lookup_count: int = 1_000  # names looked up in a folder of indexed_count
    shard_count: int = 64
    task_files: int = 200_000  # cluster: files of small_size, in shard_count shards
    tiny_shards: int = 1_000  # shards of one small file
    listed_files: int = 100_000_000  # of an invented listing
    listed_shards: int = 20_000
    verified_size: int = 10_000_000_000  # bytes, in files of large_size
    remote_count: int = 20_000  # remote: files of large_size in a pack far away
    remote_sample: int = 400  # of these, which are also single objects
    quota_count: int = 36_400  # files of large_size in a pack that its cache cannot hold
    quota_sample: int = 5_000  # of these, the number that is read
    quota_size: int = 1_000_000_000  # bytes of that cache
    original_count: int = 100_000  # reference: records as in the benchmark of ffrecord
    original_size: int = 1_000
    written_sizes: dict[int, int] = dataclass_field(  # tfrecord: size and count of written records
        default_factory=lambda: {100: 1_000_000, 100_000: 10_000}
    )
    record_sizes: dict[int, int] = dataclass_field(  # reference: size and count
        default_factory=lambda: {4 << 10: 32_000, 64 << 10: 8_000, 1 << 20: 512}
    )

    @classmethod
    def quick(cls, folder: Path, field: Field) -> Plan:
        """Return a small plan, to see in seconds that everything runs; its figures mean nothing."""
        return cls(
            folder,
            field,
            rounds=1,
            long_rounds=1,
            huge_size=6 << 20,  # over 4 MiB, where ffrfs verifies a record by its chunks
            record_count=200,
            batch_count=3,
            large_count=20,
            small_count=50,
            large_sample=10,
            small_sample=40,
            opened_count=5_000,
            example_count=200,
            epoch_small=300,
            epoch_large=60,
            slow_count=600,
            slow_sample=300,
            indexed_count=2_000,
            vast_count=20_000,
            lookup_count=50,
            shard_count=4,
            task_files=400,
            tiny_shards=10,
            listed_files=20_000,
            listed_shards=20,
            verified_size=4_000_000,
            remote_count=100,
            remote_sample=8,
            quota_count=300,
            quota_sample=300,
            quota_size=16 << 20,
            original_count=300,
            written_sizes={100: 1_000, 100_000: 20},
            record_sizes={64 << 10: 256},
        )

    def sets(self) -> list[tuple[int, int]]:
        """Return count and size of the files of each generated folder of small files."""
        return [(self.large_count, self.large_size), (self.small_count, self.small_size)]
