"""Speed and memory of ffrfs, as ratios to other programs measured in the same run.

`make bench`, or `python -m benchmarks [PART ...] [--quick] [--dir DIR] [--output DIR]`. A
benchmark, never a test: it prints and writes what it measured, beside the target, and a missed
target is no failure. Wrong bytes are.

Parts: reading.py, streaming.py, packing.py, mounting.py, opening.py, tfrecord.py (with
scalars.py, mounted_examples.py and hops.c), prefetching.py (with slow_files.py, slow_disk.py
and .c, hints.py and aio_batches.c), indexes.py (with index_packs.py, first_listing.py,
footprint.py, wide_folder.py, many_files.py, shards.py and verifying.py), reference.py (with
original.py and records.py); each has
run(Plan) → Findings (figure.py).
Who is compared: contenders.py, with packers.py, mounts.py and ratarmount.py.
What `make demo` shows of a slow disk: slow_demo.py.
What runs in children: reader.py, streamer.py, loader.py, lookups.py and what walk.py and
first_listing.py start: the only ones to touch a mount.
Machinery: plan.py how much, data.py what is read, measure.py rounds and child processes,
page_cache.py and memory.py what is held, machine.py where it was measured, report.py and
plots.py the results.
"""
