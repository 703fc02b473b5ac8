"""Speed and memory of ffrfs, as ratios to other programs measured in the same run.

`make bench`, or `python -m benchmarks [PART ...] [--quick] [--dir DIR] [--output DIR]`. A
benchmark, never a test: it prints and writes what it measured, beside the target, and a missed
target is no failure. Wrong bytes are.

Parts: reading.py, streaming.py, packing.py, mounting.py, opening.py, tfrecord.py (with
scalars.py, mounted_examples.py and hops.c), prefetching.py (with slow_files.py, slow_disk.py
and .c, hints.py and aio_batches.c), indexes.py (with index_packs.py, first_listing.py,
footprint.py, wide_folder.py, many_files.py, shards.py and verifying.py), reference.py (with
original.py and records.py), epoch.py, remote.py (with remote_site.py, remote_peers.py and
remote_quota.py), cluster.py (with cluster_plan.py); each has run(Plan) → Findings (figure.py).
The contenders: contenders.py, with packers.py, mounts.py and ratarmount.py.
The slow disk of `make demo`: slow_demo.py.
Children run reader.py, streamer.py, loader.py, lookups.py, and the programs that walk.py and
first_listing.py start: only these touch a mount.
Machinery: plan.py has the amounts, data.py the data, measure.py rounds and child processes,
page_cache.py and memory.py the memory in use, machine.py the machine, report.py and plots.py
the results.
"""
