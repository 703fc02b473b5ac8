"""The mount, from the bottom up: kernel, config, engines, stats, and above them daemon and client,
which do not know each other.

Not here: the tree and its bytes (ffrfs._native.Volume), printing (ffrfs.cli).
"""
