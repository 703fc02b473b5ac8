"""Speed and memory of ffrfs, as ratios to other programs measured in the same run.

`make bench`, or `python -m benchmarks [PART ...] [--quick] [--dir DIR]`. A benchmark, never
a test: it prints and writes what it measured, beside the target, and a missed target is no
failure. Wrong bytes are.

Parts: reading.py, packing.py, mounting.py, opening.py; each has run(Plan) → figures.
Machinery: plan.py how much, data.py what is read, measure.py rounds and child processes,
report.py the table and the JSON; reader.py is the program that reads a mounted tree.
"""
